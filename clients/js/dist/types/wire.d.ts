import type { Wide } from "./hashing.ts";
import type { Mechanism } from "./mechanisms/api.ts";
/** Bytes of a batch beside its records: header and checksum. */
export declare const FRAME_BYTES = 31;
/** Return the bytes of one record: the seed where it is sent, then the fields without gaps. */
export declare function encodeRecord(mechanism: Mechanism, seed: Wide, fields: readonly number[]): Uint8Array;
/** Return a batch of records of one plan. */
export declare function encodeBatch(digest: string, records: readonly Uint8Array[]): Uint8Array;
