// One of several processes that send the same five epochs over one ledger.
import { fileStore } from "../dist/node.js";
import { Client, EpochPassed } from "../dist/sender.js";
import { plans } from "./support.mjs";

const [server, path] = process.argv.slice(2);
const { document, digest } = plans.get("retrieval");
const client = new Client(document, {
  policy: { digests: [digest] },
  limits: { event: 100 },
  store: fileStore(path),
  delay: null,
  server,
});
for (let epoch = 0; epoch < 5; epoch++) {
  await client.send([1], { epoch }).catch((error) => {
    // Another process was quicker, and has left this epoch behind.
    if (!(error instanceof EpochPassed)) throw error;
  });
}
await client.flush();
