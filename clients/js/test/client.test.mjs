// The encoder's door: policies, whatever people hold, and errors that say nothing about it.
import assert from "node:assert/strict";
import test from "node:test";
import { Client, InvalidInput, InvalidPlan, PlanRefused, TooManyItems } from "../dist/index.js";
import { project, readPlan } from "../dist/testing.js";
import { plans } from "./support.mjs";

const ANY = { epsilon: 16, delta: 0.5, units: ["event", "user", "l1:0.5"], boundedItems: true };
const document = (name) => plans.get(name).document;
const open = () => new Client(document("retrieval-open"), { policy: ANY });

function projected(name, items) {
  const tally = { unknown: 0, absent: 0, repeated: 0, clipped: 0, beyond: 0 };
  return [project(readPlan(document(name)), items, tally), tally];
}

test("there is no client without a policy", () => {
  for (const options of [undefined, {}, { policy: {} }, { policy: { epsilon: 1 } }, { policy: { units: ["event"] } }]) {
    assert.throws(() => new Client(document("retrieval"), options), InvalidInput);
  }
});

test("the units of a policy are a list of units, and a distance is above 0", () => {
  const { digest } = plans.get("retrieval");
  for (const unit of ["l1:", "l1:0", "l1:-1", "l1:x", "l1: ", "L1:1", "", "household", ["event"], null]) {
    for (const more of [{}, { digests: [digest] }]) {
      const policy = { epsilon: 1, units: ["event", unit], ...more };
      assert.throws(() => new Client(document("retrieval"), { policy }), InvalidInput, `${unit}`);
    }
  }
  for (const policy of [{ epsilon: 1, units: "event" }, { digests: digest }, { digests: 1 }, { epsilon: 1, units: 1 }]) {
    assert.throws(() => new Client(document("retrieval"), { policy }), InvalidInput);
  }
  const other = { epsilon: 16, units: ["l1:0.001", "user"] };
  assert.throws(() => new Client(document("retrieval"), { policy: other }), PlanRefused);
  assert.throws(() => new Client(document("l1"), { policy: { epsilon: 16, units: ["event", "user"] } }), PlanRefused);
});

