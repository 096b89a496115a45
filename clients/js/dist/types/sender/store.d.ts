/** What a store allows while it is locked. */
export interface Access {
    /** Return what was written last, undefined if nothing was. */
    read(): Promise<unknown>;
    /** Keep a value that JSON can hold; done means that a crash does not lose it. */
    write(state: unknown): Promise<void>;
}
/** One value, for one user of it at a time: tabs, workers and processes included. */
export interface Store {
    locked<T>(use: (access: Access) => Promise<T>): Promise<T>;
}
/** Return a store in the browser's database, the same for all pages of the origin. */
export declare function indexedDBStore(name?: string): Store;
/** Return 16 random bytes in hexadecimal. */
export declare const freshId: () => string;
/** Wait until a lock is ours, as long as its holders make progress. */
export declare function poll(mine: string, holder: () => Promise<string | undefined>): Promise<void>;
/** Return a function that throws our errors; the message of the browser or the system names the cause. */
export declare function guarded<A extends unknown[], T>(what: string, act: (...given: A) => Promise<T>): (...given: A) => Promise<T>;
