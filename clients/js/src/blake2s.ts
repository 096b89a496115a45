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

/**
 * Return a function from data to `size` bytes of its hash, under a key and eight letters of
 * personalisation. It keeps the state after the key, which saves half the work for a short text.
 */
export function blake2s(
  size: number,
  key: ArrayLike<number> = [],
  person = "",
): (data: Uint8Array) => Uint8Array {
  const keyed = key.length ? BLOCK : 0;
  const start = IV.slice();
  start[0] ^= 0x01010000 ^ (key.length << 8) ^ size;
  wordsOf(utf8(person)).forEach((word, i) => (start[6 + i] ^= word));
  let later: Int32Array | undefined; // after the block of the key, where it is not the last
  return (data) => {
    const length = keyed + data.length;
    const padded = new Uint8Array(Math.ceil((length || 1) / BLOCK) * BLOCK);
    padded.set(key);
    padded.set(data, keyed);
    const words = wordsOf(padded);
    const known = data.length && later;
    const state = (known || start).slice();
    for (let at = known ? BLOCK : 0; at < padded.length; ) {
      compress(state, words, at, length);
      at += BLOCK;
      if (at === keyed && data.length) later = state.slice();
    }
    return bytesOf(state).subarray(0, size);
  };
}

/** Return the little-endian words of bytes, whose number is a multiple of four; signed words are faster. */
export function wordsOf(bytes: Uint8Array): Int32Array {
  const words = new Int32Array(bytes.length / 4);
  for (let i = 0; i < bytes.length; i++) words[i >> 2] |= bytes[i] << (8 * i);
  return words;
}

/** Return words as little-endian bytes. */
export const bytesOf = (words: ArrayLike<number>): Uint8Array =>
  Uint8Array.from({ length: 4 * words.length }, (_, i) => words[i >> 2] >>> (8 * i));

/** Take the block from a byte on into the state; the length is that of all data. */
function compress(state: Int32Array, words: Int32Array, from: number, length: number): void {
  const v = Int32Array.of(...state, ...IV);
  const block = words.subarray(from / 4);
  from += BLOCK;
  v[12] ^= Math.min(from, length); // what lies above 32 bits of it is 0 here
  if (from >= length) v[14] = ~v[14];
  // In each round columns first, then diagonals. Words in variables are quick before the loop is compiled.
  for (let i = 0; i < 160; i += 2) {
    const by = (i >> 3) & 1;
    const at = i >> 1;
    const second = 4 + ((at + by) & 3);
    const third = 8 + ((at + 2 * by) & 3);
    const fourth = 12 + ((at + 3 * by) & 3);
    let b = v[second];
    let a = (v[at & 3] + b + block[SIGMA[i]]) | 0;
    let d = v[fourth] ^ a;
    d = (d << 16) ^ (d >>> 16);
    let c = (v[third] + d) | 0;
    b ^= c;
    b = (b << 20) ^ (b >>> 12);
    a = (a + b + block[SIGMA[i + 1]]) | 0;
    d ^= a;
    d = (d << 24) ^ (d >>> 8);
    c = (c + d) | 0;
    b ^= c;
    v[at & 3] = a;
    v[second] = (b << 25) ^ (b >>> 7);
    v[third] = c;
    v[fourth] = d;
  }
  for (let i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
}
