import { type Plan } from "../plan.ts";
import type { Mechanism } from "./api.ts";
export declare function retrievalGf(plan: Plan): Mechanism;
