// How long one report takes: node bench.mjs [items]. Prints the first one of a process, while the engine still
// interprets the code (the median of 5 processes), then the best and the median of 200. Times are of the processor,
// all threads of Node included: on a quiet machine no less than what a page waits, on a busy one nearly the same.
import { Client } from "./dist/index.js";
import "./dist/orthogonal.js";
import "./dist/retrieval-gf.js";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const k = Number(process.argv[2] ?? 64);
const cases = JSON.parse(readFileSync(new URL("test/large_plans.json", import.meta.url), "utf8"));

/** Return the milliseconds of the processor that reports of k items take, in rising order. */
export function times(plan, items, count = 200) {
  const client = new Client(plan, { policy: { epsilon: 16, units: [plan.protect] } });
  const held = new Map(Array.from({ length: items }, (_, i) => [i, 1 - i / items]));
  return Array.from({ length: count }, () => {
    const start = process.cpuUsage();
    client.report(held);
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1000;
  }).sort((a, b) => a - b);
}

/** Return the median of the milliseconds that the first report takes, each in a process of its own. */
function first(name, count = 5) {
  const once = () => Number(execFileSync(process.execPath, [program, k, name]));
  return Array.from({ length: count }, once).sort((a, b) => a - b)[count >> 1];
}

const program = fileURLToPath(import.meta.url);
const name = process.argv[3];
if (process.argv[1] === program && name) console.log(times(cases[name], k, 1)[0]);
else if (process.argv[1] === program) {
  for (const [name, plan] of Object.entries(cases)) {
    const found = times(plan, k);
    const shown = [first(name), found[0], found[found.length >> 1]].map((each) => each.toFixed(3));
    console.log(`${name.padEnd(22)} first ${shown[0]} ms, best ${shown[1]} ms, median ${shown[2]} ms`);
  }
}
