// The sender as a page has it: timers, going away, other pages, a queue that fills up. The network and the
// clock are ours here; test/browser.mjs has real ones.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import test, { mock } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { unhex } from "../dist/index.js";
import { Client, LedgerFailed, SendFailed } from "../dist/sender.js";
import { memoryStore, plans } from "./support.mjs";

const PLAN = plans.get("retrieval");
const LARGE = plans.get("event-one-bin"); // with another number of bins, to have long records
const DAY_MS = 86_400_000;
const BEACON_BYTES = 60_000; // of a page that goes away, in all; browsers take some more

/** Run with a network that answers as told, and return what it was sent. */
async function withNetwork(answer, use) {
  const sent = [];
  const real = globalThis.fetch;
  globalThis.fetch = async (url, { body, keepalive = false }) => {
    const id = new URL(url).searchParams.get("request");
    const reports = new DataView(body.buffer).getUint32(23, true);
    const place = url.split("/reports")[0];
    sent.push({ id, place, body: body.join(), bytes: body.length, reports, keepalive });
    return answer({ id, reports });
  };
  try {
    await use(sent);
  } finally {
    globalThis.fetch = real;
  }
  return sent;
}

/** Run with a document that can be hidden. */
async function withPage(use) {
  const page = new EventTarget();
  page.visibilityState = "visible";
  globalThis.document = page;
  const hide = async () => {
    page.visibilityState = "hidden";
    page.dispatchEvent(new Event("visibilitychange"));
    page.visibilityState = "visible";
    await settled();
  };
  try {
    await use(hide);
  } finally {
    delete globalThis.document;
  }
}

const settled = async () => {
  for (let i = 0; i < 20; i++) await new Promise((done) => setImmediate(done));
};
const accept = ({ reports }) => Response.json({ status: "counted", reports });
const refuse = (status, code) => () => Response.json({ code }, { status });
const offline = () => {
  throw new TypeError("fetch failed");
};
const total = (sent) => [...new Map(sent.map((each) => [each.id, each.reports])).values()].reduce((a, b) => a + b, 0);

function make(store, options = {}, { document, digest } = PLAN) {
  return new Client(document, { policy: { digests: [digest] }, server: "https://collect.example", store, delay: null, ...options });
}

/** A plan whose records are long. */
function longPlan() {
  const parameters = { ...LARGE.document.parameters, bins: 4096 };
  return { ...LARGE.document, parameters };
}

test("a page that goes away sends what a beacon takes, and the rest later, each report once", () =>
  withPage(async (hide) => {
    const sent = await withNetwork(accept, async (sent) => {
      const policy = { epsilon: 1, units: ["event"] };
      const client = new Client(longPlan(), { policy, server: "https://collect.example", store: memoryStore(), delay: null });
      for (let i = 0; i < 20; i++) await client.send([1]);
      await hide();
      const beacons = sent.filter(({ keepalive }) => keepalive);
      const bytes = beacons.reduce((sum, { bytes }) => sum + bytes, 0);
      assert.ok(bytes > 50_000 && bytes <= BEACON_BYTES, `${bytes}`);
      assert.ok((await client.pending()) > 0);
      await client.send([2]); // joins none of what was sent
      await client.flush();
      assert.equal(await client.pending(), 0);
      client.close();
    });
    assert.equal(total(sent), 21);
    assert.equal(new Set(sent.map(({ id }) => id)).size, new Set(sent.map(({ body }) => body)).size);
  }));

for (const idle of [1, 2, 9]) {
  test(`a body that was made ahead, in ${idle} idle moments, is not sent without the reports that came later`, () =>
    withPage(async (hide) => {
      const waiting = [];
      globalThis.requestIdleCallback = (done) => waiting.push(done);
      try {
        const sent = await withNetwork(accept, async () => {
          const policy = { epsilon: 1, units: ["event"] };
          const client = new Client(longPlan(), { policy, server: "https://collect.example", store: memoryStore(), delay: null });
          await client.send([1]);
          for (let i = 0; i < idle; i++) {
            waiting.shift()?.();
            await settled();
          }
          await client.send([2]);
          await hide();
          assert.equal(await client.pending(), 0);
          client.close();
        });
        assert.deepEqual(sent.map(({ reports }) => reports), [2]);
      } finally {
        delete globalThis.requestIdleCallback;
      }
    }));
}

