import type { Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
/** Return the plan's mechanism, having checked that its integers keep the plan's promise. */
export declare function mechanismOf(plan: Plan): Mechanism;
