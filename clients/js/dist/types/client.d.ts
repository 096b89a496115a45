import { type Plan } from "./plan.ts";
import { type Policy } from "./policy.ts";
import { type Items, type Tally } from "./vector.ts";
export interface ClientOptions {
    /** What the application accepts; there is no default. */
    readonly policy: Policy;
}
/**
 * Turns one person's items into one report, with the system's randomness.
 *
 * Each call spends the plan's budget again: the application decides how often to call, or uses the
 * client of `faintly/sender`, which keeps a ledger. Nothing about the data decides whether there is
 * a report, or how long it is; the one exception is the application's own promise `boundedItems`.
 */
export declare class Client {
    #private;
    /** The collection. */
    readonly plan: Plan;
    /** What was left out, moved or added up so far. It depends on the data: never send it. */
    readonly tally: Tally;
    /** Whether the plan's mechanism refuses more items than its sparsity. */
    readonly bounded: boolean;
    /** Take part in the collection of a plan: JSON as text, as bytes, or parsed. */
    constructor(plan: string | Uint8Array | object, options: ClientOptions);
    /** Return one randomized report, as the bytes of a batch of one. */
    report(items: Items): Uint8Array;
    /** Return one randomized report, as the bytes of a record. */
    record(items: Items): Uint8Array;
    /** Return a function that draws the noise and makes the record: a ledger charges before that. */
    prepare(items: Items): () => Uint8Array;
}