/** Return a queue of some bytes as version 1 had it, in full batches of records of so many bytes. */
function oldQueue(bytes, size, each = BEACON_BYTES) {
  const count = Math.floor((each - 31) / size);
  const outbox = Array.from({ length: Math.ceil(bytes / each) }, (_, i) => {
    const records = Array.from({ length: count }, (_, j) => `${j}`.padStart(2 * size, "0"));
    return { id: `${i}`.padStart(32, "0"), digest: PLAN.digest, epoch: i, closed: true, records };
  });
  return { version: 1, charges: {}, plans: {}, outbox };
}

/** Return a store that holds a queue, and counts how often and how many values it reads and writes. */
async function countingStore(state) {
  const store = memoryStore();
  await store.locked(({ write }) => write(state));
  const values = (value) =>
    typeof value === "object" && value ? Object.values(value).reduce((sum, each) => sum + values(each), 1) : 1;
  const counted = { reads: 0, writes: 0, values: 0 };
  const locked = (use) =>
    store.locked(({ read, write }) =>
      use({
        read: () => (counted.reads++, read()),
        write: (state) => (counted.writes++, (counted.values += values(state)), write(state)),
      }),
    );
  return [{ locked }, counted];
}

test("with a queue of 900 KB a report costs one read and one write, of few values", async () => {
  const [store, counted] = await countingStore(oldQueue(900_000, 39));
  const client = make(store);
  for (let i = 0; i < 3; i++) await client.send([1]);
  assert.deepEqual([counted.reads, counted.writes], [3, 3]);
  assert.ok(counted.values < 3 * 200, `${counted.values}`); // 23,000 records are as many texts as batches
  assert.equal(await client.pending(), 15 * Math.floor(59_969 / 39) + 3);
  client.close();
});

test("a queue of 900 KB is sent a batch at a time, and the page goes on in between", async () => {
  const [store, counted] = await countingStore(oldQueue(900_000, 39));
  let turn = 0;
  const turns = [];
  let isOn = true;
  const tick = () => (turn++, isOn && setImmediate(tick));
  setImmediate(tick);
  const answer = async (asked) => {
    turns.push(turn);
    await new Promise((done) => setImmediate(done)); // as a network does
    return accept(asked);
  };
  const sent = await withNetwork(answer, async () => {
    const client = make(store);
    await client.flush();
    assert.equal(await client.pending(), 0);
    client.close();
  });
  isOn = false;
  assert.equal(new Set(turns).size, 15);
  assert.ok(sent.every(({ bytes }) => bytes <= BEACON_BYTES));
  assert.ok(counted.values < 16 * 200, `${counted.values}`);
});

test("a page that goes away has a full batch ready, and only hands it over", async () => {
  // Compared with what Node's own start takes in the same process, so that the speed of the machine does not matter: a
  // hundredth of it. Where the batch is made only then, it is a twelfth.
  const program = fileURLToPath(new URL("batch_process.mjs", import.meta.url));
  const shares = [];
  for (let round = 0; round < 10 && !(Math.min(...shares) < 0.03); round++) {
    const [start, waited] = JSON.parse((await promisify(execFile)(process.execPath, [program])).stdout);
    shares.push(waited / start);
  }
  assert.ok(Math.min(...shares) < 0.03, shares.join(" "));
});

test("a page that goes away makes few requests, however many batches wait", () =>
  withPage(async (hide) => {
    const sent = await withNetwork(accept, async (sent) => {
      const [store] = await countingStore(oldQueue(100_000, 39, 100));
      const client = make(store);
      await client.send([1]);
      await hide();
      assert.equal(sent.length, 8);
      client.close();
    });
    assert.ok(sent.every(({ keepalive }) => keepalive));
  }));

