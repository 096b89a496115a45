/** The largest means: posterior in front, unbiased behind it, the noise floor shaded. */
import { useEffect, useState } from "preact/hooks";
import { ask, call, type Call, PARQUET, pathOf, type Row, type Top } from "../api.ts";
import { change, packed, unpacked } from "../address.ts";
import { type Draw, drawn, WIDTH } from "../charts.tsx";
import { count, mean } from "../format.ts";
import { Answer, Card, Empty, Name } from "../parts.tsx";
import { useAsk } from "../query.ts";
import { csv, fileName, png, save } from "../save.ts";
import type { Shown } from "./collection.tsx";

const SIZES = [20, 100, 1000, 10_000];
// A posterior needs a population: docs/explanation/posterior.md.
const CHOSEN = 500; // keys of an open universe that are asked about together
const FEWEST = 50; // keys of any other
const PAGE = 100; // rows drawn at a time
const DRAWN = 40; // rows of a picture

export function TopList({ shown, query }: { shown: Shown; query: URLSearchParams }) {
  const { about, status, epoch } = shown;
  const size = SIZES.find((each) => String(each) === query.get("count")) ?? SIZES[0];
  const candidates = useCandidates(query.get("candidates"));
  const listed = about.universe !== "open" || candidates.list !== null;
  // A seal changes `reports`, and with them the answer.
  const name = listed && !candidates.loading ? [status.digest, epoch, size, query.get("candidates"), status.reports].join() : null;
  const question = (posterior: boolean, rows = size): [string, Call] => topQuestion(shown, rows, candidates.list, posterior);
  const population = about.keys === null ? (candidates.list?.length ?? 0) >= CHOSEN : about.keys >= FEWEST;
  const asking = (rows: number) => (signal: AbortSignal) => {
    const [path, how] = question(population, rows);
    return ask<Top>(path, { ...how, signal });
  };
  // A long list takes a while to make and to send, so its first rows are asked for before all of them.
  const early = name && size > PAGE && !query.get("page") ? `${name},first` : null;
  const first = useAsk<Top>(early, asking(PAGE));
  const whole = useAsk<Top>(early && first.name !== early ? null : name, asking(size));
  const asked = early && first.name === early && whole.name !== name ? first : whole;
  const tools = (
    <>
      <EpochChoice shown={shown} />
      <label>
        <span class="hidden">Rows</span>
        <select value={size} onChange={(event) => change({ count: event.currentTarget.value, page: null })}>
          {SIZES.map((each) => <option key={each} value={each}>Top {count(each)}</option>)}
        </select>
      </label>
    </>
  );
  return (
    <Card id="top" title="Top keys" tools={tools}>
      <Candidates list={candidates.list} open={about.universe === "open"} />
      {candidates.broken && <Empty title="The candidates of this address cannot be read.">Ask for the address again.</Empty>}
      {name === null ? !candidates.loading && !candidates.broken && <NoCandidates /> : (
        <Answer asked={asked} lines={8}>
          {(found) => <Ranked found={found} partial={asked === first} shown={shown} query={query} question={question} />}
        </Answer>
      )}
    </Card>
  );
}

function NoCandidates() {
  return (
    <Empty title="Any text may be a key here, so there is no list of them all.">
      Paste keys to compare, one per line; those that stand out are marked.
    </Empty>
  );
}

export function EpochChoice({ shown: { status, epoch } }: { shown: Shown }) {
  const counted = status.epochs.filter((each) => each.reports);
  if (counted.length < 2 && !epoch) return null;
  return (
    <label>
      <span class="hidden">Epoch</span>
      <select value={epoch} onChange={(event) => change({ epoch: event.currentTarget.value || null, page: null })}>
        <option value="">Latest epoch</option>
        <option value="all">All epochs</option>
        {counted.map((each) => <option key={each.epoch} value={each.epoch}>Epoch {each.epoch}</option>)}
      </select>
    </label>
  );
}

/** Return the address of a top list, and what to send there. */
function topQuestion(shown: Shown, size: number, list: string[] | null, posterior: boolean): [string, Call] {
  const path = `${pathOf(shown.status.digest)}/top`;
  const epoch = shown.epoch && shown.epoch !== "all" ? Number(shown.epoch) : shown.epoch;
  if (list) {
    const candidates = shown.about.universe === "indexed" ? list.map(Number) : list;
    return [path, { body: { candidates, count: size, posterior, ...(shown.epoch && { epoch }) } }];
  }
  const asked = new URLSearchParams({ count: String(size), posterior: String(posterior) });
  if (shown.epoch) asked.set("epoch", shown.epoch);
  return [`${path}?${asked}`, {}];
}

