/** Random words, and exact choices made from them: spec/randomize-v1.md, sections 1 and 3. */
import type { Wide } from "./hashing.ts";
import type { Item } from "./vector.ts";
/** A source of uniform 32-bit words. */
export type Words = () => number;
/** Return a fresh source of words from the system's generator, which nobody can predict. */
export declare function secureWords(): Words;
/** Return the seed of some bytes that the next two words give. */
export declare function drawSeed(words: Words, bytes: number): Wide;
/** Ask about each number below a count, then again about those that are still open, and so on. */
export declare function settle(count: number, isOpen: (i: number) => boolean): void;
/**
 * Return each |value| in whole steps, one more with the chance of what is left: a word for each, then one for each tie,
 * and so on. In one step, that is 1 where the chance |value| was met.
 */
export declare function rounded(items: readonly Item[], steps: number, words: Words): number[];
/** Return uniform numbers below a limit; those whose word is skipped draw again, after all others. */
export declare function uniforms(count: number, limit: number, words: Words): Int32Array;
/** Return a uniform number below a limit. */
export declare const uniform: (limit: number, words: Words) => number;
