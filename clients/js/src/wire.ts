/** Bytes of reports and batches: spec/wire-v1.md. */
import { bytesOf } from "./blake2s.ts";
import { unhex } from "./bytes.ts";
import type { Wide } from "./hashing.ts";
import type { Mechanism } from "./mechanisms/api.ts";

const HEADER_BYTES = 27;
// What eight steps of the checksum make of each byte: sixty thousand bytes must not block a page.
const CRCS = Array.from({ length: 256 }, (_, crc) => {
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 && 0xedb88320);
  return crc;
});

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

/** Return a batch of so many records of one plan, given one after another. */
export function encodeBatch(digest: string, records: Uint8Array, count: number): Uint8Array {
  const end = HEADER_BYTES + records.length;
  const out = new Uint8Array(end + 4);
  out.set(unhex("464e545201" + digest)); // FNTR, version 1
  out.set(bytesOf([records.length / count]), 21); // of two bytes; the others follow
  out.set(bytesOf([count]), 23);
  out.set(records, HEADER_BYTES);
  let crc = -1;
  for (let i = 0; i < end; i++) crc = (crc >>> 8) ^ CRCS[(crc ^ out[i]) & 255];
  out.set(bytesOf([~crc]), end);
  return out;
}
