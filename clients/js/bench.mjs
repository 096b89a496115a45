// How long one report takes: node bench.mjs [items]; without a number, as many items as the plan has room for.
// Prints making a client and its first report, while the engine still interprets the code (medians of 5 processes), by
// the clock, the report also by the processor; then the best and the median of 200 by the processor, and the limit:
// 20 ms for 64 items, 16 for 16. The processor's time is that of all threads of Node, which compile meanwhile: on a quiet machine no less
// than what a page waits. The clock tells what a page waits, on a quiet machine alone.
import { Client } from "./dist/index.js";
import "./dist/orthogonal.js";
import "./dist/retrieval-gf.js";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

// Plans beginning with `planned` are the largest that the planner makes by default, for each mechanism and
// form, at ε from 0.5 to 8 and 1,000 to a million clients; the others are for a person who asks for them.
export const plans = JSON.parse(readFileSync(new URL("test/large_plans.json", import.meta.url), "utf8"));
const program = fileURLToPath(import.meta.url);
const spent = (since) => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
};

/** Return a function that makes a report; where values are not signed all items are held whole, which is most work. */
function reporter(plan, items) {
  const client = new Client(plan, { policy: { epsilon: 16, units: [plan.protect] } });
  const key = (i) => (plan.universe.kind === "open" ? `https://example.org/${i}` : i);
  const held = new Map(Array.from({ length: items }, (_, i) => [key(i), plan.values ? 1 : 1 - i / items]));
  return () => client.report(held);
}

/** Return the milliseconds of the processor that reports take, in rising order. */
export function times(plan, items, count = 200) {
  const report = reporter(plan, items);
  return Array.from({ length: count }, () => {
    const start = process.cpuUsage();
    report();
    return spent(start);
  }).sort((a, b) => a - b);
}

/** Return milliseconds of a process of its own: its start and its first report by the processor, the report and making
 * its client by the clock. */
export const first = (name, items) => JSON.parse(execFileSync(process.execPath, [program, items, name]));

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const [items, name] = process.argv.slice(2);
if (process.argv[1] === program && name) {
  const start = spent();
  const made = performance.now();
  const report = reporter(plans[name], Number(items));
  const used = process.cpuUsage();
  const clock = performance.now();
  report();
  const waited = performance.now() - clock;
  console.log(JSON.stringify([start, spent(used), waited, clock - made]));
} else if (process.argv[1] === program) {
  for (const [name, plan] of Object.entries(plans)) {
    const k = Number(items ?? plan.sparsity);
    const found = times(plan, k);
    const firsts = Array.from({ length: 5 }, () => first(name, k));
    const [used, waited, making] = [1, 2, 3].map((i) => median(firsts.map((each) => each[i])));
    const shown = [making, waited, used, found[0], median(found)].map((each) => `${each.toFixed(2)} ms`.padStart(9));
    const limit = k > 16 ? 20 : 16;
    console.log(
      `${name.padEnd(44)} ${k} items: client ${shown[0]}, first ${shown[1]} (processor ${shown[2]}), ` +
        `best ${shown[3]}, median ${shown[4]}, limit ${limit} ms`,
    );
  }
}
