// How long one report takes: node bench.mjs [items]. Prints the best and the median of 200.
import { Client } from "./dist/index.js";
import "./dist/orthogonal.js";
import "./dist/retrieval-gf.js";
import { readFileSync } from "node:fs";

const k = Number(process.argv[2] ?? 64);
const cases = JSON.parse(readFileSync(new URL("test/large_plans.json", import.meta.url), "utf8"));

/** Return the milliseconds that reports of k items take, in rising order. */
export function times(plan, items, count = 200) {
  const client = new Client(plan, { policy: { epsilon: 16, units: [plan.protect] } });
  const held = new Map(Array.from({ length: items }, (_, i) => [i, 1 - i / items]));
  return Array.from({ length: count }, () => {
    const start = performance.now();
    client.report(held);
    return performance.now() - start;
  }).sort((a, b) => a - b);
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  for (const [name, plan] of Object.entries(cases)) {
    const found = times(plan, k);
    const shown = [found[0], found[found.length >> 1]].map((each) => each.toFixed(3));
    console.log(`${name.padEnd(20)} best ${shown[0]} ms, median ${shown[1]} ms`);
  }
}
