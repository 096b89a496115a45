/** Where a ledger and its queue live, for one user at a time. */
import { FaintlyError, hex } from "../index.ts";
import { LedgerFailed } from "./errors.ts";

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

const WAIT_MS = 10_000; // a report takes milliseconds; whoever holds a lock this long is stuck
const POLL_MS = 20;
const POLLS = WAIT_MS / POLL_MS; // counted, because nobody makes progress while the machine sleeps

/** Return a store in the browser's database, the same for all pages of the origin. */
export function indexedDBStore(name = "faintly"): Store {
  let opened: Promise<IDBDatabase> | undefined;
  const open = () => {
    opened ??= new Promise((done, fail) => {
      if (!globalThis.indexedDB) {
        throw new LedgerFailed("this environment has no IndexedDB; give the client a store");
      }
      const asked = indexedDB.open(name, 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore("state");
      asked.onsuccess = () => {
        // Somebody cleared the page's storage: the next use opens a new database.
        asked.result.onclose = () => (opened = undefined);
        done(asked.result);
      };
      asked.onerror = () => fail(asked.error);
    });
    opened.catch(() => (opened = undefined));
    return opened;
  };

  /** Use the values in one transaction, which browsers run one after another. */
  async function transact(use: (values: IDBObjectStore) => void): Promise<void> {
    const transaction = (await open()).transaction("state", "readwrite", { durability: "strict" });
    use(transaction.objectStore("state"));
    return new Promise((done, fail) => {
      transaction.oncomplete = () => done();
      transaction.onabort = () => fail(transaction.error);
    });
  }

  /** Change a value in one transaction; return the new one. */
  async function change<T>(
    key: string,
    update: (value: T | undefined, values: IDBObjectStore) => T | undefined,
  ): Promise<T | undefined> {
    let after: T | undefined;
    await transact((values) => {
      const asked = values.get(key);
      asked.onsuccess = () => {
        after = update(asked.result, values);
        if (after === undefined) values.delete(key);
        else if (after !== asked.result) values.put(after, key);
      };
    });
    return after;
  }

  const access: Access = {
    read: guarded("read", () => change<unknown>("state", (state) => state)),
    write: guarded("write", (state: unknown) => transact((values) => values.put(state, "state"))),
  };

  type Lease = { owner: string; until: number };

  /** Without Web Locks, a note in the database says who may write, and until when. */
  async function leased<T>(use: (access: Access) => Promise<T>): Promise<T> {
    const owner = freshId();
    const fresh = () => ({ owner, until: Date.now() + WAIT_MS });
    const take = (lease?: Lease) => {
      const left = lease ? lease.until - Date.now() : -1;
      // A lease with more time left than any lease gets was taken before the clock was set back.
      return left < 0 || left > WAIT_MS ? fresh() : lease;
    };
    await poll(owner, guarded("lock", async () => (await change("lease", take))!.owner));
    // A page that slept over its lease must not overwrite what others did since, even if they are
    // done: so the same transaction sees that the lease is ours and writes.
    const write = guarded("write", async (state: unknown) => {
      const lease = await change<Lease>("lease", (lease, values) => {
        if (lease?.owner !== owner) return lease;
        values.put(state, "state");
        return fresh();
      });
      if (lease?.owner !== owner) throw new LedgerFailed("the ledger was taken over by another page");
    });
    try {
      return await use({ read: access.read, write });
    } finally {
      const release = (lease?: Lease) => (lease?.owner === owner ? undefined : lease);
      await change("lease", release).catch(() => {}); // it runs out by itself
    }
  }

  /** Errors of Web Locks become ours; what the use throws stays as it is. */
  async function withLock<T>(locks: LockManager, use: (access: Access) => Promise<T>): Promise<T> {
    const settle = () =>
      use(access).then(
        (value) => () => value,
        (error) => (): T => {
          throw error;
        },
      );
    const outcome = await guarded("lock", async () => locks.request(name, settle))();
    return outcome();
  }

  return {
    locked<T>(use: (access: Access) => Promise<T>): Promise<T> {
      // Pages that are not served securely have no Web Locks, and old versions of Node no navigator.
      const locks = globalThis.navigator?.locks;
      return locks ? withLock(locks, use) : leased(use);
    },
  };
}

/** Return 16 random bytes in hexadecimal. */
export const freshId = (): string => hex(crypto.getRandomValues(new Uint8Array(16)));

/** Wait until a lock is ours, as long as its holders make progress. */
export async function poll(mine: string, holder: () => Promise<string | undefined>): Promise<void> {
  let last: string | undefined;
  for (let polls = 0; ; polls++) {
    const now = await holder();
    if (now === mine) return;
    if (now !== last) polls = 0;
    last = now;
    if (polls > POLLS) throw new LedgerFailed("the ledger stays locked");
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

/** Return a function that throws our errors; the message of the browser or the system names the cause. */
export function guarded<A extends unknown[], T>(
  what: string,
  act: (...given: A) => Promise<T>,
): (...given: A) => Promise<T> {
  return async (...given) => {
    try {
      return await act(...given);
    } catch (error) {
      if (error instanceof FaintlyError) throw error;
      const cause = error as { code?: unknown; name?: unknown } | null;
      const why = typeof cause?.code === "string" ? cause.code : cause?.name;
      throw new LedgerFailed(`cannot ${what} the ledger: ${why}`);
    }
  };
}
