import type { Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
/** Make a mechanism known under its name: for those that are imported separately. */
export declare const register: (name: string, make: (plan: Plan) => Mechanism) => void;
/** Return the plan's mechanism, having checked that its integers keep the plan's promise. */
export declare function mechanismOf(plan: Plan): Mechanism;
