import { type Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
export declare function retrieval(plan: Plan): Mechanism;
/** Return how many bits each word of a cell has. */
export declare const cellWidths: (bits: number) => number[];