test("a queue of version 1 goes to the collection of its digest, with the same bytes", async () => {
  const state = oldQueue(100, 39, 100);
  const sent = await withNetwork(accept, async (sent) => {
    const [store] = await countingStore(state);
    const other = make(store, {}, LARGE);
    await other.flush(); // it does not say where it goes, so only its own plan sends it
    other.close();
    assert.equal(sent.length, 0);
    const client = make(store);
    await client.flush();
    assert.equal(await client.pending(), 0);
    client.close();
  });
  const [{ id, place, reports, body }] = sent;
  assert.deepEqual([sent.length, id, reports], [1, "0".repeat(32), 1]);
  assert.ok(place.endsWith(PLAN.digest));
  assert.equal(body.split(",").slice(27, -4).join(), unhex(state.outbox[0].records.join("")).join());
});

test("what is queued for an earlier plan goes to its own collection, and to no other collector", async () => {
  const server = "https://collect.example";
  const sent = await withNetwork(accept, async (sent) => {
    const store = memoryStore();
    const old = make(store);
    await old.send([1]);
    await old.send([2]);
    old.close();
    const elsewhere = make(store, { server: "https://other.example" }, LARGE);
    await elsewhere.flush();
    elsewhere.close();
    assert.equal(sent.length, 0);
    const client = make(store, { server: `${server}/` }, LARGE);
    await client.send([3]);
    await client.flush();
    await client.flush();
    assert.equal(await client.pending(), 0);
    client.close();
  });
  assert.deepEqual(sent.map(({ place, reports }) => [place, reports]), [
    [`${server}/v1/collections/${PLAN.digest}`, 2],
    [`${server}/v1/collections/${LARGE.digest}`, 1],
  ]);
});

test("a page that goes away does not send what another page may still add to", () =>
  withPage(async (hide) => {
    const sent = await withNetwork(accept, async () => {
      const store = memoryStore();
      const other = make(store);
      await other.send([1]);
      const leaving = make(store);
      await leaving.send([2]);
      other.close(); // it does not go away, but goes on
      await hide();
      await other.send([3]);
      await other.flush();
      leaving.close();
      assert.equal(await other.pending(), 0);
    });
    assert.deepEqual(sent.map(({ reports, keepalive }) => [reports, keepalive]), [[1, true], [2, false]]);
  }));

test("offline for a day: tries are few, the queue stays, and all of it arrives in the end", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    let online = false;
    const failures = new Set();
    const sent = await withNetwork((asked) => (online ? accept(asked) : offline()), async (sent) => {
      const client = make(memoryStore(), { delay: 1000, onError: (error) => failures.add(error.code) });
      for (let hour = 0; hour < 24; hour++) {
        await client.send([hour % 8]);
        for (let minute = 0; minute < 60; minute++) {
          mock.timers.tick(DAY_MS / 1440);
          await new Promise((done) => setImmediate(done));
        }
      }
      await settled();
      assert.equal(await client.pending(), 24);
      assert.ok(new Set(sent.map(({ id }) => id)).size <= 24);
      assert.ok(sent.length < 24 * (DAY_MS / 300_000) * 2, `${sent.length}`);
      online = true;
      sent.length = 0;
      for (let i = 0; i < 10; i++) {
        mock.timers.tick(60_000);
        await settled();
      }
      assert.equal(await client.pending(), 0);
      client.close();
    });
    assert.equal(total(sent), 24);
    assert.deepEqual([...failures], ["UNREACHABLE"]);
  } finally {
    mock.timers.reset();
  }
});

/** Run with timers that fire when told to. */
async function withTimers(use) {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    await use(async (ms) => {
      mock.timers.tick(ms);
      await settled();
    });
  } finally {
    mock.timers.reset();
  }
}

test("a slow answer does not end sending by itself", () =>
  withTimers(async (pass) => {
    let answered;
    const slow = new Promise((done) => (answered = done));
    const sent = await withNetwork((asked) => slow.then(() => accept(asked)), async (sent) => {
      const client = make(memoryStore(), { delay: 1000 });
      await client.send([1]);
      await pass(1000);
      assert.equal(sent.length, 1);
      await client.send([2]);
      await pass(1000); // a timer that finds the first one still under way
      assert.equal(sent.length, 1);
      answered();
      await settled();
      await pass(1000); // what came meanwhile goes without another send
      assert.equal(await client.pending(), 0);
      await client.send([3]);
      await pass(1000);
      assert.equal(await client.pending(), 0);
      client.close();
    });
    assert.deepEqual(sent.map(({ reports }) => reports), [1, 1, 1]);
  }));

