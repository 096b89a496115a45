import { type Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
/** One item's equation: the parity that a cell and its row must have. */
interface Equation {
    readonly block: number;
    readonly row: Int32Array;
    odd: number;
    readonly order: number;
}
export declare function retrieval(plan: Plan): Mechanism;
/** Return how many bits each word of a cell has. */
export declare const cellWidths: (bits: number) => number[];
/** Return the cell that keeps the free bits but for the pivots, which solve the equations. */
export declare function solve(equations: readonly Pick<Equation, "row" | "odd">[], cell: number[]): number[];
export {};
