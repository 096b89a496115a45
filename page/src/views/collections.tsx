/** All collections at a glance. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type Activity, type Arriving, ask, pathOf } from "../api.ts";
import { write } from "../address.ts";
import { Spark } from "../charts.tsx";
import { ago, brief, count, mean } from "../format.ts";
import { Answer, Empty, Heading, Name } from "../parts.tsx";
import type { Query } from "../query.ts";

const CANDIDATES = 1000; // of an open universe, where the page must assume a number
const MANY = 8; // with more collections than this, a search field helps
const AT_A_TIME = 2; // questions: the collector has two readers, and others ask, too

export function Collections({ asked }: { asked: Query<Activity> }) {
  const [wanted, setWanted] = useState("");
  return (
    <>
      <Heading title="Collections">Collections</Heading>
      <Answer asked={asked} lines={6}>
        {({ collections, now }) => {
          if (!collections.length)
            return (
              <Empty title="No collection yet.">
                Make a plan, then create one: <code>faintly collection create plan.json</code>
              </Empty>
            );
          const matches = (each: Arriving) =>
            `${each.name} ${each.digest}`.toLowerCase().includes(wanted.toLowerCase());
          const shown = collections.filter(matches).sort(byName);
          return (
            <>
              {collections.length > MANY && (
                <p class="search">
                  <input type="search" placeholder="Find a collection" aria-label="Find a collection"
                    value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
                  <span class="soft" role="status">{count(shown.length)} of {count(collections.length)}</span>
                </p>
              )}
              <ul class="collections">
                {shown.map((each) => (
                  <Line key={each.digest} each={each} now={now} />
                ))}
              </ul>
              {!shown.length && <Empty title="No collection has this name." />}
            </>
          );
        }}
      </Answer>
    </>
  );
}

const byName = (a: Arriving, b: Arriving) => a.name.localeCompare(b.name) || a.digest.localeCompare(b.digest);

function Line({ each, now }: { each: Arriving; now: number }) {
  return (
    <li class="card line">
      <a href={write(["c", each.digest])}>
        <Name of={each.name || each.digest} longest={80} />
        {each.state === "closed" && <span class="badge">closed</span>}
      </a>
      <p class="soft promise">{each.guarantee}</p>
      <dl>
        <div>
          <dt>Reports</dt>
          <dd title={count(each.reports + each.pending)}>{brief(each.reports + each.pending)}</dd>
        </div>
        <div class="wide">
          <dt>Last 48 hours</dt>
          <dd><Spark hours={each.hours} /></dd>
        </div>
        <div>
          <dt>This hour</dt>
          <dd>{brief(each.hours.at(-1)!)}</dd>
        </div>
        <div>
          <dt>Last report</dt>
          <dd>{each.last_report === null ? <span class="soft">none since start</span> : ago(now - each.last_report)}</dd>
        </div>
        <div>
          <dt>Stands out from</dt>
          <dd><Smallest each={each} /></dd>
        </div>
      </dl>
    </li>
  );
}

/** The smallest mean that stands out, asked for once the line is in sight. */
function Smallest({ each }: { each: Arriving }) {
  const place = useRef<HTMLSpanElement>(null);
  const [found, setFound] = useState<number | null>(null);
  const size = each.keys ?? CANDIDATES;
  useEffect(() => {
    if (!each.reports) return;
    let gone = false;
    const watch = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting) return;
      watch.disconnect();
      inTurn(async () => {
        if (gone) return;
        const path = `${pathOf(each.digest)}/noise-floor?keys=${size}`;
        const { noise_floor_all } = await ask<{ noise_floor_all: number }>(path);
        setFound(noise_floor_all);
      });
    });
    watch.observe(place.current!);
    return () => {
      gone = true;
      watch.disconnect();
    };
  }, [each.digest, each.reports, size]);
  const among = `the smallest mean that stands out among ${count(size)} keys`;
  return (
    <span ref={place} title={among}>
      {found === null ? <span class="soft">{each.reports ? "…" : "–"}</span> : mean(found, each.values === "set")}
    </span>
  );
}

let running = 0;
const queue: (() => Promise<void>)[] = [];

/** Run work when fewer than a few others run; what fails is not shown, and is asked for again later. */
function inTurn(work: () => Promise<void>): void {
  queue.push(work);
  const next = async () => {
    while (running < AT_A_TIME && queue.length) {
      running++;
      await queue.shift()!().catch(() => {});
      running--;
    }
  };
  next();
}
