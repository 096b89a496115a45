/** Random words, and exact choices made from them: spec/randomize-v1.md, sections 1 and 3. */
import type { Wide } from "./hashing.ts";
import type { Item } from "./vector.ts";

/** A source of uniform 32-bit words. */
export type Words = () => number;

const POOL = 512; // words asked of the system at a time
const { crypto } = globalThis; // Node loads its generator when this is read: here, so that no client waits for it

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
    pool[used++] = 0; // secret randomness is not kept after its use
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

/** Ask about each number below a count, then again about those that are still open, and so on. */
export function settle(count: number, isOpen: (i: number) => boolean): void {
  const again: number[] = [];
  for (let n = 0; n < count + again.length; n++) {
    const i = n < count ? n : again[n - count];
    if (isOpen(i)) again.push(i);
  }
}

/**
 * Return each |value| in whole steps, one more with the chance of what is left: a word for each, then one for each tie,
 * and so on. In one step, that is 1 where the chance |value| was met.
 */
export function rounded(items: readonly Item[], steps: number, words: Words): number[] {
  const rests = items.map(({ value }) => Math.abs(value) * steps);
  const out = rests.map(Math.floor);
  settle(out.length, (i) => {
    const word = words();
    const part = (rests[i] % 1) * 2 ** 32;
    const high = Math.floor(part);
    out[i] += +(word < high);
    rests[i] = part;
    return word === high && part > high;
  });
  return out;
}

/** Return uniform numbers below a limit; those whose word is skipped draw again, after all others. */
export function uniforms(count: number, limit: number, words: Words): Int32Array {
  const whole = 2 ** 32 - (2 ** 32 % limit); // words beyond the last whole multiple are skipped
  const out = new Int32Array(count);
  settle(count, (i) => {
    const word = words();
    out[i] = word % limit;
    return word >= whole;
  });
  return out;
}

/** Return a uniform number below a limit. */
export const uniform = (limit: number, words: Words): number => uniforms(1, limit, words)[0];
