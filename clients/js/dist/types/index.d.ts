/** The encoder: a plan and a person's items to the bytes of a report. */
export { Client, type ClientOptions } from "./client.ts";
export * from "./errors.ts";
export { hex, unhex } from "./bytes.ts";
export { register } from "./mechanisms/index.ts";
export { spelled, type Plan } from "./plan.ts";
export type { Policy } from "./policy.ts";
export type { Items, Key, Tally } from "./vector.ts";
export { encodeBatch } from "./wire.ts";
