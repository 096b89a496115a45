/** The sender: an encoder with a ledger, and a queue that survives reloads. */
export { Client, fromServer, type SenderOptions, type Which } from "./client.ts";
export * from "./errors.ts";
export type { Limit, Limits } from "./spending.ts";
export { freshId, guarded, indexedDBStore, poll, type Access, type Store } from "./store.ts";
