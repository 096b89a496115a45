/** Retrieval: spec/retrieval-v1.md. Randomized response for each item, in a linear system. */
import { type Words } from "../coins.ts";
import { type Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
export declare function retrieval(plan: Plan): Mechanism;
/** Return how many bits each word of a cell has. */
export declare const cellWidths: (bits: number) => number[];
/** Return a cell of random bits but for those of the pivots, which solve the equations. */
export declare function solve(rows: readonly Int32Array[], widths: readonly number[], words: Words): number[];
