import { type Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
export declare function orthogonal(plan: Plan): Mechanism;
