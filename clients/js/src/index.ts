/** The encoder: a plan and a person's items to the bytes of a report. */
export { checked, Client, fetchPlan, fromServer, type ClientOptions } from "./client.ts";
export * from "./errors.ts";
export type { Plan } from "./plan.ts";
export type { Policy } from "./policy.ts";
export type { Items, Key, Tally } from "./vector.ts";
export { encodeBatch } from "./wire.ts";
