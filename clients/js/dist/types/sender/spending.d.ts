/** What an account may spend: an epsilon, or an epsilon and a delta; texts are exact decimals. */
export type Limit = number | string | readonly [epsilon: number | string, delta: number | string];
/** Limits by account: event, user or l1:DISTANCE. */
export type Limits = Readonly<Record<string, Limit>>;
/** One report as the ledger sees it; `items` is the enforced bound k, null where there is none. */
export interface Charge {
    readonly unit: string;
    readonly epsilon: string;
    readonly delta: string;
    readonly items: number | null;
}
/** How many of each charge there were, by its JSON. */
export type Charges = Record<string, number>;
/** Return the epsilon and the delta that an account has spent, null where there is no bound. */
export declare function spentIn(charges: Charges, account: string): [number, number] | null;
/** Refuse a plan whose reports have no bound in an account that is limited. */
export declare function accept(limits: Limits, charge: Charge): void;
/** Return the charges after one more, or refuse it where an account cannot pay. */
export declare function charged(charges: Charges, limits: Limits, charge: Charge): Charges;
