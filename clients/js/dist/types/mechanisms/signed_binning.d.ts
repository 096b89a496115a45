import { type Wide } from "../hashing.ts";
import { type Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
export declare function signedBinning(plan: Plan): Mechanism;
/** Return a function from an id to its bin, and to 1 where its sign is negative. */
export declare function placesOf(plan: Plan, bins: number, seed: Wide): (id: Wide) => [number, number];
