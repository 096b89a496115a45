// What charges cost in accounts: reads [charges, accounts] as JSON, prints a cost for each pair of them.
import { readFileSync } from "node:fs";
import { Client } from "../dist/sender.js";
import { memoryStore, plans } from "./support.mjs";

const [charges, accounts] = JSON.parse(readFileSync(0, "utf8"));
const { document, digest } = plans.get("retrieval");
const store = memoryStore();
const client = new Client(document, { policy: { digests: [digest] }, server: "https://collect.example", store, delay: null });
const costs = [];
for (const charge of charges) {
  const state = { version: 2, charges: { [JSON.stringify(charge)]: 1 }, plans: {}, outbox: [] };
  await store.locked(({ write }) => write(state));
  for (const account of accounts) costs.push(await client.spent(account));
}
client.close();
console.log(JSON.stringify(costs));
