import type { Charges } from "./spending.ts";
/** Reports that are sent together, under one request id that never changes. */
export interface Batch {
    readonly id: string;
    readonly digest: string;
    readonly server?: string;
    readonly epoch: number;
    count: number;
    records: string;
    closed: boolean;
}
export interface Kept {
    readonly record: string;
    queued: boolean;
}
interface Reports {
    last: number;
    readonly kept: Record<string, Kept>;
}
export interface State {
    version: 1 | 2;
    charges: Charges;
    readonly plans: Record<string, Reports>;
    outbox: Batch[];
}
/** Return the state that was read, a new one where there was none. */
export declare function stateOf(read: unknown): State;
/** Remember the report of an epoch, and forget all but the latest. */
export declare function keep(plan: Reports, epoch: number, record: string): Kept;
export {};
