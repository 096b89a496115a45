// Every vector of spec/vectors that a client meets, byte for byte.
import assert from "node:assert/strict";
import test from "node:test";
import { Client } from "../dist/index.js";
import "../dist/orthogonal.js";
import "../dist/retrieval-gf.js";
import * as f from "../dist/testing.js";
import { given, plans, vectors, wide } from "./support.mjs";

// Mechanisms of which this client refuses every plan, by name; all others have to pass.
const REFUSED = ["gaussian", "retrieval-l1"];
const knows = (name) => !REFUSED.includes(plans.get(name).document.mechanism);

const planNamed = (name) => f.readPlan(JSON.stringify(plans.get(name).document));

function idOf(plan, key) {
  if ("integer" in key) return wide(key.integer);
  if ("index" in key) return f.idOf(plan, plan.names ? [...plan.names.keys()][key.index] : key.index);
  return f.idOf(plan, "bytes" in key ? f.unhex(key.bytes) : key.text);
}

test("keys become ids", () => {
  for (const { salt, key, id, why } of vectors("hashing/keys")) {
    const plan = f.readPlan({ ...plans.get("event-open").document, salt });
    assert.deepEqual(idOf(plan, key), id && wide(id), why);
    const small = key.integer?.startsWith("000000000000");
    if (small) assert.deepEqual(f.idOf(plan, parseInt(key.integer, 16)), wide(id), why);
  }
});

test("the mixing functions and their words", () => {
  for (const { key, id, tag, half_sip, blake2s, why } of vectors("hashing/mix")) {
    assert.equal(f.prf(wide(key), wide(id), tag), half_sip, why);
    assert.equal(f.keyed(wide(key), wide(id), tag), blake2s, why);
  }
  for (const { key, id, tag, half_sip, blake2s, wide: many, why } of vectors("hashing/words")) {
    if (many) continue; // of retrieval-l1, which this client does not know
    half_sip.forEach((word, w) => assert.equal(f.prf(wide(key), wide(id), tag, w), word, why));
    blake2s.forEach((word, w) => assert.equal(f.keyed(wide(key), wide(id), tag, w), word, why));
  }
});

test("codes and masks of public maps, and the map of a seed", () => {
  for (const { plan: name, ids, seeds, codes, masks, map_of, why } of vectors("hashing/linear")) {
    const plan = planNamed(name);
    codes.forEach((row, j) => {
      const map = f.publicMap(plan, j);
      assert.deepEqual(ids.map((id) => map.code(wide(id))), row, why);
      assert.deepEqual(ids.map((id) => 1 - 2 * map.negative(wide(id))), masks[j], why);
    });
    assert.deepEqual(seeds.map((seed) => f.mapOf(plan, wide(seed)).number), map_of, why);
  }
});

test("bins and signs of ids under seeds", () => {
  for (const { plan: name, places, why } of vectors("hashing/places")) {
    const plan = planNamed(name);
    for (const { seed, id, bin, sign } of places) {
      const [found, odd] = f.placesOf(plan, plan.parameters.bins, wide(seed))(wide(id));
      assert.deepEqual([found, 1 - 2 * odd], [bin, sign], why);
    }
  }
});

test("two words make a seed", () => {
  for (const { words, seed_bytes, seed, why } of vectors("hashing/seeds")) {
    assert.deepEqual(f.drawSeed(given(words)[0], seed_bytes), wide(seed), why);
  }
});

test("plans: digest, and bytes of a record", () => {
  for (const { name, document, digest, record_bytes, why } of plans.values()) {
    const plan = f.readPlan(JSON.stringify(document, null, 3));
    assert.equal(plan.digest, digest, why);
    assert.equal(f.readPlan(document).digest, digest, why);
    assert.equal(f.readPlan(new TextEncoder().encode(JSON.stringify(document))).digest, digest, why);
    if (!knows(name)) {
      const message = new RegExp(`does not know the mechanism ${plan.mechanism} of faintly-plan/1`);
      assert.throws(() => f.mechanismOf(plan), { name: "InvalidPlan", message }, why);
      continue;
    }
    const mechanism = f.mechanismOf(plan);
    const record = f.encodeRecord(mechanism, [0, 0], mechanism.widths.map(() => 0));
    assert.equal(record.length, record_bytes, why);
  }
});

