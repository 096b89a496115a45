import { FaintlyError } from "../index.ts";

/** The ledger's limits leave no room for another report; nothing was charged. */
export class BudgetSpent extends FaintlyError {
  override name = "BudgetSpent";
}

/** The epoch lies before the last one, and no report of it is kept. */
export class EpochPassed extends FaintlyError {
  override name = "EpochPassed";
}

/** The store cannot be read, locked or written; what was charged stays charged. */
export class LedgerFailed extends FaintlyError {
  override name = "LedgerFailed";
}

/** A collector refused a request or could not be reached; `code` is its own, or UNREACHABLE. */
export class SendFailed extends FaintlyError {
  override name = "SendFailed";

  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}
