/**
 * What people hold, projected onto what a plan takes. If a vector were refused, the missing report
 * would tell the server what its plan was made to find out. So nothing here throws because of the
 * data: keys that the plan does not have are left out, values are clipped, what is not a number
 * counts as absent, and repeated keys are added up.
 */
import { wordsOf } from "./blake2s.ts";
import { isLone, utf8 } from "./bytes.ts";
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
  unknown: number; // keys that the plan's universe does not have, left out
  absent: number; // values that are not numbers, left out
  repeated: number; // further mentions of a key, added to the first
  clipped: number; // values moved to the nearest that the plan takes
  beyond: number; // items past the plan's sparsity, of which a mechanism may cut some
}

/** Return the items by rising id, and add to the tally what was changed. */
export function project(plan: Plan, items: Items, tally: Tally): Item[] {
  const sums = new Map<string, { id: Wide; value: number }>();
  for (const [key, given] of listed(plan, items)) {
    const id = idOf(plan, key);
    const value = typeof given === "number" || typeof given === "boolean" ? +given : NaN;
    if (!id) tally.unknown++;
    else if (Number.isNaN(value)) tally.absent++;
    else {
      const name = id.join();
      const known = sums.get(name);
      if (known) {
        known.value += value;
        tally.repeated++;
      } else sums.set(name, { id, value });
    }
  }
  const out: Item[] = [];
  const least = plan.values === "signed" ? -1 : 0;
  for (const { id, value } of sums.values()) {
    const clipped = Math.max(least, Math.min(1, value));
    const kept = plan.values === "set" ? Math.ceil(clipped - 0.5) : clipped;
    if (Number.isNaN(kept)) tally.absent++; // infinities of both signs
    else {
      if (kept !== value) tally.clipped++;
      if (kept !== 0) out.push({ id, value: kept });
    }
  }
  tally.beyond += Math.max(0, out.length - plan.sparsity);
  return out.sort(byId);
}

const byId = (a: Item, b: Item) => a.id[1] - b.id[1] || a.id[0] - b.id[0];

function listed(plan: Plan, items: unknown): Iterable<[unknown, unknown]> {
  if (items instanceof Map) return items;
  if (typeof items !== "object" || items === null || items instanceof Uint8Array) return [[items, 1]];
  if (Symbol.iterator in items) {
    return Array.from(items as Iterable<unknown>, (key) => [key, 1] as [unknown, unknown]);
  }
  // An object spells its keys as texts, also those that are indices.
  const indexed = plan.kind === "indexed";
  return Object.entries(items).map(([key, value]) => {
    return [indexed && String(+key) === key ? +key : key, value];
  });
}

/** Return the id of a key, or null where the plan's universe does not have it. */
export function idOf(plan: Plan, key: unknown): Wide | null {
  if (plan.names) {
    const position = typeof key === "string" ? plan.names.get(key) : undefined;
    return position === undefined ? null : [position, 0];
  }
  if (typeof key === "number") {
    const known = Number.isSafeInteger(key) && key >= 0 && key < (plan.size ?? Infinity);
    return known ? [key >>> 0, Math.floor(key / 2 ** 32)] : null;
  }
  const bytes = typeof key === "string" && !isLone(key) ? utf8(key) : key;
  if (plan.size !== null || !(bytes instanceof Uint8Array)) return null;
  const [low, high] = wordsOf(plan.hash(bytes));
  return [low >>> 0, high >>> 0];
}
