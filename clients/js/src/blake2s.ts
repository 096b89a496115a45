/** BLAKE2s of RFC 7693, in 32-bit words. */
// The first 32 bits after the point of the square roots of the first primes.
const IV = Uint32Array.from([2, 3, 5, 7, 11, 13, 17, 19], (prime) => Math.sqrt(prime) * 2 ** 32);
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
const NONE = new Uint8Array(0);

/** Return `size` bytes of the hash of data, under a key and eight letters of personalisation. */
export function blake2s(
  data: Uint8Array,
  size: number,
  key: Uint8Array = NONE,
  person = "",
): Uint8Array {
  const keyed = key.length ? BLOCK : 0;
  const length = keyed + data.length;
  const padded = new Uint8Array(Math.max(1, Math.ceil(length / BLOCK)) * BLOCK);
  padded.set(key);
  padded.set(data, keyed);
  const words = wordsOf(padded);
  const state = IV.slice();
  state[0] ^= 0x01010000 ^ (key.length << 8) ^ size;
  if (person) {
    const [first, second] = wordsOf(Uint8Array.from(person, (letter) => letter.charCodeAt(0)));
    state[6] ^= first;
    state[7] ^= second;
  }
  for (let at = BLOCK; at <= padded.length; at += BLOCK) {
    const last = at === padded.length;
    compress(state, words.subarray(at / 4 - 16, at / 4), last ? length : at, last);
  }
  return bytesOf(state).subarray(0, size);
}

/** Return the little-endian words of bytes, whose number is a multiple of four. */
export function wordsOf(bytes: Uint8Array): Uint32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Uint32Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(4 * i, true));
}

/** Return words as little-endian bytes. */
export function bytesOf(words: ArrayLike<number>): Uint8Array {
  const view = new DataView(new ArrayBuffer(4 * words.length));
  for (let i = 0; i < words.length; i++) view.setUint32(4 * i, words[i], true);
  return new Uint8Array(view.buffer);
}

const turn = (word: number, by: number) => (word >>> by) | (word << (32 - by));

function compress(state: Uint32Array, block: Uint32Array, count: number, last: boolean): void {
  const v = new Uint32Array(16);
  v.set(state);
  v.set(IV, 8);
  v[12] ^= count; // of bytes; what lies above 32 bits of it is 0 here
  if (last) v[14] = ~v[14];
  // Half of a mix at a time: in each round columns first, then diagonals.
  for (let i = 0; i < 160; i++) {
    const at = i >> 1;
    const by = (i >> 3) & 1;
    const odd = i & 1;
    const a = at & 3;
    const b = 4 + ((at + by) & 3);
    const c = 8 + ((at + 2 * by) & 3);
    const d = 12 + ((at + 3 * by) & 3);
    v[a] += v[b] + block[SIGMA[i]];
    v[d] = turn(v[d] ^ v[a], odd ? 8 : 16);
    v[c] += v[d];
    v[b] = turn(v[b] ^ v[c], odd ? 7 : 12);
  }
  for (let i = 0; i < 8; i++) state[i] ^= v[i] ^ v[i + 8];
}
