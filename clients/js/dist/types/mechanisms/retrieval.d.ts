import { type Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
export declare function retrieval(plan: Plan): Mechanism;
