// The store of a page, in a database of a few lines; test/browser.mjs has a real one.
import assert from "node:assert/strict";
import test from "node:test";
import { Client, indexedDBStore, LedgerFailed, poll } from "../dist/sender.js";
import { plans } from "./support.mjs";

const PLAN = plans.get("retrieval");

/** Return a database whose transactions run one after another, and fail where told to. */
function database() {
  const kept = new Map();
  const told = { fails: () => false, read: [] };
  let last = Promise.resolve();
  const transaction = () => {
    const made = { error: null };
    const reads = [];
    const written = new Map();
    const values = {
      get(key) {
        reads.push({ key });
        told.read.push(key);
        return reads.at(-1);
      },
      put: (value, key) => written.set(key, structuredClone(value)),
      delete: (key) => written.set(key, undefined),
    };
    last = last.then(() => {
      for (const asked of reads) {
        asked.result = structuredClone(kept.get(asked.key));
        asked.onsuccess();
      }
      if (told.fails(written)) {
        made.error = new DOMException("no room", "QuotaExceededError");
        return made.onabort();
      }
      for (const [key, value] of written) kept.set(key, value);
      made.oncomplete();
    });
    return Object.assign(made, { objectStore: () => values });
  };
  const opened = [];
  const open = () => {
    const asked = { result: { transaction } };
    opened.push(asked.result);
    queueMicrotask(() => asked.onsuccess());
    return asked;
  };
  return { open, opened, kept, told };
}

/** Run with other globals, and put back what was there. */
async function withGlobals(globals, use) {
  const before = new Map(Object.keys(globals).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]));
  for (const [name, value] of Object.entries(globals)) {
    delete globalThis[name];
    if (value !== undefined) Object.defineProperty(globalThis, name, { value, configurable: true });
  }
  try {
    await use();
  } finally {
    for (const [name, was] of before) {
      delete globalThis[name];
      if (was) Object.defineProperty(globalThis, name, was);
    }
  }
}

/** Run without Web Locks, with a clock that can be put forward. */
async function leased(use) {
  const indexedDB = database();
  const now = Date.now;
  let ahead = 0;
  Date.now = () => now() + ahead;
  try {
    await withGlobals({ indexedDB, navigator: undefined }, () => use(indexedDB, (ms) => (ahead += ms)));
  } finally {
    Date.now = now;
  }
}

const put = (store, state) => store.locked(({ write }) => write(state));
const got = (store) => store.locked(({ read }) => read());

test("without a browser's database a client asks for a store, in our words", () =>
  withGlobals({ indexedDB: undefined, navigator: undefined }, async () => {
    const client = new Client(PLAN.document, { policy: { digests: [PLAN.digest] }, server: "https://collect.example", delay: null });
    await assert.rejects(client.send([1]), { name: "LedgerFailed", message: /give the client a store/ });
    client.close();
  }));

test("a page that slept over its lease writes nothing, also once the other page is done", () =>
  leased(async (_, pass) => {
    const [first, second] = [indexedDBStore(), indexedDBStore()];
    await first.locked(async ({ write }) => {
      await write("first");
      pass(9_000);
      await write("still first"); // and has its lease anew
      pass(9_000);
      await write("first again");
      pass(10_001);
      await put(second, "second");
      await assert.rejects(write("first, asleep"), { name: "LedgerFailed", message: /taken over/ });
    });
    assert.equal(await got(second), "second");
    await first.locked(async ({ write }) => {
      pass(10_001);
      await second.locked(async (access) => {
        await assert.rejects(write("first, asleep"), LedgerFailed);
        await access.write("second again");
      });
    });
    assert.equal(await got(first), "second again");
  }));

test("a lease that cannot be given back hides neither a result nor an error", () =>
  leased(async ({ told, kept }, pass) => {
    told.fails = (written) => written.has("lease") && written.get("lease") === undefined;
    const store = indexedDBStore();
    await put(store, "kept");
    assert.equal(kept.get("state"), "kept");
    pass(10_001); // the lease that stayed
    const own = new Error("of the use");
    await assert.rejects(store.locked(() => Promise.reject(own)), own);
  }));

test("what a browser throws becomes an error of ours, with a lease and with Web Locks", async () => {
  await leased(async ({ told }) => {
    told.fails = (written) => written.has("state");
    await assert.rejects(put(indexedDBStore(), 1), { name: "LedgerFailed", message: "cannot write the ledger: QuotaExceededError" });
  });
  const locksOf = (request) => ({ indexedDB: database(), navigator: { locks: { request } } });
  const refuse = async () => {
    throw new DOMException("not here", "SecurityError");
  };
  await withGlobals(locksOf(refuse), async () => {
    await assert.rejects(put(indexedDBStore(), 1), { name: "LedgerFailed", message: "cannot lock the ledger: SecurityError" });
  });
  await withGlobals(locksOf(async (_, use) => use()), async () => {
    const store = indexedDBStore();
    await put(store, "kept");
    assert.equal(await got(store), "kept");
    const own = new Error("of the use");
    await assert.rejects(store.locked(() => Promise.reject(own)), own);
  });
});

test("what is written is not read before", async () => {
  const indexedDB = database();
  await withGlobals({ indexedDB, navigator: { locks: { request: async (_, use) => use() } } }, () => put(indexedDBStore(), 1));
  await leased(async ({ told }) => {
    await put(indexedDBStore(), 1);
    indexedDB.told.read.push(...told.read);
  });
  assert.ok(!indexedDB.told.read.includes("state"), indexedDB.told.read.join());
});

test("a lease from before the clock was set back does not last", () =>
  leased(async (_, pass) => {
    const [first, second] = [indexedDBStore(), indexedDBStore()];
    await first.locked(async ({ write }) => {
      await write("first");
      pass(-3_600_000);
      await put(second, "second");
      await assert.rejects(write("first, before"), { name: "LedgerFailed", message: /taken over/ });
    });
    assert.equal(await got(second), "second");
  }));

test("a database that the browser closes is opened anew", () =>
  leased(async ({ opened }) => {
    const store = indexedDBStore();
    await put(store, "before");
    opened[0].transaction = () => {
      throw new DOMException("closed", "InvalidStateError");
    };
    await assert.rejects(got(store), LedgerFailed);
    opened[0].onclose();
    assert.equal(await got(store), "before");
  }));

test("whoever waits for a lock waits as long as those before go on, and no longer", () =>
  withGlobals({ setTimeout: (next) => setImmediate(next) }, async () => {
    let asked = 0;
    await poll("mine", async () => (++asked > 3000 ? "mine" : `${asked >> 8}`));
    await assert.rejects(poll("mine", async () => `${asked++ && "stuck"}`), { name: "LedgerFailed", message: "the ledger stays locked" });
    assert.ok(asked > 3400 && asked < 3600, `${asked}`);
  }));
