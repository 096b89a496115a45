// How long one report takes: node bench.mjs [items]; without a number, as many items as the plan has room for.
// Prints the first report of a process, while the engine still interprets the code (the median of 5 processes), then
// the best and the median of 200. Times are of the processor, all threads of Node included: on a quiet machine no less
// than what a page waits, on a busy one nearly the same.
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

/** Return the milliseconds of the processor that reports take, in rising order. */
export function times(plan, items, count = 200) {
  const client = new Client(plan, { policy: { epsilon: 16, units: [plan.protect] } });
  const key = (i) => (plan.universe.kind === "open" ? `https://example.org/${i}` : i);
  const held = new Map(Array.from({ length: items }, (_, i) => [key(i), 1 - i / items]));
  return Array.from({ length: count }, () => {
    const start = process.cpuUsage();
    client.report(held);
    return spent(start);
  }).sort((a, b) => a - b);
}

/** Return milliseconds of a process of its own: of its start up to here, and of the first report. */
export const first = (name, items) => JSON.parse(execFileSync(process.execPath, [program, items, name]));

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const [items, name] = process.argv.slice(2);
if (process.argv[1] === program && name) {
  const start = spent();
  console.log(JSON.stringify([start, times(plans[name], Number(items), 1)[0]]));
} else if (process.argv[1] === program) {
  for (const [name, plan] of Object.entries(plans)) {
    const k = Number(items ?? plan.sparsity);
    const found = times(plan, k);
    const one = median(Array.from({ length: 5 }, () => first(name, k)[1]));
    const shown = [one, found[0], median(found)].map((each) => `${each.toFixed(2)} ms`.padStart(9));
    console.log(`${name.padEnd(44)} ${k} items: first ${shown[0]}, best ${shown[1]}, median ${shown[2]}`);
  }
}
