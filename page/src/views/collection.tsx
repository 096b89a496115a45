/** One collection: what arrived, what stands out, and keys to look for. */
import { useCallback } from "preact/hooks";
import { type Activity, type Arriving, ask, pathOf, type Status } from "../api.ts";
import { change, write } from "../address.ts";
import { Chart, type Draw } from "../charts.tsx";
import { ago, brief, count } from "../format.ts";
import { Answer, Card, Empty, Figure, Heading, Name } from "../parts.tsx";
import { type Query, useAsk } from "../query.ts";
import { Compare } from "./compare.tsx";
import { TopList } from "./top.tsx";

const LIVE_S = 2; // how soon an arrival shows

export interface Shown {
  about: Arriving;
  status: Status;
  share: boolean; // whether means are shares of people
  epoch: string; // of the address: a number, "all", or "" for the latest
}

export function Collection({ digest, query, asked }: { digest: string; query: URLSearchParams; asked: Query<Activity> }) {
  const status = useAsk(digest, (signal) => ask<Status>(pathOf(digest), { signal }), LIVE_S);
  const about = asked.data?.collections.find((each) => each.digest === status.data?.digest);
  return (
    <>
      <nav aria-label="Where you are">
        <a href={write([])}>Collections</a> <span aria-hidden="true">/</span>
      </nav>
      <Heading title={status.data?.name || digest}>
        <Name of={status.data?.name || digest} longest={80} />
        {status.data?.state === "closed" && <span class="badge">closed</span>}
      </Heading>
      <Answer asked={status} lines={8}>
        {(found) => about && <Found now={asked.data!.now} shown={{
          about, status: found, share: about.values === "set", epoch: query.get("epoch") ?? "",
        }} query={query} />}
      </Answer>
    </>
  );
}

function Found({ shown, now, query }: { shown: Shown; now: number; query: URLSearchParams }) {
  const { about, status } = shown;
  return (
    <>
      <p class="promise">
        {about.guarantee} <a href={write(["c", status.digest, "plan"])}>The plan, explained</a>
      </p>
      <dl class="figures">
        <Figure id="sealed" label="Reports counted">{count(status.reports)}</Figure>
        <Figure id="pending" label="Waiting for a seal" note="counted within a minute">{count(status.pending)}</Figure>
        <Figure id="hour" label="This hour" note={`${brief(about.hours.at(-2)!)} in the hour before`}>{brief(about.hours.at(-1)!)}</Figure>
        <Figure id="last" label="Last report">
          {about.last_report === null ? "none since start" : ago(now - about.last_report)}
        </Figure>
      </dl>
      <Arrivals shown={shown} now={now} by={query.get("by") ?? "hour"} />
      {status.reports === 0 ? <Early pending={status.pending} /> : (
        <>
          <TopList shown={shown} query={query} />
          <Compare shown={shown} keys={query.getAll("key")} />
        </>
      )}
    </>
  );
}

function Early({ pending }: { pending: number }) {
  return (
    <Card title="Answers">
      <Empty title={pending ? "The first reports have arrived." : "No report yet."}>
        {pending
          ? "They are stored, and answers include them once they are sealed, within a minute."
          : "Devices send to this collector's address; the first report shows here within seconds."}
      </Empty>
    </Card>
  );
}

function Arrivals({ shown: { about, status }, now, by }: { shown: Shown; now: number; by: string }) {
  const total = about.hours.reduce((sum, each) => sum + each, 0);
  const hour = Math.floor(now / 3600);
  const hours = useCallback<Draw>((plots, width) => plots.hoursChart(about.hours, now, width), [about.hours.join(), hour]);
  const epochs = useCallback<Draw>((plots, width) => plots.epochsChart(status.epochs, width), [JSON.stringify(status.epochs)]);
  const tab = (name: string, words: string) => (
    <button type="button" aria-pressed={by === name} onClick={() => change({ by: name })}>{words}</button>
  );
  const open = status.epochs.filter((each) => each.state === "open").length;
  return (
    <Card title="Reports" tools={<>{tab("hour", "By hour")}{tab("epoch", "By epoch")}</>}>
      {by === "hour" ? (
        <>
          <Chart draw={hours} label={`${count(total)} reports in the last ${about.hours.length} hours, by hour`} />
          <p class="soft small">Whole hours (UTC), kept in memory since the collector started. No finer times are kept.</p>
        </>
      ) : (
        <>
          <Chart draw={epochs} label={`Reports of ${count(status.epochs.length)} epochs`} />
          <p class="soft small">
            {count(status.epochs.length)} epochs, {count(open)} of them open. Pale reports wait for a seal.
          </p>
        </>
      )}
    </Card>
  );
}
