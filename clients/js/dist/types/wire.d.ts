import type { Wide } from "./hashing.ts";
import type { Mechanism } from "./mechanisms/api.ts";
/** Return the bytes of one record: the seed where it is sent, then the fields without gaps. */
export declare function encodeRecord(mechanism: Mechanism, seed: Wide, fields: readonly number[]): Uint8Array;
/** Return a batch of so many records of one plan, given one after another. */
export declare function encodeBatch(digest: string, records: Uint8Array, count: number): Uint8Array;
