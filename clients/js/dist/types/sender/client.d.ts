/**
 * A client that keeps a ledger and sends. The order is: charge, write, randomize, write, send. So a
 * report that left the device is always paid for, and a crash in between wastes budget but reveals
 * nothing. Reports are remembered by plan and epoch, never by the data.
 */
import { type ClientOptions, type Items, type Plan } from "../index.ts";
import { type Limits } from "./spending.ts";
import { type Store } from "./store.ts";
export interface SenderOptions extends ClientOptions {
    /** The collector's address, such as https://collect.example. */
    readonly server: string;
    /** What may be spent in all, by account: {event: 4}. Without it, each report spends again. */
    readonly limits?: Limits;
    /** Seconds of an epoch, with limits. Without it all time is epoch 0: one report in all. */
    readonly period?: number;
    /** Where the ledger and the queue live; the browser's database unless given. */
    readonly store?: Store;
    /** Milliseconds that a report waits for others to be sent with; null: send by `flush` alone. */
    readonly delay?: number | null;
    /** Called when sending by itself fails; reports stay queued unless the code is CLOSED. */
    readonly onError?: (error: unknown) => void;
}
/** Which report of the plan this is: an integer that never decreases. */
export interface Which {
    readonly epoch?: number;
}
export declare class Client {
    #private;
    /** The collection. */
    readonly plan: Plan;
    constructor(plan: string | Uint8Array | object, options: SenderOptions);
    /** Return the report of an epoch, as the bytes of a batch of one: the same bytes each time. */
    report(items: Items, which?: Which): Promise<Uint8Array>;
    /** Queue the report of an epoch, unless it is queued already; once this resolves, it will be sent. */
    send(items: Items, which?: Which): Promise<void>;
    /** Send what is queued. Throws the first failure, after having tried all. */
    flush(): Promise<void>;
    /** Return how many reports wait to be sent. */
    pending(): Promise<number>;
    /** Return the epsilon and delta that an account has spent; null where they have no bound. */
    spent(account: string): Promise<[epsilon: number, delta: number] | null>;
    /** Stop sending by itself; what is queued stays. */
    close(): void;
}
/** Return a client for a collection, by its digest, if the policy allows the server's plan. */
export declare function fromServer(server: string, collection: string, options: Omit<SenderOptions, "server">): Promise<Client>;
