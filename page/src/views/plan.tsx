/** The plan, for people who have never read a proof. */
import { useCallback, useMemo, useState } from "preact/hooks";
import { type Anatomy, ask, pathOf, type Status } from "../api.ts";
import { write } from "../address.ts";
import { Chart, type Draw } from "../charts.tsx";
import { count, percent } from "../format.ts";
import { Answer, Card, Heading, Name } from "../parts.tsx";
import { useAsk } from "../query.ts";
import { example } from "../report.ts";

const BYTES_SHOWN = 64;

interface Document {
  clients: number;
  sparsity: number;
  mechanism: string;
  decode: string;
  hashing: { family: string; bits: number; maps: number };
  universe: { kind: string; size?: number; names?: string[] };
}

/** Return the belief after a report that favours something by e^epsilon, from the belief before. */
export function after(prior: number, epsilon: number): number {
  const odds = prior * Math.exp(epsilon);
  return odds / (odds + 1 - prior);
}

/** Return a bound in per cent, rounded so that it still is one. */
const bound = (belief: number, round: (value: number) => number): string => {
  const digits = belief > 0.99 || belief < 0.01 ? 1000 : 10;
  return `${round(100 * digits * belief) / digits} %`;
};

export function PlanView({ digest }: { digest: string }) {
  const status = useAsk(digest, (signal) => ask<Status>(pathOf(digest), { signal }));
  const anatomy = useAsk(digest, (signal) => ask<Anatomy>(`${pathOf(digest)}/anatomy`, { signal }));
  const plan = useAsk(digest, (signal) => ask<Document>(`${pathOf(digest)}/plan`, { signal }));
  const name = status.data?.name || digest;
  return (
    <>
      <nav aria-label="Where you are">
        <a href={write([])}>Collections</a> <span aria-hidden="true">/</span>{" "}
        <a href={write(["c", digest])}><Name of={name} longest={40} /></a> <span aria-hidden="true">/</span>
      </nav>
      <Heading title={`The plan of ${name}`}>The plan, explained</Heading>
      <Answer asked={anatomy} lines={8}>
        {(found) => (
          <>
            <Promised found={found} />
            <Belief found={found} />
            <Bytes found={found} digest={status.data?.digest ?? digest} />
          </>
        )}
      </Answer>
      <Answer asked={plan}>{(found) => <Parameters plan={found} digest={status.data?.digest ?? digest} />}</Answer>
    </>
  );
}

const HIDDEN: Record<string, string> = {
  event: "any one thing a person holds: whether it is there, and its value. Many things together show more than one.",
  user: "everything a person holds, all at once.",
};

function Promised({ found }: { found: Anatomy }) {
  return (
    <Card title="What is promised">
      <p class={`strength ${found.strength}`}>
        {{ sound: "Sound protection", weak: "Weak protection", none: "No protection to speak of" }[found.strength]}
      </p>
      <p class="large">{found.short}</p>
      <p>
        Noise is added on the device, before anything is sent. It hides{" "}
        {HIDDEN[found.unit] ?? "changes of a person's values up to a total that the plan names."} You need not
        trust anyone for this: not the network, not this collector, not whoever looks at this page.
      </p>
      {found.conditions.length > 0 && (
        <>
          <p>It holds provided that</p>
          <ul>{found.conditions.map((each) => <li key={each}>{each}</li>)}</ul>
        </>
      )}
      <details>
        <summary>In exact words</summary>
        <p>{found.guarantee}</p>
        <p class="soft">Proof: {found.theorem}</p>
      </details>
    </Card>
  );
}

function Belief({ found }: { found: Anatomy }) {
  const [prior, setPrior] = useState(0.5);
  const draw = useCallback<Draw>((plots, width) => plots.beliefChart(found.epsilon, prior, after, width), [found.epsilon, prior]);
  const [least, most] = [after(prior, -found.epsilon), after(prior, found.epsilon)];
  const [low, high] = [bound(least, Math.floor), bound(most, Math.ceil)];
  const words = `Somebody who thought it ${percent(prior)} likely may think it ${low} to ${high} likely after the report.`;
  return (
    <Card title="What may somebody believe about you afterwards?">
      <div class="belief">
        <div>
          <label for="prior">Before your report, somebody thinks that you hold a certain thing with a chance of</label>
          <input id="prior" type="range" min="0.01" max="0.99" step="0.01" value={prior} aria-valuetext={percent(prior)}
            onInput={(event) => setPrior(Number(event.currentTarget.value))} />
          <output for="prior" class="big">{percent(prior)}</output>
          <p>Once they have seen it, knowing everything else there is to know, they can be</p>
          <p class="big" id="after" data-least={least} data-most={most}>{low} to {high}</p>
          <p>sure. Without noise, it would be 0 % or 100 %.</p>
          {found.delta > 0 && <p class="soft">With a chance of at most {found.delta.toPrecision(2)} (δ), a report may reveal more.</p>}
        </div>
        <Chart draw={draw} label={words} />
      </div>
      <p class="soft small">This is about one report, at ε = {found.epsilon.toPrecision(3)}. A second one about the same things may move the odds as far again.</p>
    </Card>
  );
}

function Bytes({ found, digest }: { found: Anatomy; digest: string }) {
  const [turn, setTurn] = useState(0);
  const parts = useMemo(() => example(found, digest), [found, digest, turn]);
  const total = parts.reduce((sum, part) => sum + part.bytes.length, 0);
  let room = BYTES_SHOWN;
  return (
    <Card title="What leaves a device" tools={<button type="button" onClick={() => setTurn(turn + 1)}>Another example</button>}>
      <p>
        {count(total)} bytes, always the same number, whatever a person holds. Here is a request with one report, byte by byte;
        the report in it is made up.
      </p>
      <ol class="bytes">
        {parts.map((part) => {
          const seen = Array.from(part.bytes.slice(0, Math.max(0, room)));
          room -= part.bytes.length;
          return (
            <li key={part.name} class={part.kind}>
              <strong>{part.name}</strong> <span class="soft">{count(part.bytes.length)} {part.bytes.length === 1 ? "byte" : "bytes"}</span>
              <code>{seen.map((byte) => byte.toString(16).padStart(2, "0")).join(" ")}{seen.length < part.bytes.length && " …"}</code>
              <span>{part.words}</span>
            </li>
          );
        })}
      </ol>
      <p class="soft small">
        The request also carries a random number, so that a repeated request counts once. No name, no account, no
        address and no time are part of it, and the collector stores none.
      </p>
    </Card>
  );
}

function Parameters({ plan, digest }: { plan: Document; digest: string }) {
  const { universe, hashing } = plan;
  const size = universe.size ?? universe.names?.length;
  const rows: [string, string][] = [
    ["Keys", size === undefined ? "any text or number" : `${count(size)}, ${universe.kind}`],
    ["Things a person usually holds at most", count(plan.sparsity)],
    ["People planned for", count(plan.clients)],
    ["Mechanism", plan.mechanism],
    ["Hash", hashing.family === "linear" ? `${count(hashing.maps)} public maps of ${count(2 ** hashing.bits)} cells` : `${hashing.family}, with a seed in each report`],
    ["Read", plan.decode === "table" ? "from tables that all reports add up to" : "from every report"],
    ["Digest", digest],
  ];
  return (
    <Card title="The public numbers">
      <table class="facts">
        <tbody>{rows.map(([name, value]) => <tr key={name}><th scope="row">{name}</th><td>{value}</td></tr>)}</tbody>
      </table>
    </Card>
  );
}