test("plans that must be refused", () => {
  for (const { text, plan: name, path, value, why } of vectors("plan/invalid")) {
    let document = text;
    if (text === undefined) {
      document = structuredClone(plans.get(name).document);
      const names = path.split(".");
      const last = names.pop();
      const inside = names.reduce((fields, each) => fields[each], document);
      if (value === undefined) delete inside[last];
      else inside[last] = value;
      document = JSON.stringify(document);
    }
    assert.throws(() => f.mechanismOf(f.readPlan(document)), { name: "InvalidPlan" }, why);
  }
});

test("reports from given words", () => {
  for (const { plan: name, items, hash_seed, words, fields, record, why } of vectors("report/randomize")) {
    if (!knows(name)) continue;
    const plan = planNamed(name);
    const mechanism = f.mechanismOf(plan);
    const held = items
      .map(({ key, value }) => ({ id: idOf(plan, key), value }))
      .filter(({ value }) => value !== 0)
      .sort((a, b) => a.id[1] - b.id[1] || a.id[0] - b.id[0]);
    const [next, left] = given(words);
    const made = mechanism.randomize(held, wide(hash_seed), next);
    assert.deepEqual(made, fields, why);
    assert.equal(left(), 0, why);
    assert.equal(f.hex(f.encodeRecord(mechanism, wide(hash_seed), made)), record, why);
  }
});

/** Return a key that a caller may pass, undefined where it is an id that only tests can name. */
function keyOf({ document: { universe } }, key) {
  if ("index" in key) return universe.names ? universe.names[key.index] : key.index;
  if ("bytes" in key) return f.unhex(key.bytes);
  const number = parseInt(key.integer, 16);
  return "text" in key ? key.text : Number.isSafeInteger(number) ? number : undefined;
}

/** Return two words that give a seed. */
const seedWords = ([low, high], bytes) =>
  bytes === 8 ? [low, high] : [(low << 24) >>> 0, ((low >>> 8) | (high << 24)) >>> 0];

test("reports of the client that is published, from given words of the system", (t) => {
  let replayed = 0;
  for (const { plan: name, items, hash_seed, words, record, why } of vectors("report/randomize")) {
    const keys = items.map(({ key }) => keyOf(plans.get(name), key));
    if (!knows(name) || keys.includes(undefined)) continue;
    const { document } = plans.get(name);
    const policy = { epsilon: 16, delta: 0.5, units: [document.protect], boundedItems: true };
    const client = new Client(document, { policy });
    // The seed has a source of its own, which is asked first.
    const sources = [seedWords(wide(hash_seed), f.mechanismOf(planNamed(name)).sent || 8), words.slice()];
    const stub = t.mock.method(crypto, "getRandomValues", (pool) => {
      const source = sources.length > 1 ? sources.shift() : sources[0];
      pool.set(source.splice(0, pool.length));
      return pool;
    });
    assert.equal(f.hex(client.record(new Map(items.map(({ value }, i) => [keys[i], value])))), record, why);
    assert.equal(sources[0].length, 0, why);
    stub.mock.restore();
    replayed++;
  }
  assert.ok(replayed > 50, `${replayed}`);
});

test("batches", () => {
  for (const { plan: name, reports, batch, why } of vectors("report/batch")) {
    if (!reports.length || !knows(name)) continue; // a client has something to send
    const plan = planNamed(name);
    const mechanism = f.mechanismOf(plan);
    const records = reports.map(({ fields, hash_seed }) =>
      f.encodeRecord(mechanism, wide(hash_seed), fields),
    );
    assert.equal(f.hex(f.encodeBatch(plan.digest, Buffer.concat(records), records.length)), batch, why);
  }
});