test("another format is refused by its name, whatever its fields", () => {
  const { clients, ...fields } = document("retrieval");
  const message = "the plan's format \"faintly-plan/2\" is not what faintly-plan/1 allows";
  assert.throws(() => readPlan({ ...fields, format: "faintly-plan/2", more: 1 }), { name: "InvalidPlan", message });
  for (const format of [undefined, null, 1, { toString: 1 }]) assert.throws(() => readPlan({ ...fields, format }), { name: "InvalidPlan" });
  assert.throws(() => readPlan(fields), { message: /object \(clients,/ });
});

test("a policy allows plans within its budget, or by digest", () => {
  const { digest } = plans.get("retrieval");
  const of = (policy) => new Client(document("retrieval"), { policy });
  of({ digests: [digest] });
  of({ epsilon: 1, units: ["user", "event"] });
  assert.throws(() => of({ digests: ["0".repeat(32)] }), PlanRefused);
  assert.throws(() => of({ epsilon: 0.999, units: ["event"] }), PlanRefused);
  assert.throws(() => of({ epsilon: 1, units: ["user"] }), PlanRefused);
  const l1 = (unit) => new Client(document("l1"), { policy: { epsilon: 16, units: [unit] } });
  l1(document("l1").protect);
  l1("l1:0.5"); // a plan that hides more is fine
  assert.throws(() => l1("l1:1000"), PlanRefused);
});

test("a plan that refuses long vectors needs the application's promise", () => {
  const policy = { ...ANY, boundedItems: false };
  assert.throws(() => new Client(document("squeeze"), { policy }), PlanRefused);
  const client = new Client(document("squeeze"), { policy: ANY });
  const many = Array.from({ length: client.plan.sparsity + 1 }, (_, i) => i);
  client.report(new Set(many.slice(1)));
  assert.throws(() => client.report(new Set(many)), TooManyItems);
});

test("a mechanism with an entry of its own is known once that is imported", async () => {
  const of = (name) => new Client(document(name), { policy: ANY });
  const message = /does not know the mechanism retrieval-gf of faintly-plan\/1; it knows projection-choice, /;
  assert.throws(() => of("gf"), { name: "InvalidPlan", message });
  assert.throws(() => of("orthogonal"), { name: "InvalidPlan", message: /mechanism orthogonal of faintly-plan\/1/ });
  await import("../dist/orthogonal.js");
  assert.equal(of("orthogonal").report([1, 2]).length, 31 + plans.get("orthogonal").record_bytes);
  await import("../dist/retrieval-gf.js");
  assert.equal(of("gf").report([1, 2]).length, 31 + plans.get("gf").record_bytes);
  const withForm = (form) => ({ ...document("gf"), parameters: { ...document("gf").parameters, form } });
  for (const form of ["full", "polynomial"]) {
    const message = `this client does not know the form ${form} of the mechanism retrieval-gf of faintly-plan/1`;
    assert.throws(() => new Client(withForm(form), { policy: ANY }), (error) => {
      return error instanceof InvalidPlan && error.message === message;
    });
  }
  for (const form of ["dense", 1, { toString: 1 }]) assert.throws(() => new Client(withForm(form), { policy: ANY }), InvalidPlan);
});

test("a report of direct retrieval may have as many bits as the specification allows", () => {
  const { parameters, ...fields } = document("retrieval-direct");
  const of = (bits) => new Client({ ...fields, parameters: { ...parameters, bits } }, { policy: ANY });
  for (const bits of [1024, 1025, 8192]) assert.equal(of(bits).report([1]).length, 31 + 5 + Math.ceil(bits / 8));
  assert.throws(() => of(8193), InvalidPlan);
});

test("every kind of data gives a report, and all have one length", () => {
  const client = open();
  const lengths = [
    new Set(["https://example.org", "", "🌱", "\ud800"]),
    ["a", "a", 3, new Uint8Array([0, 255]), null, undefined, {}, NaN, -1, 2 ** 53],
    new Map([["a", NaN], ["b", Infinity], ["c", -Infinity], [7, 0.5]]),
    { a: 0.5, b: "text", c: null, d: true },
    Array.from({ length: 500 }, (_, i) => i),
    "one key",
    [],
    null,
    undefined,
    42,
  ].map((items) => client.report(items).length);
  assert.deepEqual(new Set(lengths).size, 1);
  assert.ok(client.tally.unknown > 0 && client.tally.absent > 0 && client.tally.beyond > 0);
});

test("data is moved to the nearest that the plan takes", () => {
  const [items, tally] = projected("event-open", new Map([[5, 3], [4, -0.25], [6, NaN], [7, 0], [-1, 1], ["x", -9]]));
  assert.deepEqual(items.filter(({ id }) => id[1] === 0).map(({ id, value }) => [id[0], value]), [[4, -0.25], [5, 1]]);
  assert.equal(items.at(-1).value, -1);
  assert.deepEqual(tally, { unknown: 1, absent: 1, repeated: 0, clipped: 2, beyond: 0 });
  const [twice, again] = projected("event-open", ["a", "a", "b"]);
  assert.deepEqual(twice.map(({ value }) => value), [1, 1]);
  assert.deepEqual([again.repeated, again.clipped], [1, 1]);
  const [none, lost] = projected("event-open", new Map([[[1], 1]]));
  assert.deepEqual([none.length, lost.unknown], [0, 1]);
});

test("values of a plan without signs are at least 0, and those of a set 0 or 1", () => {
  const given = new Map([[1, -0.5], [2, 0.5], [3, 0.51], [4, 9], [5, NaN], [6, 1]]);
  const values = (name) => projected(name, given)[0].map(({ value }) => value);
  assert.deepEqual(values("projection-sets"), [1, 1, 1]);
  assert.equal(projected("projection-sets", given)[1].clipped, 4);
  assert.deepEqual(values("projection-sets-open"), [0.5, 0.51, 1, 1]);
  assert.equal(projected("projection-sets-open", given)[1].clipped, 2);
  assert.deepEqual(values("event-one-bin"), [-0.5, 0.5, 0.51, 1, 1]);
});

test("an object names indices by their digits, and nothing else", () => {
  const [items, tally] = projected("event-one-bin", { 3: 1, "03": 1, "-0": 1, 10: 1, x: 1 });
  assert.deepEqual(items, [{ id: [3, 0], value: 1 }]);
  assert.equal(tally.unknown, 4);
});

test("no error holds a key or a value", () => {
  const secret = "https://secret.example";
  const squeeze = new Client(document("squeeze"), { policy: ANY });
  const held = Array.from({ length: 5000 }, (_, i) => `${secret}/${i}`);
  const inside = [...Array(squeeze.plan.sparsity + 1).keys()];
  for (const items of [held, inside]) {
    try {
      squeeze.report(items);
    } catch (error) {
      assert.ok(!`${error.stack}`.includes(secret));
      assert.equal(error.message, `the plan takes at most ${squeeze.plan.sparsity} items`);
    }
  }
});

test("a report repeats neither its seed nor its noise", () => {
  const client = new Client(document("retrieval-direct"), { policy: ANY });
  const seen = new Set(Array.from({ length: 200 }, () => client.report([1, 2]).join()));
  assert.equal(seen.size, 200);
});
