// The sender in Node, against a collector that forgets, hangs up and refuses on request.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import fs from "node:fs/promises";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { InvalidInput, PlanRefused } from "../dist/index.js";
import { fileStore } from "../dist/node.js";
import { BudgetSpent, Client, EpochPassed, fromServer, LedgerFailed, SendFailed } from "../dist/sender.js";
import { plans } from "./support.mjs";

const PLAN = plans.get("retrieval");
const policy = { digests: [PLAN.digest] };

/** A collector in a few lines: counts each request id once. */
async function collector(use) {
  const counted = new Map();
  const requests = [];
  const said = { next: [] };
  const server = createServer((request, response) => {
    const pieces = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => {
      const url = new URL(request.url, "http://here");
      if (request.method === "GET") return void response.end(JSON.stringify(PLAN.document));
      const body = Buffer.concat(pieces);
      const id = url.searchParams.get("request");
      requests.push({ id, epoch: url.searchParams.get("epoch"), headers: request.headers, body });
      const how = said.next.shift();
      if (typeof how === "number") {
        response.statusCode = how;
        return void response.end(how === 410 ? '{"code":"CLOSED"}' : "{}");
      }
      if (how === "login page") return void response.end("<html>");
      const reports = body.readUInt32LE(23);
      const known = counted.get(id);
      if (known && !known.equals(body)) response.statusCode = 409;
      counted.set(id, body);
      if (how === "hang up") return void request.socket.destroy();
      response.end(JSON.stringify({ status: known ? "replayed" : "counted", reports }));
    });
  });
  server.keepAliveTimeout = 0; // or a machine that stands still for a while ends connections
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}`;
  const folder = mkdtempSync(join(tmpdir(), "faintly-sender-"));
  const total = () => [...counted.values()].reduce((sum, body) => sum + body.readUInt32LE(23), 0);
  try {
    const path = join(folder, "ledger.json");
    const make = (options = {}) =>
      new Client(PLAN.document, { policy, server: url, store: fileStore(path), delay: null, ...options });
    await use({ url, path, folder, make, counted, requests, said, total });
  } finally {
    server.close();
    server.closeAllConnections();
    rmSync(folder, { recursive: true });
  }
}

test("reports of one epoch are sent together, without headers that need a preflight", () =>
  collector(async ({ make, requests, total }) => {
    const client = make();
    for (let i = 0; i < 50; i++) await client.send([i % 8]);
    assert.equal(await client.pending(), 50);
    await client.flush();
    assert.deepEqual([requests.length, total(), await client.pending()], [1, 50, 0]);
    assert.equal(requests[0].headers["content-type"], undefined);
    assert.match(requests[0].id, /^[0-9a-f]{32}$/);
  }));

test("what failed is sent again with the same id and bytes, and counts once", () =>
  collector(async ({ make, requests, said, total, counted }) => {
    const client = make();
    await client.send([1]);
    for (const [how, code] of [["hang up", "UNREACHABLE"], [503, "HTTP_503"], ["login page", "NOT_A_COLLECTOR"]]) {
      said.next = [how];
      await assert.rejects(client.flush(), (error) => error instanceof SendFailed && error.code === code);
      await client.send([2]); // joins another batch: what was tried does not change
    }
    assert.equal(await client.pending(), 2); // the first, and the one that came last
    await client.flush();
    assert.deepEqual([total(), await client.pending()], [4, 0]);
    for (const id of counted.keys()) {
      const bodies = new Set(requests.filter((each) => each.id === id).map(({ body }) => body.toString("hex")));
      assert.equal(bodies.size, 1);
    }
  }));

test("a queue survives its process", () =>
  collector(async ({ make, total }) => {
    await make().send([1]);
    await make().send([2]);
    await make().flush();
    assert.equal(total(), 2);
  }));

test("a closed collection ends a report, and only that", () =>
  collector(async ({ make, said, total }) => {
    const client = make();
    await client.send([1], { epoch: 1 });
    await client.send([1], { epoch: 2 });
    said.next = [410];
    await assert.rejects(client.flush(), { code: "CLOSED" });
    assert.deepEqual([await client.pending(), total()], [0, 1]);
  }));

test("a ledger pays once for an epoch, gives the same bytes ever after, and stops at its limit", () =>
  collector(async ({ make, total, path }) => {
    const limits = { event: 2 };
    const client = make({ limits });
    const first = await client.report([1], { epoch: 3 });
    assert.deepEqual(await client.report([2, 5], { epoch: 3 }), first);
    await client.send([7], { epoch: 3 });
    await make({ limits }).send([7], { epoch: 3 });
    assert.deepEqual(await client.spent("event"), [1, 0]);
    assert.equal(await client.spent("user"), null);
    await assert.rejects(client.send([1], { epoch: 2 }), EpochPassed);
    await client.send([1], { epoch: 4 });
    const before = readFileSync(path, "utf8");
    await assert.rejects(client.send([1], { epoch: 5 }), BudgetSpent);
    assert.equal(readFileSync(path, "utf8"), before);
    await client.flush();
    assert.equal(total(), 2);
    assert.deepEqual(await client.report([], { epoch: 3 }), first); // also after it was sent
  }));

test("amounts are exact decimals", () =>
  collector(async ({ url, folder }) => {
    const document = { ...PLAN.document, epsilon: "1.1" };
    const store = fileStore(join(folder, "exact.json"));
    const options = { policy: { epsilon: 2, units: ["event"] }, server: url, store, delay: null };
    const client = new Client(document, { ...options, limits: { event: "3.3" } });
    for (let epoch = 0; epoch < 3; epoch++) await client.send([], { epoch }); // 3·1.1 in floats is more
    await assert.rejects(client.send([], { epoch: 3 }), BudgetSpent);
    assert.deepEqual(await client.spent("event"), [3.3, 0]);
  }));

test("a plan without a bound in a limited account is refused, and so are odd options", () =>
  collector(async ({ make, url }) => {
    assert.throws(() => make({ limits: { user: 4 } }), PlanRefused);
    assert.throws(() => make({ limits: {} }), InvalidInput);
    assert.throws(() => make({ limits: { household: 4 } }), InvalidInput);
    assert.throws(() => make({ limits: { "l1:0": 4 } }), InvalidInput);
    assert.throws(() => make({ period: 60 }), InvalidInput);
    assert.throws(() => make({ server: "javascript:alert(1)" }), InvalidInput);
    await assert.rejects(make({ limits: { event: 1 } }).send([], { epoch: -1 }), InvalidInput);
    assert.throws(() => make({ limits: { event: "1e3" } }), InvalidInput);
    await assert.rejects(fromServer(url, "../../metrics", { policy }), InvalidInput);
    for (const without of [undefined, {}, { policy: {} }]) {
      await assert.rejects(fromServer("http://127.0.0.1:9", PLAN.digest, without), InvalidInput); // asks nobody
    }
    await assert.rejects(fromServer(url, "0".repeat(32), { policy, store: { locked() {} }, delay: null }), PlanRefused);
    await assert.rejects(fromServer("http://127.0.0.1:9", PLAN.digest, { policy }), { code: "UNREACHABLE" });
    const client = await fromServer(url, PLAN.digest, { policy, store: { locked() {} }, delay: null });
    assert.equal(client.plan.digest, PLAN.digest);
  }));

test("a crash after the charge burns budget; a full disk before it costs nothing", () =>
  collector(async ({ make, path, total }) => {
    const limits = { event: 3 };
    const real = fileStore(path);
    const failing = (allowed) => ({
      locked: (use) =>
        real.locked((access) => {
          let writes = 0;
          const write = async (state) => {
            if (++writes > allowed) throw new LedgerFailed("cannot write the ledger: ENOSPC");
            await access.write(state);
          };
          return use({ read: access.read, write });
        }),
    });
    await assert.rejects(make({ limits, store: failing(0) }).send([1]), LedgerFailed);
    assert.equal(existsSync(path), false);
    await assert.rejects(make({ limits, store: failing(1) }).send([1]), LedgerFailed);
    const client = make({ limits });
    assert.deepEqual(await client.spent("event"), [1, 0]);
    await client.send([1]);
    await client.flush();
    assert.deepEqual([await client.spent("event"), total()], [[2, 0], 1]);
  }));

test("a damaged ledger, or none that can be made, stops everything", () =>
  collector(async ({ make, path, folder, requests }) => {
    for (const text of ["", "{", "null", '{"version":2}', '{"version":3,"charges":{},"plans":{},"outbox":[]}']) {
      writeFileSync(path, text);
      await assert.rejects(make({ limits: { event: 1 } }).send([1]), LedgerFailed);
    }
    const store = fileStore(join(folder, "nowhere", "ledger.json"));
    await assert.rejects(make({ store }).send([1]), LedgerFailed);
    assert.equal(requests.length, 0);
  }));

test("the lock of a process that is no more does not last", () =>
  collector(async ({ make, path }) => {
    writeFileSync(`${path}.lock`, "999999999 gone");
    await make().send([1]);
    writeFileSync(`${path}.lock`, `${process.pid} of an earlier process with this number`);
    await make().send([1]);
    assert.equal(existsSync(`${path}.lock`), false);
  }));

test("a lock that was free for a moment is not taken from whoever has it now", () =>
  collector(async ({ make, path }) => {
    const [lock, other, read] = [`${path}.lock`, `${process.ppid} of another process`, fs.readFile];
    const seen = [];
    fs.readFile = async (file, ...how) => {
      if (file !== lock) return read(file, ...how);
      seen.push(readFileSync(lock, "utf8"));
      if (seen.length === 3) unlinkSync(lock);
      throw Object.assign(new Error("free when it was read"), { code: "ENOENT" });
    };
    syncBuiltinESMExports();
    try {
      writeFileSync(lock, other);
      await make().send([1]);
    } finally {
      fs.readFile = read;
      syncBuiltinESMExports();
    }
    assert.deepEqual(seen, [other, other, other]);
  }));

test("processes at once pay once for an epoch", () =>
  collector(async ({ make, url, path, total }) => {
    const program = fileURLToPath(new URL("sending_process.mjs", import.meta.url));
    const run = () => promisify(execFile)(process.execPath, [program, url, path]);
    await Promise.all([run(), run(), run()]);
    const client = make({ limits: { event: 100 } });
    assert.deepEqual([await client.spent("event"), total()], [[5, 0], 5]);
  }));
