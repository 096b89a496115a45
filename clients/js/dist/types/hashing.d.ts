import type { Plan } from "./plan.ts";
/** An unsigned integer of 64 bits, as its low and its high word: an id, a seed or a hash key. */
export type Wide = readonly [low: number, high: number];
/** A hash of a key and an id to one word; without `w` the form mix of the specification. */
export type Hash = (key: Wide, id: Wide, tag: number, w?: number) => number;
export declare const BIN = 98;
export declare const SIGN = 115;
export declare const ROW = 114;
export declare const MATRIX = 65;
export declare const MAP = 106;
export declare const MASK = 109;
export declare const FOLD = 102;
export declare const EQUATION = 97;
export declare const COIN = 99;
export declare const ORDER = 111;
export declare const PROJECTION = 112;
export declare const GROUP = 113;
export declare const SYMBOL = 121;
/** HalfSipHash-1-3. */
export declare const prf: Hash;
/** Keyed BLAKE2s. */
export declare const keyed: Hash;
/** Return a word scaled to 0 … count - 1; exact for counts up to 2^20. */
export declare const below: (word: number, count: number) => number;
/** Return the number of ones of a word. */
export declare function count(word: number): number;
/** Return 1 where the number of ones is odd. */
export declare const parity: (word: number) => number;
/** Return a number of D bits with all of them set. */
export declare const ones: (bits: number) => number;
/** The public map that a seed picks: the code of an id, and whether its mask is negative. */
export interface PublicMap {
    readonly number: number;
    readonly fold: Wide;
    code(id: Wide): number;
    negative(id: Wide): number;
}
/** Return the map of the linear family that a seed picks. */
export declare function mapOf(plan: Plan, seed: Wide): PublicMap;
/** Return the map with a number. */
export declare function publicMap(plan: Plan, number: number): PublicMap;
