/** Keys side by side, now and over the epochs. */
import { useCallback, useState } from "preact/hooks";
import { ask, call, type Estimates, type Key, PARQUET, pathOf } from "../api.ts";
import { change } from "../address.ts";
import { Chart, type Draw, drawn, SERIES, WIDTH } from "../charts.tsx";
import { count, mean } from "../format.ts";
import { Answer, Card, Empty, Name } from "../parts.tsx";
import { useAsk } from "../query.ts";
import { csv, fileName, png, save } from "../save.ts";
import { Collisions } from "./collisions.tsx";
import type { Shown } from "./collection.tsx";
import { Bars, Notes } from "./top.tsx";

export function Compare({ shown, keys }: { shown: Shown; keys: string[] }) {
  const [text, setText] = useState("");
  const add = (event: Event) => {
    event.preventDefault();
    if (text !== "") change({ key: [...new Set([...keys, text])] });
    setText("");
  };
  return (
    <Card id="compare" title="Look for keys">
      <form class="search" onSubmit={add}>
        <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)}
          placeholder={shown.about.universe === "indexed" ? "A number, then Enter" : "A key, then Enter"} aria-label="Key to look for" />
        <button type="submit">Look</button>
      </form>
      {keys.length > 0 && (
        <ul class="chips" aria-label="Keys that are compared">
          {keys.map((key, i) => (
            <li key={key} class={`series-${(i % SERIES) + 1}`}>
              <Name of={key} longest={40} />
              <button type="button" class="plain" aria-label="Remove this key" onClick={() => change({ key: keys.filter((each) => each !== key) })}>×</button>
            </li>
          ))}
        </ul>
      )}
      {keys.length === 0 ? <Empty title="No key chosen.">Type one, or choose one from the list above, to see it over the epochs.</Empty> : (
        <Compared shown={shown} texts={keys} />
      )}
    </Card>
  );
}

function Compared({ shown, texts }: { shown: Shown; texts: string[] }) {
  const { about, status, epoch, share } = shown;
  const keys: Key[] = about.universe === "indexed" ? texts.map((text) => (/^\d{1,15}$/.test(text) ? Number(text) : text)) : texts;
  const path = pathOf(status.digest);
  const body = { keys, ...(epoch && { epoch: epoch === "all" ? epoch : Number(epoch) }) };
  const name = [status.digest, epoch, status.reports, ...texts].join("\n");
  const now = useAsk(name, (signal) => ask<Estimates>(`${path}/estimates`, { body, signal }));
  const epochs = status.epochs.filter((each) => each.reports).length;
  const past = useAsk(epochs > 1 ? name : null, (signal) => ask<{ epochs: Estimates[] }>(`${path}/history`, { body: { keys }, signal }));
  const called = about.name || about.digest;
  const saveParquet = async () => {
    const answer = await call(`${path}/estimates`, { body, accept: PARQUET });
    save(await answer.arrayBuffer(), fileName(called, "keys", "parquet"), PARQUET);
  };
  const savePng = async (found: Estimates) => {
    const draw: Draw = (plots, width) => plots.topChart(found.estimates, found.noise_floor_all, share, width);
    save(await png(await drawn(draw, WIDTH, "Keys side by side")), fileName(called, "keys", "png"), "image/png");
  };
  return (
    <>
      <Answer asked={now}>
        {(found) => (
          <>
            <Bars rows={found.estimates.map((row) => ({ row }))} all={found.estimates} floor={found.noise_floor_all} shown={shown} />
            <p class="soft small">
              Unbiased, in {count(found.reports)} reports of {found.epoch === "all" ? "all epochs" : `epoch ${found.epoch}`}.
              A key that nobody holds may show up to {mean(found.noise_floor_all, share)} either side of 0.
            </p>
            <Notes notes={found.notes} />
            <p class="exports">
              <span class="soft">Save as</span>
              <button type="button" onClick={() => save(csv(found.estimates), fileName(called, "keys", "csv"), "text/csv")}>CSV</button>
              <button type="button" onClick={saveParquet}>Parquet</button>
              <button type="button" onClick={() => savePng(found)}>PNG</button>
            </p>
          </>
        )}
      </Answer>
      {epochs > 1 && (
        <Answer asked={past}>{(found) => <History epochs={found.epochs} keys={keys} share={share} called={called} />}</Answer>
      )}
      {about.universe === "open" && <Collisions digest={status.digest} keys={texts} />}
    </>
  );
}

function History({ epochs, keys, share, called }: { epochs: Estimates[]; keys: Key[]; share: boolean; called: string }) {
  const draw = useCallback<Draw>((plots, width) => plots.historyChart(epochs, keys, share, width), [epochs, keys.join("\n"), share]);
  const rows = epochs.flatMap((each) => each.estimates.map((row) => ({ epoch: each.epoch, ...row })));
  const savePng = async () =>
    save(await png(await drawn(draw, WIDTH, "Keys over epochs")), fileName(called, "history", "png"), "image/png");
  return (
    <>
      <h3>Over the epochs</h3>
      <Chart draw={draw} label={`${count(keys.length)} keys over ${count(epochs.length)} epochs, with intervals of 95 %; the noise floor is shaded`} />
      <p class="exports">
        <span class="soft">Save as</span>
        <button type="button" onClick={() => save(csv(rows), fileName(called, "history", "csv"), "text/csv")}>CSV</button>
        <button type="button" onClick={savePng}>PNG</button>
      </p>
    </>
  );
}
