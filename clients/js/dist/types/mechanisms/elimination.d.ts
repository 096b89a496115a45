/** Hundreds of equations in bits, solved a few columns at a time. */
import type { Words } from "../coins.ts";
/**
 * Return a cell of random bits except those of the pivots, which make it orthogonal to all rows. These lie one
 * after another, each with as many words as a cell, the lowest bits first. They are overwritten.
 */
export declare function orthogonalTo(rows: Int32Array, widths: readonly number[], words: Words): number[];
