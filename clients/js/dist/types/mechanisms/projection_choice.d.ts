import { type Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
export declare const POLYNOMIALS: number[];
export declare const LEAST_DEGREE = 8;
export declare function projectionChoice(plan: Plan): Mechanism;
