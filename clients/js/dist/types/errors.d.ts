/** Every error that is thrown on purpose. No message holds a person's keys or values. */
export declare class FaintlyError extends Error {
    name: string;
}
/** What the caller passed breaks a stated rule. */
export declare class InvalidInput extends FaintlyError {
    name: string;
}
/** A document that is not a sound plan, or one of a mechanism or version that is not known here. */
export declare class InvalidPlan extends FaintlyError {
    name: string;
}
/** The policy or the ledger does not allow the plan; nothing was charged or sent. */
export declare class PlanRefused extends FaintlyError {
    name: string;
}
/** More items than the plan allows, although the policy promised `boundedItems`. */
export declare class TooManyItems extends FaintlyError {
    name: string;
}
