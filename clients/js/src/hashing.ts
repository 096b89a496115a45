/** Public hashing: spec/hashing-v1.md. Everyone who holds the plan and a seed can compute it. */
import { blake2s, bytesOf, wordsOf } from "./blake2s.ts";
import type { Plan } from "./plan.ts";

/** An unsigned integer of 64 bits, as its low and its high word: an id, a seed or a hash key. */
export type Wide = readonly [low: number, high: number];
/** A hash of a key and an id to one word; without `w` the form mix of the specification. */
export type Hash = (key: Wide, id: Wide, tag: number, w?: number) => number;

// The letter of each use; no two share one. As plain numbers they are inlined in the bundles.
export const BIN = 98; // b
export const SIGN = 115; // s
export const ROW = 114; // r
export const MATRIX = 65; // A
export const MAP = 106; // j
export const MASK = 109; // m
export const FOLD = 102; // f
export const EQUATION = 97; // a
export const COIN = 99; // c
export const ORDER = 111; // o
export const PROJECTION = 112; // p
export const GROUP = 113; // q
export const SYMBOL = 121; // y

/** HalfSipHash-1-3. */
export const prf: Hash = (key, id, tag, w) => {
  let v0 = key[0] | 0;
  let v1 = key[1] | 0;
  let v2 = v0 ^ 0x6c796765;
  let v3 = v1 ^ 0x74656462;
  const end = tag + (w === undefined ? 0x09000000 : 0x0a000000 + 256 * w);
  // A round for each of three words, and three more: a plain loop is quick before it is compiled.
  for (let i = 0; i < 6; i++) {
    const word = i < 2 ? id[i] | 0 : i > 2 ? 0 : end;
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = (v1 << 5) ^ (v1 >>> 27) ^ v0;
    v2 = (v2 + v3) | 0;
    v3 = (v3 << 8) ^ (v3 >>> 24) ^ v2;
    v0 = (((v0 << 16) ^ (v0 >>> 16)) + v3) | 0;
    v3 = (v3 << 7) ^ (v3 >>> 25) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = (v1 << 13) ^ (v1 >>> 19) ^ v2;
    v2 = (v2 << 16) ^ (v2 >>> 16);
    v0 ^= word;
    if (i === 2) v2 ^= 0xff;
  }
  return (v1 ^ v3) >>> 0;
};

/** Keyed BLAKE2s. */
export const keyed: Hash = (key, id, ...end) =>
  wordsOf(blake2s(8, bytesOf(key))(Uint8Array.of(...bytesOf(id), ...(end as number[]))))[0] >>> 0;

/** Return a word scaled to 0 … count - 1; exact for counts up to 2^20. */
export const below = (word: number, count: number): number => Math.floor((word * count) / 2 ** 32);

/** Return the number of ones of a word. */
export function count(word: number): number {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** Return 1 where the number of ones is odd. */
export const parity = (word: number): number => count(word) & 1;

/** Return a number of D bits with all of them set. */
export const ones = (bits: number): number => 2 ** bits - 1;

/** The public map that a seed picks: the code of an id, and whether its mask is negative. */
export interface PublicMap {
  readonly number: number;
  readonly fold: Wide; // a separate key
  code(id: Wide): number;
  negative(id: Wide): number;
}

/** Return the map of the linear family that a seed picks. */
export function mapOf(plan: Plan, seed: Wide): PublicMap {
  return publicMap(plan, below(prf(seed, [0, 0], MAP), plan.maps));
}

/** Return the map with a number. */
export function publicMap(plan: Plan, number: number): PublicMap {
  const constants = (purpose: string) =>
    wordsOf(blake2s(32, plan.salt, `fntly${purpose}`)(bytesOf([number])));
  const keys = constants("key");
  const fold: Wide = [keys[2], keys[3]];
  const steps = constants("map");
  const low = ones(plan.bits);
  const half = Math.ceil(plan.bits / 2);
  return {
    number,
    fold,
    negative: (id) => prf([keys[0], keys[1]], id, MASK) & 1,
    code(id) {
      if (plan.size === null) return prf(fold, id, FOLD) & low;
      let code = id[0];
      for (let i = 0; i < 8; i += 2) {
        code = (Math.imul(code, steps[i] | 1) + steps[i + 1]) & low;
        code ^= code >>> half;
      }
      return code;
    },
  };
}
