// Sends a full batch as a page that goes away does, once it was idle for a while. Prints milliseconds of the processor:
// of the process up to there, and of what the page waits for.
import { Client } from "../dist/sender.js";
import { memoryStore, plans } from "./support.mjs";

const RECORD = "0123456789abcdef".repeat(4); // of 32 bytes
const spent = (since) => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
};
const { document: plan, digest } = plans.get("retrieval");
const count = 1874; // 59,999 bytes with the frame
const batch = { id: "0".repeat(32), digest, epoch: 0, closed: true, count, records: RECORD.repeat(count) };
const store = memoryStore();
await store.locked(({ write }) => write({ version: 2, charges: {}, plans: {}, outbox: [batch] }));
globalThis.document = Object.assign(new EventTarget(), { visibilityState: "visible" });
let bytes = 0;
globalThis.fetch = async (_, { body }) => {
  bytes = body.length;
  return new Promise(() => {});
};
const client = new Client(plan, { policy: { digests: [digest] }, server: "https://collect.example", store, delay: null });
await client.send([1]); // and sees the queue
await new Promise((done) => setTimeout(done, 100)); // idle, as a page is for most of its time
const start = spent();
const before = process.cpuUsage();
document.visibilityState = "hidden";
document.dispatchEvent(new Event("visibilitychange"));
const waited = spent(before);
if (bytes !== 59_999) throw new Error(`${bytes} bytes were sent`);
console.log(JSON.stringify([start, waited]));