function Ranked({ found, partial, shown, query, question }: {
  found: Top;
  partial: boolean; // whether more rows are on their way
  shown: Shown;
  query: URLSearchParams;
  question: (posterior: boolean) => [string, Call];
}) {
  const [wanted, setWanted] = useState("");
  const rows = found.estimates.map((row, i) => ({ row, rank: i + 1 }));
  const matching = wanted
    ? rows.filter(({ row }) => String(row.key).toLowerCase().includes(wanted.toLowerCase()))
    : rows;
  const pages = Math.max(1, Math.ceil(matching.length / PAGE));
  const page = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  const seen = matching.slice((page - 1) * PAGE, page * PAGE);
  const name = shown.about.name || shown.about.digest;
  const standing = found.estimates.filter((row) => row.significant).length;
  const savePng = async () => {
    const first = found.estimates.slice(0, DRAWN);
    const draw: Draw = (plots, width) => plots.topChart(first, found.noise_floor_all, shown.share, width);
    save(await png(await drawn(draw, WIDTH, "Top keys")), fileName(name, "top", "png"), "image/png");
  };
  const saveParquet = async () => {
    const [path, how] = question(found.posterior !== undefined);
    const answer = await call(path, { ...how, accept: PARQUET });
    save(await answer.arrayBuffer(), fileName(name, "top", "parquet"), PARQUET);
  };
  return (
    <>
      <p class="found">
        {found.threshold === null ? "Nothing stands out yet." : (
          <>
            <strong>{count(standing)}</strong> of {count(found.estimates.length)} rows stand out. A mean must be at least{" "}
            <strong data-threshold={found.threshold}>{mean(found.threshold, shown.share)}</strong> to stand out among{" "}
            {count(found.compared)} keys in {count(found.reports)} reports.
          </>
        )}
      </p>
      <Legend posterior={found.posterior !== undefined} />
      {rows.length > PAGE && (
        <p class="search">
          <input type="search" placeholder="Find in this list" aria-label="Find in this list" value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)} />
        </p>
      )}
      <Bars rows={seen} all={found.estimates} floor={found.noise_floor_all} shown={shown} />
      {!seen.length && <Empty title="No key of this list matches." />}
      {partial && <p class="soft small" role="status">The first {count(PAGE)} rows; the others follow…</p>}
      {pages > 1 && (
        <nav class="pages" aria-label="Pages of the list">
          <button type="button" disabled={page === 1} onClick={() => change({ page: String(page - 1) })}>Back</button>
          <span>{count((page - 1) * PAGE + 1)} to {count((page - 1) * PAGE + seen.length)} of {count(matching.length)}</span>
          <button type="button" disabled={page === pages} onClick={() => change({ page: String(page + 1) })}>Next</button>
        </nav>
      )}
      <Notes notes={[...found.notes, ...(found.posterior?.notes ?? [])]} />
      <p class="exports">
        <span class="soft">Save as</span>
        <button type="button" onClick={() => save(csv(found.estimates), fileName(name, "top", "csv"), "text/csv")}>CSV</button>
        <button type="button" onClick={saveParquet}>Parquet</button>
        <button type="button" onClick={savePng}>PNG</button>
      </p>
    </>
  );
}

export function Notes({ notes }: { notes: string[] }) {
  if (!notes.length) return null;
  return <ul class="notes soft">{[...new Set(notes)].map((note) => <li key={note}>{note}</li>)}</ul>;
}

function Legend({ posterior }: { posterior: boolean }) {
  return (
    <p class="legend soft small">
      {posterior && <span><i class="swatch front" /> posterior: what all keys together make likely</span>}
      <span><i class={posterior ? "swatch back" : "swatch front"} /> unbiased estimate</span>
      <span><i class="swatch line" /> interval of 95 %</span>
      <span><i class="swatch floor" /> noise: what a key that nobody holds may show</span>
    </p>
  );
}

/** Return where a mean stands in the column of bars, from 0 to 100. */
function scaleOf(rows: Row[], floor: number): (value: number) => number {
  const low = rows.reduce((least, row) => Math.min(least, row.low), -floor);
  const high = rows.reduce((most, row) => Math.max(most, row.high), floor);
  return (value) => (100 * (value - low)) / (high - low);
}

