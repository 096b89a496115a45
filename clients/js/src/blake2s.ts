/** BLAKE2s of RFC 7693, in 32-bit words. */
import { utf8 } from "./bytes.ts";

// The first 32 bits after the point of the square roots of the first primes.
const IV = Int32Array.from([2, 3, 5, 7, 11, 13, 17, 19], (prime) => Math.sqrt(prime) * 2 ** 32);
// The order in which each of the ten rounds takes the words of a block, a digit for each.
const SIGMA = Array.from(
  "0123456789abcdef" +
    "ea489fd61c02b753" +
    "b8c052fdae367194" +
    "7931dcbe265a40f8" +
    "905724afe1bc683d" +
    "2c6a0b834d75fe19" +
    "c51fed4a0763928b" +
    "db7ec13950f4862a" +
    "6fe9b308c2d714a5" +
    "a2847615fb9e3cd0",
  (digit) => parseInt(digit, 16),
);
const BLOCK = 64;

/** Return `size` bytes of the hash of data, under a key and eight letters of personalisation. */
export function blake2s(
  data: Uint8Array,
  size: number,
  key: ArrayLike<number> = [],
  person = "",
): Uint8Array {
  const keyed = key.length ? BLOCK : 0;
  const length = keyed + data.length;
  const padded = new Uint8Array((Math.ceil(length / BLOCK) || 1) * BLOCK);
  padded.set(key);
  padded.set(data, keyed);
  const words = wordsOf(padded);
  const state = IV.slice();
  state[0] ^= 0x01010000 ^ (key.length << 8) ^ size;
  wordsOf(utf8(person)).forEach((word, i) => (state[6 + i] ^= word));
  for (let at = BLOCK; at <= padded.length; at += BLOCK) {
    const last = at === padded.length;
    compress(state, words.subarray(at / 4 - 16, at / 4), last ? length : at, last);
  }
  return bytesOf(state).subarray(0, size);
}

/** Return the little-endian words of bytes, whose number is a multiple of four, with a sign: such are quick. */
export function wordsOf(bytes: Uint8Array): Int32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const words = new Int32Array(bytes.length / 4);
  for (let i = 0; i < words.length; i++) words[i] = view.getInt32(4 * i, true);
  return words;
}

/** Return words as little-endian bytes. */
export function bytesOf(words: ArrayLike<number>): Uint8Array {
  const view = new DataView(new ArrayBuffer(4 * words.length));
  for (let i = 0; i < words.length; i++) view.setUint32(4 * i, words[i], true);
  return new Uint8Array(view.buffer);
}

function compress(state: Int32Array, block: Int32Array, count: number, last: boolean): void {
  const v = Int32Array.of(...state, ...IV);
  v[12] ^= count; // of bytes; what lies above 32 bits of it is 0 here
  if (last) v[14] = ~v[14];
  // A mix at a time: in each round columns first, then diagonals. A plain loop over local words is quick before it
  // is compiled.
  for (let i = 0; i < 80; i++) {
    const by = (i >> 2) & 1;
    const at = 4 + ((i + by) & 3);
    const to = 8 + ((i + 2 * by) & 3);
    const on = 12 + ((i + 3 * by) & 3);
    let a = v[i & 3];
    let b = v[at];
    let c = v[to];
    let d = v[on];
    a = (a + b + block[SIGMA[2 * i]]) | 0;
    d ^= a;
    d = (d << 16) ^ (d >>> 16);
    c = (c + d) | 0;
    b ^= c;
    b = (b << 20) ^ (b >>> 12);
    a = (a + b + block[SIGMA[2 * i + 1]]) | 0;
    d ^= a;
    d = (d << 24) ^ (d >>> 8);
    c = (c + d) | 0;
    b ^= c;
    b = (b << 25) ^ (b >>> 7);
    v[i & 3] = a;
    v[at] = b;
    v[to] = c;
    v[on] = d;
  }
  for (let i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
}
