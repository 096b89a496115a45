/** Every error that is thrown on purpose. No message holds a person's keys or values. */
export class FaintlyError extends Error {
  override name = "FaintlyError";
}

/** What the caller passed breaks a stated rule. */
export class InvalidInput extends FaintlyError {
  override name = "InvalidInput";
}

/** A document that is not a sound plan, or one of a mechanism or version that is not known here. */
export class InvalidPlan extends FaintlyError {
  override name = "InvalidPlan";
}

/** The policy or the ledger does not allow the plan; nothing was charged or sent. */
export class PlanRefused extends FaintlyError {
  override name = "PlanRefused";
}

/** More items than the plan allows, although the policy promised `boundedItems`. */
export class TooManyItems extends FaintlyError {
  override name = "TooManyItems";
}
