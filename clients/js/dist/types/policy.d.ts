import type { Mechanism } from "./mechanisms/api.ts";
import { type Plan } from "./plan.ts";
/** Plans that a client accepts: those with a digest that is listed, and those within a budget. */
export interface Policy {
    /** Digests, 32 hexadecimal digits each, that did not come from the server itself. */
    readonly digests?: readonly string[];
    /** The most that one report may spend, with `units`. */
    readonly epsilon?: number;
    /** The same for delta; 0 unless given. */
    readonly delta?: number;
    /** Units to accept: event, user or l1:DISTANCE, where a plan may hide a larger distance. */
    readonly units?: readonly string[];
    /** The application promises never to report more items than a plan's sparsity. */
    readonly boundedItems?: boolean;
}
/** Return the mechanism of a plan that the policy allows and whose integers keep its promise. */
export declare function admit(plan: Plan, policy: Policy | undefined): Mechanism;