export function Bars({ rows, all, floor, shown }: {
  rows: { row: Row; rank?: number }[];
  all: Row[];
  floor: number;
  shown: Shown;
}) {
  const at = scaleOf(all, floor);
  const posterior = all.some((row) => row.posterior_mean !== undefined);
  const compare = (row: Row) => {
    const keys = new URLSearchParams(location.hash.split("?")[1] ?? "").getAll("key");
    if (!keys.includes(String(row.key))) change({ key: [...keys, String(row.key)] });
  };
  return (
    <table class="bars">
      <thead>
        <tr>
          {rows[0]?.rank !== undefined && <th scope="col"><span class="hidden">Rank</span></th>}
          <th scope="col">Key</th>
          <th scope="col" class="bar"><span class="hidden">Bar</span></th>
          <th scope="col" class="number">{posterior ? "Posterior" : shown.share ? "Share" : "Mean"}</th>
          {posterior && <th scope="col" class="number behind">Unbiased</th>}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ row, rank }) => (
          <tr key={`${rank} ${row.key}`} class={row.significant === false ? "noise" : ""} data-key={row.key}>
            {rank !== undefined && <td class="rank soft">{rank}</td>}
            <th scope="row">
              <button type="button" class="plain" title="Compare over epochs" onClick={() => compare(row)}>
                <Name of={row.key} longest={60} />
              </button>
              {row.significant === false && <small class="soft"> {row.verdict === "no" ? "may be noise" : row.verdict}</small>}
            </th>
            <td class="bar"><Bar row={row} at={at} floor={floor} posterior={posterior} /></td>
            {posterior && <Cell value={row.posterior_mean} low={row.posterior_low} high={row.posterior_high} share={shown.share} kind="front" />}
            <Cell value={row.mean} low={row.low} high={row.high} share={shown.share} kind={posterior ? "behind" : "front"} />
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Cell({ value, low, high, share, kind }: {
  value: number | null | undefined;
  low: number | null | undefined;
  high: number | null | undefined;
  share: boolean;
  kind: string;
}) {
  return (
    <td class={`number ${kind}`} data-mean={value ?? ""} data-low={low ?? ""} data-high={high ?? ""}>
      {mean(value, share)}
      <small class="soft">{value == null ? "maps disagree" : `${mean(low, share)} to ${mean(high, share)}`}</small>
    </td>
  );
}

function Bar({ row, at, floor, posterior }: { row: Row; at: (value: number) => number; floor: number; posterior: boolean }) {
  const box = (from: number, to: number) => ({ x: `${at(Math.min(from, to))}%`, width: `${Math.abs(at(to) - at(from))}%` });
  const front = row.posterior_mean ?? null;
  return (
    <svg height="28" width="100%" aria-hidden="true">
      <rect class="floor" {...box(-floor, floor)} y="0" height="28" />
      <line class="zero" x1={`${at(0)}%`} x2={`${at(0)}%`} y1="0" y2="28" />
      <rect class={posterior ? "back" : "front"} {...box(0, row.mean)} y="5" height="18" rx="2" />
      <line class="interval back" x1={`${at(row.low)}%`} x2={`${at(row.high)}%`} y1={posterior ? 21 : 14} y2={posterior ? 21 : 14} />
      {front !== null && (
        <>
          <rect class="front" {...box(0, front)} y="8" height="10" rx="2" />
          <line class="interval front" x1={`${at(row.posterior_low!)}%`} x2={`${at(row.posterior_high!)}%`} y1="13" y2="13" />
        </>
      )}
    </svg>
  );
}

interface Pasted {
  list: string[] | null;
  loading: boolean;
  broken: boolean;
}

/** Return the candidates that an address has. */
function useCandidates(text: string | null): Pasted {
  const [state, set] = useState<Pasted & { text: string | null }>({ list: null, loading: text !== null, broken: false, text });
  useEffect(() => {
    if (text === null) return set({ list: null, loading: false, broken: false, text });
    let gone = false;
    unpacked(text).then(
      (lines) => gone || set({ list: linesOf(lines), loading: false, broken: false, text }),
      () => gone || set({ list: null, loading: false, broken: true, text }),
    );
    return () => {
      gone = true;
    };
  }, [text]);
  return state.text === text ? state : { list: null, loading: true, broken: false };
}

const linesOf = (text: string): string[] | null => {
  const lines = [...new Set(text.split(/\r?\n/).filter((line) => line !== ""))];
  return lines.length ? lines : null;
};

function Candidates({ list, open }: { list: string[] | null; open: boolean }) {
  const [text, setText] = useState<string | null>(null);
  const use = async (event: Event) => {
    event.preventDefault();
    const lines = linesOf(text ?? "");
    change({ candidates: lines && (await packed(lines.join("\n"))), page: null });
    setText(null);
  };
  return (
    <details class="candidates" open={open && list === null}>
      <summary>{list ? `${count(list.length)} candidates` : "Compare candidates only"}</summary>
      <form onSubmit={use}>
        <label for="candidates">Candidates, one key per line</label>
        <textarea id="candidates" rows={5} spellcheck={false} value={text ?? list?.join("\n") ?? ""}
          onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit">Rank these</button>
        {list && <button type="button" class="plain" onClick={() => change({ candidates: null })}>Remove</button>}
        <p class="soft small">They are sent to the collector and become part of this page's address, but are not logged.</p>
      </form>
    </details>
  );
}

