// One report of 64 items takes less than 20 ms, one of 16 never blocks a frame of 16 ms.
// The processor's time counts, and the best of many: on a busy machine a report waits for others.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { times } from "../bench.mjs";

const cases = JSON.parse(readFileSync(new URL("large_plans.json", import.meta.url), "utf8"));

function best(plan, items, limit) {
  let least = Infinity;
  for (let round = 0; round < 10 && least >= limit; round++) least = Math.min(least, times(plan, items, 20)[0]);
  return least;
}

for (const [name, plan] of Object.entries(cases)) {
  test(`${name} is quick`, () => {
    assert.ok(best(plan, 64, 20) < 20);
    assert.ok(best(plan, 16, 16) < 16);
  });
}
