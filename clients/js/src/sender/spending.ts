/**
 * What reports cost, unit by unit. A charge is one report; what it costs in the account of another
 * unit is group privacy: the steps of a walk between any two vectors that differ by that unit.
 *
 * charge   in account event   in account l1:M         in account user
 * event    1 step             2k, if k is enforced    2k, if k is enforced
 * l1:L     ⌈2/L⌉              ⌈M/L⌉                   ⌈2k/L⌉, if k is enforced
 * user     1                  1                       1
 *
 * Amounts are whole numbers, of billionths of epsilon and of 10^-15 of delta: costs are rounded up
 * and limits down, so decimals of no more places are exact.
 */
import { InvalidInput, PlanRefused, spelled } from "../index.ts";
import { BudgetSpent } from "./errors.ts";

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

type Loss = readonly [epsilon: number, delta: number];
const PLACES: Loss = [9, 15];

/** Return an amount in units of 10^-places, rounded up or down. */
function whole(amount: number | string, places: number, up: boolean): number {
  const text = typeof amount === "number" ? spelled(amount) : amount;
  if (!/^\d+(\.\d+)?$/.test(text)) throw new InvalidInput("an amount must be a plain decimal");
  const [front, back = ""] = text.split(".");
  const rest = up && /[1-9]/.test(back.slice(places));
  return +(front + back.slice(0, places).padEnd(places, "0")) + +rest;
}

/** Return ⌈a/b⌉ of two decimals. */
function steps(a: number | string, b: string): number {
  const [top, bottom] = [whole(a, PLACES[0], true), whole(b, PLACES[0], false)];
  return Math.floor(top / bottom) + +(top % bottom > 0);
}

/** Return how many changes that a charge protects one change of an account's unit can take. */
function walk({ unit, items }: Charge, account: string): number | null {
  if (unit === "user" || unit === account) return 1;
  const both = items && 2 * items;
  if (unit === "event") return both;
  const reach = unit.slice(3);
  if (account === "event") return steps(2, reach);
  const across = both && steps(both, reach);
  if (account === "user") return across;
  const within = steps(account.slice(3), reach);
  return across === null ? within : Math.min(within, across);
}

/** Return what a charge costs in an account, null where there is no bound. */
function cost(charge: Charge, account: string): Loss | null {
  const length = walk(charge, account);
  if (length === null) return null;
  const epsilon = whole(charge.epsilon, PLACES[0], true);
  let delta = whole(charge.delta, PLACES[1], true);
  if (delta && length > 1) {
    // 1 + e^ε + … with room for the rounding of floats.
    const rate = +charge.epsilon;
    const growth = Math.expm1(length * rate) / Math.expm1(rate);
    delta = Math.min(1e15, Math.ceil(delta * growth * (1 + 1e-9)));
  }
  return [epsilon * length, delta];
}

/** Return what a limit allows. */
function allowed(limit: Limit): Loss {
  const [epsilon, delta] = typeof limit === "object" ? limit : [limit, 0];
  return [whole(epsilon, PLACES[0], false), whole(delta, PLACES[1], false)];
}

/** How many of each charge there were, by its JSON. */
export type Charges = Record<string, number>;

/** Return what an account has spent, null where some charge has no bound there. */
function spent(charges: Charges, account: string): Loss | null {
  let total: Loss | null = [0, 0];
  for (const [text, count] of Object.entries(charges)) {
    const [unit, epsilon, delta, items] = JSON.parse(text);
    const each = cost({ unit, epsilon, delta, items }, account);
    total = total && each && [total[0] + count * each[0], total[1] + count * each[1]];
  }
  return total;
}

/** Return the epsilon and the delta that an account has spent, null where there is no bound. */
export function spentIn(charges: Charges, account: string): [number, number] | null {
  const total = spent(charges, account);
  return total && [total[0] / 1e9, total[1] / 1e15];
}

/** Refuse a plan whose reports have no bound in an account that is limited. */
export function accept(limits: Limits, charge: Charge): void {
  const accounts = Object.keys(limits);
  if (!accounts.length) throw new InvalidInput("a ledger needs at least one limit");
  for (const account of accounts) {
    if (!/^(event|user|l1:(?=.*[1-9])\d+(\.\d+)?)$/.test(account)) {
      throw new InvalidInput("limits are on event, user or l1:DISTANCE");
    }
    allowed(limits[account]);
    if (!cost(charge, account)) {
      throw new PlanRefused(
        `the plan protects ${charge.unit} and enforces no number of items, so it has no bound ` +
          `at ${account} level, which the ledger limits`,
      );
    }
  }
}

/** Return the charges after one more, or refuse it where an account cannot pay. */
export function charged(charges: Charges, limits: Limits, charge: Charge): Charges {
  const text = JSON.stringify([charge.unit, charge.epsilon, charge.delta, charge.items]);
  const after = { ...charges, [text]: (charges[text] ?? 0) + 1 };
  for (const [account, limit] of Object.entries(limits)) {
    const most = allowed(limit);
    const total = spent(after, account);
    if (!total || total.some((amount, i) => amount > most[i])) {
      const shown = most[0] / 1e9;
      throw new BudgetSpent(`the ${account} account allows ${shown} and cannot pay for another report`);
    }
  }
  return after;
}
