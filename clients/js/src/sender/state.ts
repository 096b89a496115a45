/** What a store holds: accounts, the latest reports of each plan, and what is still to be sent. */
import { LedgerFailed } from "./errors.ts";
import type { Charges } from "./spending.ts";

const KEPT_EPOCHS = 2; // so a clock that is set back into the previous epoch still finds its report

/** Reports that are sent together, under one request id that never changes. */
export interface Batch {
  readonly id: string;
  readonly digest: string;
  readonly server?: string; // where it goes; batches of version 1 do not say
  readonly epoch: number;
  count: number; // of records
  records: string; // in hexadecimal, as one text: a store copies it at once
  closed: boolean; // whether it may have been sent, so that nothing may be added
}

export interface Kept {
  readonly record: string;
  queued: boolean;
}

interface Reports {
  last: number; // the latest epoch that was charged
  readonly kept: Record<string, Kept>; // by epoch
}

export interface State {
  version: 1 | 2;
  charges: Charges;
  readonly plans: Record<string, Reports>;
  outbox: Batch[];
}

/** Return the state that was read, a new one where there was none. */
export function stateOf(read: unknown): State {
  if (read === undefined) return { version: 2, charges: {}, plans: {}, outbox: [] };
  const state = read as State | null;
  const known = state?.version === 1 || state?.version === 2;
  if (!known || !state.charges || !state.plans || !Array.isArray(state.outbox)) {
    // What was spent is unknown, so nothing more may be spent.
    throw new LedgerFailed("the ledger is damaged, or of a version that is not known here");
  }
  if (state.version === 1) {
    state.version = 2;
    for (const batch of state.outbox) {
      const listed = batch.records as unknown as string[]; // a text for each record
      batch.count = listed.length;
      batch.records = listed.join("");
    }
  }
  return state;
}

/** Remember the report of an epoch, and forget all but the latest. */
export function keep(plan: Reports, epoch: number, record: string): Kept {
  const made = (plan.kept[epoch] = { record, queued: false });
  const old = Object.keys(plan.kept).sort((a, b) => +b - +a);
  for (const each of old.slice(KEPT_EPOCHS)) delete plan.kept[each];
  return made;
}
