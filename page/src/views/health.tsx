/** How the collector is doing. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Activity, Arriving } from "../api.ts";
import { write } from "../address.ts";
import { Chart, type Draw } from "../charts.tsx";
import { ago, brief, bytes, count, duration } from "../format.ts";
import { Answer, Card, Empty, Figure, Heading, Name } from "../parts.tsx";
import type { Query } from "../query.ts";

const WINDOW_S = 300; // over which rate and latency are taken
const SILENT_S = 3600;
const SCARCE = 0.1; // of the disk

const REASONS: Record<string, string> = {
  BAD_REPORTS: "bytes that are not a batch of this plan: a client of another version, or damage in transit",
  BUSY: "the inbox was full, and senders were told to wait",
  CANNOT_STORE: "the disk failed or was full",
  CLOSED: "reports for an epoch or a collection that is closed",
  NO_REQUEST_ID: "requests without an id",
  REQUEST_REUSED: "one id with two bodies: a client does not draw its ids at random",
  STOPPING: "the collector was being stopped",
  TOKEN_MISSING: "no token where one is needed",
  TOKEN_UNKNOWN: "a token of another collection or epoch, or a forged one",
  TOKEN_USED: "a token that was used before",
  UNKNOWN_EPOCH: "an epoch that is not open: check whether a clock is wrong",
  OTHER: "refused before the collection was known: an unknown collection, no credential, a body too large",
};

interface Sample {
  at: number;
  reports: number;
  waits: [number | null, number][];
}

/** Return the time that 99 of 100 requests took at most, between two samples. */
export function p99(first: Sample["waits"], last: Sample["waits"]): number | null {
  const before = new Map(first.map(([limit, number]) => [limit, number]));
  const counts = last.map(([limit, number]) => [limit, number - (before.get(limit) ?? 0)] as const);
  const total = counts.at(-1)?.[1] ?? 0;
  if (!total) return null;
  return counts.find(([, number]) => number >= 0.99 * total)![0] ?? Infinity;
}

export function HealthView({ asked }: { asked: Query<Activity> }) {
  return (
    <>
      <Heading title="Health">Health</Heading>
      <Answer asked={asked} lines={8}>{(found) => <Found found={found} />}</Answer>
    </>
  );
}

function Found({ found: { now, health, collections } }: { found: Activity }) {
  const samples = useRef<Sample[]>([]);
  const [, redraw] = useState(0);
  useEffect(() => {
    const kept = samples.current.filter((each) => now - each.at < WINDOW_S);
    // A restart counts from 0 again.
    const mine = kept.at(-1) && kept.at(-1)!.reports > health.reports ? [] : kept;
    samples.current = [...mine, { at: now, reports: health.reports, waits: health.waits }];
    redraw(now);
  }, [now]);
  const seen = samples.current;
  const rates = seen.slice(1).map((each, i) => ({ at: each.at, rate: (each.reports - seen[i].reports) / (each.at - seen[i].at) }));
  const rate = rates.length ? (seen.at(-1)!.reports - seen[0].reports) / (seen.at(-1)!.at - seen[0].at) : null;
  const slow = (seen.length > 1 ? p99(seen[0].waits, seen.at(-1)!.waits) : null) ?? p99([], health.waits);
  const draw = useCallback<Draw>((plots, width) => plots.rateChart(rates, width), [now]);
  const free = health.disk_free / health.disk_total;
  return (
    <>
      <dl class="figures">
        <Figure id="rate" label="Reports a second" note={`${count(health.reports)} since start`}>{rate === null ? "…" : brief(Math.round(10 * rate) / 10)}</Figure>
        <Figure id="p99" label="p99 of sending" note="of 100 requests, 99 took less">
          {slow === null ? "–" : slow === Infinity ? "over 60 s" : `≤ ${duration(slow)}`}
        </Figure>
        <Figure id="queue" label="Queue" note="requests that wait for the disk">{count(health.waiting)}</Figure>
        <Figure id="inbox" label="To be sealed" note={bytes(health.pending_bytes)}>{brief(health.pending)}</Figure>
        <Figure id="seal" label="Last seal">{health.last_seal === null ? "none since start" : ago(now - health.last_seal)}</Figure>
        <Figure id="disk" label="Disk free" note={`of ${bytes(health.disk_total)}`}>
          <span class={free < SCARCE ? "bad" : ""}>{bytes(health.disk_free)}</span>
        </Figure>
      </dl>
      <Card title="Reports a second">
        {rates.length > 1 ? <Chart draw={draw} label={`Reports a second in the last ${Math.round(now - seen[0].at)} seconds`} /> : <Empty title="Measuring…">The line grows while this page is open.</Empty>}
      </Card>
      <Card title="Refused">
        <Refusals refusals={health.refusals} failed={health.failed} />
      </Card>
      <Card title="Silent collections">
        <Silent collections={collections} now={now} />
      </Card>
    </>
  );
}

function Refusals({ refusals, failed }: { refusals: Record<string, number>; failed: number }) {
  const rows = Object.entries(refusals).sort((a, b) => b[1] - a[1]);
  return (
    <>
      {failed > 0 && <p class="bad">{count(failed)} commits or seals failed since the start; the log says why.</p>}
      {rows.length === 0 ? <Empty title="No request was refused since the start." /> : (
        <table class="facts" id="refusals">
          <thead><tr><th scope="col">Reason</th><th scope="col" class="number">Requests</th><th scope="col">What it means</th></tr></thead>
          <tbody>
            {rows.map(([code, number]) => (
              <tr key={code}><th scope="row"><code>{code}</code></th><td class="number">{count(number)}</td><td>{REASONS[code] ?? "see the reference of codes"}</td></tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function Silent({ collections, now }: { collections: Arriving[]; now: number }) {
  const rows = collections.filter((each) => each.state === "open" && now - (each.last_report ?? 0) > SILENT_S);
  if (!rows.length) return <Empty title="Every open collection had a report within the last hour." />;
  return (
    <ul class="silent">
      {rows.slice(0, 50).map((each) => (
        <li key={each.digest}>
          <a href={write(["c", each.digest])}><Name of={each.name || each.digest} longest={60} /></a>{" "}
          <span class="soft">{each.last_report === null ? "no report since the start" : `last report ${ago(now - each.last_report)}`}</span>
        </li>
      ))}
      {rows.length > 50 && <li class="soft">and {count(rows.length - 50)} more</li>}
    </ul>
  );
}
