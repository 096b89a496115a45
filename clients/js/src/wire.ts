/** Bytes of reports and batches: spec/wire-v1.md. */
import { bytesOf } from "./blake2s.ts";
import { unhex } from "./bytes.ts";
import type { Wide } from "./hashing.ts";
import type { Mechanism } from "./mechanisms/api.ts";

/** Bytes of a batch beside its records: header and checksum. */
export const FRAME_BYTES = 31;

/** Return the bytes of one record: the seed where it is sent, then the fields without gaps. */
export function encodeRecord(mechanism: Mechanism, seed: Wide, fields: readonly number[]): Uint8Array {
  const { widths, sent } = mechanism;
  const bits = widths.reduce((sum, width) => sum + width, 0);
  const out = new Uint8Array(sent + Math.ceil(bits / 8));
  out.set(bytesOf(seed).subarray(0, sent));
  let at = 8 * sent;
  fields.forEach((field, i) => {
    const end = at + widths[i];
    while (at < end) {
      const used = at & 7; // bits of this byte
      out[at >> 3] |= field << used;
      field >>>= 8 - used;
      at += 8 - used;
    }
    at = end;
  });
  return out;
}

/** Return a batch of records of one plan. */
export function encodeBatch(digest: string, records: readonly Uint8Array[]): Uint8Array {
  const size = records[0].length;
  const out = new Uint8Array(FRAME_BYTES + records.length * size);
  const view = new DataView(out.buffer);
  out.set([0x46, 0x4e, 0x54, 0x52, 1]); // FNTR, version 1
  out.set(unhex(digest), 5);
  view.setUint16(21, size, true);
  view.setUint32(23, records.length, true);
  records.forEach((record, i) => out.set(record, 27 + i * size));
  view.setUint32(out.length - 4, crc32(out.subarray(0, -4)), true);
  return out;
}

function crc32(bytes: Uint8Array): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
