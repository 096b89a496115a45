import { FaintlyError } from "../index.ts";
/** The ledger's limits leave no room for another report; nothing was charged. */
export declare class BudgetSpent extends FaintlyError {
    name: string;
}
/** The epoch lies before the last one, and no report of it is kept. */
export declare class EpochPassed extends FaintlyError {
    name: string;
}
/** The store cannot be read, locked or written; what was charged stays charged. */
export declare class LedgerFailed extends FaintlyError {
    name: string;
}
/** A collector refused a request or could not be reached; `code` is its own, or UNREACHABLE. */
export declare class SendFailed extends FaintlyError {
    readonly code: string;
    name: string;
    constructor(code: string, message: string);
}