test("after a failed flush it tries again by itself", () =>
  withTimers(async (pass) => {
    let online = false;
    const told = [];
    await withNetwork((asked) => (online ? accept(asked) : offline()), async (sent) => {
      const client = make(memoryStore(), { delay: 1000, onError: (error) => told.push(error) });
      await client.send([1]);
      await assert.rejects(client.flush(), { code: "UNREACHABLE" });
      online = true;
      await pass(3000); // the longest first pause
      assert.deepEqual([sent.length, await client.pending(), told.length], [2, 0, 0]);
      client.close();
    });
  }));

test("a ledger that cannot be read for a while does not end sending, and is asked less and less often", () =>
  withTimers(async (pass) => {
    const real = memoryStore();
    let [isWell, asked] = [true, 0];
    const locked = async (use) => {
      asked++;
      if (!isWell) throw new LedgerFailed("cannot read the ledger: EIO");
      return real.locked(use);
    };
    await withNetwork(accept, async () => {
      const client = make({ locked }, { delay: 1000 });
      await client.send([1]);
      [isWell, asked] = [false, 0];
      for (let second = 0; second < 60; second++) await pass(1000);
      assert.ok(asked > 1 && asked < 10, `${asked}`);
      isWell = true;
      await pass(300_000);
      assert.equal(await client.pending(), 0);
      client.close();
    });
  }));

test("a collector that refuses: what may pass is kept, a closed collection ends the report", async () => {
  for (const [status, code, kept] of [
    [403, "FORBIDDEN", 1],
    [404, "UNKNOWN_PLAN", 1],
    [429, "BUSY", 1],
    [500, "", 1],
    [410, "CLOSED", 0],
  ]) {
    await withNetwork(refuse(status, code), async () => {
      const client = make(memoryStore());
      await client.send([1]);
      const isIt = (error) => error instanceof SendFailed && error.code === (code || `HTTP_${status}`);
      await assert.rejects(client.flush(), isIt);
      assert.equal(await client.pending(), kept);
      client.close();
    });
  }
});

test("a queue of a megabyte is full, and takes more once it was sent", () =>
  withNetwork(accept, async () => {
    const store = memoryStore();
    const client = make(store, { limits: { event: 1 } });
    const waiting = { id: "0".repeat(32), digest: PLAN.digest, epoch: 7, closed: true };
    const records = Array(1100).fill("00".repeat(1000));
    const state = { version: 1, charges: {}, plans: {}, outbox: [{ ...waiting, records }] };
    await store.locked(({ write }) => write(state));
    await assert.rejects(client.send([1]), { name: "SendFailed", code: "QUEUE_FULL" });
    assert.deepEqual(await client.spent("event"), [0, 0]);
    await client.flush();
    await client.send([1]);
    assert.deepEqual([await client.pending(), await client.spent("event")], [1, [1, 0]]);
    client.close();
  }));

test("many small batches fill a queue as well", async () => {
  const store = memoryStore();
  const outbox = Array.from({ length: 7000 }, (_, i) => {
    return { id: `${i}`.padStart(32, "0"), digest: PLAN.digest, epoch: i, closed: true, records: ["00"] };
  });
  await store.locked(({ write }) => write({ version: 1, charges: {}, plans: {}, outbox }));
  const client = make(store);
  await assert.rejects(client.send([1]), { name: "SendFailed", code: "QUEUE_FULL" });
  client.close();
});

test("memory is bounded: thousands of reports leave little of their own bytes behind", async () => {
  // Node's own memory moves by a megabyte at times, and these reports have five. In a process of its own no other
  // test allocates meanwhile.
  const program = fileURLToPath(new URL("memory_process.mjs", import.meta.url));
  const left = async (...given) => {
    const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", program, ...given]);
    return Number(stdout);
  };
  const [sound, leaking] = await Promise.all([left("5000"), left("5000", "keep")]);
  assert.ok(sound < 0.5 && leaking > 0.5, `${sound} ${leaking}`);
});
