/** What a collector reads from a report of direct retrieval: spec/retrieval-v1.md, section 8. */
import { COIN, EQUATION, parity, prf, type Wide } from "../../clients/js/src/hashing.ts";

export const HEADER_BYTES = 27;
export const SEED_BYTES = 5;
export const CHECKSUM_BYTES = 4;

/** Return the reading of one report at each of the first ids, +1 or -1. */
export function readings(report: Uint8Array, ids: number, bits: number): number[] {
  const record = report.slice(HEADER_BYTES, -CHECKSUM_BYTES);
  const seed: Wide = [new DataView(record.buffer).getUint32(0, true), record[4]];
  const payload = record.subarray(SEED_BYTES);
  return Array.from({ length: ids }, (_, id) => {
    let odd = prf(seed, [id, 0], COIN, 0) & 1;
    for (let byte = 0; 8 * byte < bits; byte++) {
      // Bits beyond the last are 0 in every report.
      const row = prf(seed, [id, 0], EQUATION, byte >> 2) >>> (8 * (byte & 3));
      odd ^= parity(row & payload[byte]);
    }
    return 1 - 2 * odd;
  });
}
