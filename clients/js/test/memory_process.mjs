// Sends reports, and prints how much memory they leave behind, as a share of their own bytes:
// node --expose-gc memory_process.mjs REPORTS [keep]. With `keep` the network keeps every body: a leak.
import { Client } from "../dist/sender.js";
import { memoryStore, plans } from "./support.mjs";

const [reports, mode] = process.argv.slice(2);
const TOGETHER = 10; // reports of a request
const { document } = plans.get("retrieval-direct");
const long = { ...document, parameters: { ...document.parameters, bits: 8192 } };
const kept = [];
let bytes = 0;
globalThis.fetch = async (_, { body }) => {
  bytes += body.length;
  if (mode === "keep") kept.push(body);
  return Response.json({ status: "counted", reports: TOGETHER });
};
const policy = { epsilon: 16, units: ["event"] };
const client = new Client(long, { policy, server: "https://collect.example", store: memoryStore(), delay: null });

/** Send so many reports, and return what is used then. */
async function used(count) {
  for (let i = 0; i < count; i += TOGETHER) {
    for (let one = 0; one < TOGETHER; one++) await client.send([1, 5]);
    await client.flush();
  }
  gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const before = await used(1000); // compiled by then
bytes = 0;
const after = await used(Number(reports));
if (await client.pending()) throw new Error("not all was sent");
client.close();
console.log((after - before) / bytes);
