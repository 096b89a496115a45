#!/usr/bin/env node
// Answers an auditor: reads a JSON object from each line, writes reports of what it asks for.
//
// asked     {"plan": {…}, "items": [[id, value], …], "seed": id or null, "count": n}
// answered  {"records": [hexadecimal, …]} or {"error": {"name": "…", "message": "…"}}
//
// Ids and seeds are 16 hexadecimal digits. With a seed, all reports have it as their public seed;
// without, each draws its own. The noise is always the client's own. This is for audits alone: an
// application has no way to choose a seed.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import * as faintly from "./dist/testing.js";

const wide = (text) => Array.from(faintly.wordsOf(faintly.unhex(text).reverse()));

/** Return the reports that one line asks for. */
function answer(line, noise) {
  const { plan: document, items, seed, count } = JSON.parse(line);
  const plan = faintly.readPlan(document);
  const mechanism = faintly.mechanismOf(plan);
  if (mechanism.bounded && items.length > plan.sparsity) {
    throw new faintly.TooManyItems(`the plan takes at most ${plan.sparsity} items`);
  }
  const held = items.map(([id, value]) => ({ id: wide(id), value }));
  const drawn = faintly.secureWords();
  const records = Array.from({ length: count }, () => {
    const own = seed === null ? faintly.drawSeed(drawn, mechanism.sent || 8) : wide(seed);
    const fields = mechanism.randomize(held, own, noise());
    return faintly.hex(faintly.encodeRecord(mechanism, own, fields));
  });
  return { records };
}

/** Serve until the auditor is done; tests pass noise that is broken. */
export async function serve(noise = faintly.secureWords) {
  for await (const line of createInterface({ input: process.stdin })) {
    let said;
    try {
      said = answer(line, noise);
    } catch ({ name, message }) {
      said = { error: { name, message } };
    }
    process.stdout.write(JSON.stringify(said) + "\n");
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await serve();
