import type { Wide } from "./hashing.ts";
import type { Plan } from "./plan.ts";
/** A key: text, bytes, or an integer from 0 to 2^53 - 1. */
export type Key = string | number | Uint8Array;
/** Keys alone, or keys with values in [-1, 1]. An object's keys are texts, or indices. */
export type Items = Iterable<Key> | ReadonlyMap<Key, number> | Readonly<Record<string, number>> | Key;
/** One key that is held, by its id. */
export interface Item {
    readonly id: Wide;
    readonly value: number;
}
/** How much a plan did not take as it was. It depends on the data: never send it. */
export interface Tally {
    unknown: number;
    absent: number;
    repeated: number;
    clipped: number;
    beyond: number;
}
/** Return the items by rising id, and add to the tally what was changed. */
export declare function project(plan: Plan, items: Items, tally: Tally): Item[];
/** Return the id of a key, or null where the plan's universe does not have it. */
export declare function idOf(plan: Plan, key: unknown): Wide | null;
