/** Random words, and exact choices made from them: spec/randomize-v1.md, sections 1 and 3. */
import type { Wide } from "./hashing.ts";

/** A source of uniform 32-bit words. */
export type Words = () => number;

const POOL = 512; // words asked of the system at a time

/** Return a fresh source of words from the system's generator, which nobody can predict. */
export function secureWords(): Words {
  const pool = new Uint32Array(POOL);
  let used = POOL;
  return () => {
    if (used === POOL) {
      crypto.getRandomValues(pool);
      used = 0;
    }
    const word = pool[used];
    pool[used++] = 0; // what decided about somebody's data is not kept
    return word;
  };
}

/** Return the seed of some bytes that the next two words give. */
export function drawSeed(words: Words, bytes: number): Wide {
  const low = words();
  const high = words();
  if (bytes === 8) return [low, high];
  return [((low >>> 24) | (high << 8)) >>> 0, high >>> 24]; // of 5 bytes
}

/** Return whether each chance was met: a word for each, then one for each tie, and so on. */
export function met(chances: readonly number[], words: Words): boolean[] {
  const rests = chances.slice();
  const out: boolean[] = [];
  let undecided = rests.map((_, i) => i);
  while (undecided.length) {
    undecided = undecided.filter((i) => {
      const word = words();
      const product = rests[i] * 2 ** 32;
      const high = Math.floor(product);
      out[i] = word < high;
      rests[i] = product - high;
      return word === high && rests[i] > 0;
    });
  }
  return out;
}

/** Return each size in whole steps, one more with the chance of what is left. */
export function rounded(sizes: readonly number[], steps: number, words: Words): number[] {
  const lows = sizes.map((size) => Math.floor(size * steps));
  const ups = met(
    sizes.map((size, i) => size * steps - lows[i]),
    words,
  );
  return lows.map((low, i) => low + +ups[i]);
}

/** Return uniform numbers below a limit; those whose word is skipped draw again, after all others. */
export function uniforms(count: number, limit: number, words: Words): number[] {
  const whole = 2 ** 32 - (2 ** 32 % limit); // words beyond the last whole multiple are skipped
  const out: number[] = [];
  let undecided = Array.from({ length: count }, (_, i) => i);
  while (undecided.length) {
    undecided = undecided.filter((i) => {
      const word = words();
      out[i] = word % limit;
      return word >= whole;
    });
  }
  return out;
}

/** Return a uniform number below a limit. */
export const uniform = (limit: number, words: Words): number => uniforms(1, limit, words)[0];
