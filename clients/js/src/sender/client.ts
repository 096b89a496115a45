/**
 * A client that keeps a ledger and sends. The order is: charge, write, randomize, write, send. So a
 * report that left the device is always paid for, and a crash in between wastes budget but reveals
 * nothing. Reports are remembered by plan and epoch, never by the data.
 */
import {
  Client as Encoder,
  encodeBatch,
  hex,
  InvalidInput,
  PlanRefused,
  unhex,
  type ClientOptions,
  type Items,
  type Plan,
} from "../index.ts";
import { EpochPassed, SendFailed } from "./errors.ts";
import { accept, charged, spentIn, type Charge, type Limits } from "./spending.ts";
import { keep, stateOf, type Batch, type Kept, type State } from "./state.ts";
import { freshId, indexedDBStore, type Access, type Store } from "./store.ts";

const BEACON_BYTES = 60_000; // browsers let a page that is hidden or closed send 64 KiB in all
const BEACONS = 8; // requests of such a page, each of which takes it a millisecond
const FRAME_BYTES = 31; // of a batch beside its records: spec/wire-v1.md
const QUEUE_BYTES = 1_000_000; // in a store; a day offline is far below
const BATCH_BYTES = 500; // what a batch counts for beyond its records, in space and in time
const TIMEOUT_MS = 30_000;
// Neither cookies nor the page's address are sent; without headers of ours no preflight is needed.
const QUIET = { credentials: "omit", referrerPolicy: "no-referrer" } as const;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 300_000;
// Failures that may pass by themselves. The same request id makes it safe to repeat the request.
const PASSING = [408, 425, 429, 500, 502, 503, 504];

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

/** The bytes of a batch, as long as it has this many records. */
interface Body {
  readonly count: number;
  readonly bytes: Uint8Array;
}

/** Wait until a page has nothing else to do. */
const idle = (): Promise<unknown> =>
  new Promise((done) => (globalThis.requestIdleCallback ?? setTimeout)(done));

export class Client {
  /** The collection. */
  readonly plan: Plan;
  readonly #encoder: Encoder;
  readonly #options: SenderOptions;
  readonly #server: string;
  readonly #store: Store;
  readonly #charge: Charge;
  readonly #open = new Map<number, string>(); // by epoch: the batch that this page may add to
  #adding = ""; // the batch that is being written
  #durable: Batch[] = []; // the queue as this page last saw it on the disk
  readonly #bodies = new Map<string, Body>(); // by id: what is ready for when the page is hidden or closed
  #preparing = false;
  #sending: Promise<void> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #closed = false;

  constructor(plan: string | Uint8Array | object, options: SenderOptions) {
    this.#encoder = new Encoder(plan, options);
    const { unit, epsilon, delta, sparsity } = (this.plan = this.#encoder.plan);
    this.#charge = { unit, epsilon, delta, items: this.#encoder.bounded ? sparsity : null };
    this.#options = options;
    if (!/^https?:\/\/[^?#]+$/.test(options.server)) {
      throw new InvalidInput("server must be an address such as https://collect.example");
    }
    if (options.limits) accept(options.limits, this.#charge);
    if (options.period !== undefined && !(options.limits && options.period > 0)) {
      throw new InvalidInput("a period must be above 0, and needs limits");
    }
    this.#server = options.server.replace(/\/+$/, "");
    this.#store = options.store ?? indexedDBStore();
    globalThis.document?.addEventListener("visibilitychange", this.#hide);
    globalThis.addEventListener?.("online", this.#online);
    this.#soon();
  }

  /** Return the report of an epoch, as the bytes of a batch of one: the same bytes each time. */
  async report(items: Items, which: Which = {}): Promise<Uint8Array> {
    const epoch = this.#epoch(which);
    if (!this.#options.limits) return this.#encoder.report(items);
    const record = await this.#store.locked(async (access) => {
      const state = stateOf(await access.read());
      const kept = await this.#kept(access, state, items, epoch);
      await access.write(state);
      return kept.record;
    });
    return encodeBatch(this.plan.digest, unhex(record), 1);
  }

  /** Queue the report of an epoch, unless it is queued already; once this resolves, it will be sent. */
  async send(items: Items, which: Which = {}): Promise<void> {
    const epoch = this.#epoch(which);
    await this.#store.locked(async (access) => {
      const state = stateOf(await access.read());
      const sizes = state.outbox.map(({ records }) => BATCH_BYTES + records.length / 2);
      if (sizes.reduce((sum, size) => sum + size, 0) > QUEUE_BYTES) {
        throw new SendFailed("QUEUE_FULL", "too many reports wait to be sent; nothing was charged");
      }
      const kept = await this.#kept(access, state, items, epoch);
      if (kept.queued) return;
      kept.queued = true;
      try {
        this.#add(state, epoch, kept.record);
        await access.write(state);
        this.#durable = state.outbox;
      } finally {
        this.#adding = "";
      }
    });
    this.#prepare();
    this.#soon();
  }

  /** Send what is queued. Throws the first failure, after having tried all. */
  flush(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => (this.#sending = null));
    return this.#sending;
  }

  /** Return how many reports wait to be sent. */
  async pending(): Promise<number> {
    const { outbox } = await this.#read();
    return outbox.reduce((sum, { count }) => sum + count, 0);
  }

  /** Return the epsilon and delta that an account has spent; null where they have no bound. */
  async spent(account: string): Promise<[epsilon: number, delta: number] | null> {
    return spentIn((await this.#read()).charges, account);
  }

  /** Stop sending by itself; what is queued stays. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    globalThis.document?.removeEventListener("visibilitychange", this.#hide);
    globalThis.removeEventListener?.("online", this.#online);
  }

  #read(): Promise<State> {
    return this.#store.locked(async (access) => stateOf(await access.read()));
  }

  #epoch({ epoch }: Which): number {
    const { period } = this.#options;
    const found = epoch ?? (period ? Math.floor(Date.now() / 1000 / period) : 0);
    if (!Number.isSafeInteger(found) || found < 0) {
      throw new InvalidInput("an epoch is an integer between 0 and 2^53 - 1");
    }
    return found;
  }

  /** Return the report of an epoch, having paid for it if it is new. */
  async #kept(access: Access, state: State, items: Items, epoch: number): Promise<Kept> {
    const { limits } = this.#options;
    if (!limits) return { record: hex(this.#encoder.record(items)), queued: false };
    const plan = (state.plans[this.plan.digest] ??= { last: 0, kept: {} });
    if (plan.kept[epoch]) return plan.kept[epoch];
    if (epoch < plan.last) throw new EpochPassed("a past epoch never gets a new report");
    const make = this.#encoder.prepare(items);
    state.charges = charged(state.charges, limits, this.#charge);
    plan.last = epoch;
    await access.write(state);
    return keep(plan, epoch, hex(make()));
  }

  /** Add a record to the batch that this page has open, or to a new one. */
  #add(state: State, epoch: number, record: string): void {
    let batch = state.outbox.find(({ id }) => id === this.#open.get(epoch));
    const bytes = FRAME_BYTES + ((batch?.records.length ?? 0) + record.length) / 2;
    if (batch && bytes > BEACON_BYTES) batch.closed = true; // it is full
    if (!batch || batch.closed) {
      const id = freshId();
      const { digest } = this.plan;
      batch = { id, digest, server: this.#server, epoch, count: 0, records: "", closed: false };
      state.outbox.push(batch);
      this.#open.set(epoch, id);
    }
    batch.count++;
    batch.records += record;
    this.#adding = batch.id;
  }

  async #sendAll(): Promise<void> {
    this.#unset();
    let failure: unknown;
    try {
      await this.#closeAll();
      for (const batch of this.#mine()) {
        await this.#post(batch).catch((error) => (failure ??= error));
      }
    } catch (error) {
      failure = error;
    }
    this.#failures = failure ? this.#failures + 1 : 0;
    // What failed, and what came while this was sending.
    if (failure || this.#mine().length) this.#soon();
    this.#prepare();
    if (failure) throw failure;
  }

  /** Add nothing more to what is queued: an id stands for the bytes that are sent with it. */
  #closeAll(): Promise<void> {
    return this.#store.locked(async (access) => {
      const state = stateOf(await access.read());
      if (state.outbox.some(({ closed }) => !closed)) {
        for (const batch of state.outbox) batch.closed = true;
        await access.write(state);
      }
      this.#open.clear();
      this.#durable = state.outbox;
    });
  }

  /** Return the queued batches of this plan and of others at its collector, as far as this page knows. */
  #mine(): Batch[] {
    return this.#durable.filter(
      ({ digest, server }) => digest === this.plan.digest || server === this.#server,
    );
  }

  /** Return the batches to send when the page is hidden or closed: those that fit, and that nobody adds to any more. */
  #leaving(): Batch[] {
    const mine = [...this.#open.values()];
    const done = this.#mine().filter(
      ({ id, closed }) => closed || (mine.includes(id) && id !== this.#adding),
    );
    let left = BEACON_BYTES;
    const over = done.findIndex(({ records }) => (left -= FRAME_BYTES + records.length / 2) < 0);
    return done.slice(0, over < 0 ? BEACONS : Math.min(over, BEACONS));
  }

  /** Make those bodies in idle moments: a page must not wait for them when it is hidden or closed. */
  async #prepare(): Promise<void> {
    if (!globalThis.document || this.#preparing) return;
    this.#preparing = true;
    try {
      for (;;) {
        await idle();
        const leaving = this.#leaving();
        for (const id of this.#bodies.keys()) {
          if (!leaving.some((batch) => batch.id === id)) this.#bodies.delete(id);
        }
        const next = leaving.find(({ id, count }) => this.#bodies.get(id)?.count !== count);
        if (!next || this.#closed) break;
        const { id, digest, count } = next;
        const records = unhex(next.records);
        await idle(); // each half takes some milliseconds before it is compiled
        this.#bodies.set(id, { count, bytes: encodeBatch(digest, records, count) });
      }
    } catch {
      // A body that is not ready is made when the page is hidden or closed.
    }
    this.#preparing = false;
  }

  /** Send one batch, and forget it once the collector has it or will never take it. */
  async #post(batch: Batch, keepalive = false): Promise<void> {
    const { id, digest, epoch, count, records } = batch;
    const ready = this.#bodies.get(id);
    const body = ready?.count === count ? ready.bytes : encodeBatch(digest, unhex(records), count);
    let failure: SendFailed | undefined;
    try {
      const answer = await fetch(
        `${this.#server}/v1/collections/${digest}/reports?request=${id}&epoch=${epoch}`,
        {
          method: "POST",
          body: body as BufferSource,
          keepalive,
          ...QUIET,
          signal: AbortSignal.timeout(TIMEOUT_MS),
        },
      );
      const said = await answer.json().catch(() => ({}));
      // A hotel's log-in page also answers 200; only these words mean that reports were kept.
      const isKept = said.reports === count && /^(counted|replayed)$/.test(said.status);
      if (!answer.ok || !isKept) {
        const known = /^[A-Z_]{1,40}$/.test(said.code) ? said.code : `HTTP_${answer.status}`;
        const code: string = answer.ok ? "NOT_A_COLLECTOR" : known;
        const passing = PASSING.includes(answer.status) ? ", which may pass" : "";
        failure = new SendFailed(code, `the collector answered ${code}${passing}`);
      }
    } catch {
      failure = new SendFailed("UNREACHABLE", "the collector cannot be reached");
    }
    if (!failure || failure.code === "CLOSED") await this.#forget(id);
    if (failure) throw failure;
  }

  #forget(gone: string): Promise<void> {
    return this.#store.locked(async (access) => {
      const state = stateOf(await access.read());
      state.outbox = state.outbox.filter(({ id }) => id !== gone);
      await access.write(state);
      this.#durable = state.outbox;
    });
  }

  readonly #online = (): void => {
    this.#failures = 0;
    this.#unset();
    this.#soon();
  };

  #unset(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Send after a pause, longer after failures; reports that come before then are sent too. */
  readonly #soon = (): void => {
    const { delay = FIRST_PAUSE_MS, onError } = this.#options;
    if (delay === null || this.#closed || this.#timer !== undefined) return;
    const longer = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures);
    const jitter = 0.5 + crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;
    const send = () => {
      // This comes first, so that reports that come while this is sending set another timer.
      this.#timer = undefined;
      this.flush().catch((error) => onError?.(error));
    };
    this.#timer = setTimeout(send, this.#failures ? longer * jitter : delay);
    // A Node program may end while it waits; the file keeps what is queued.
    (this.#timer as { unref?: () => void }).unref?.();
  };

  /** Send what fits while the page is hidden or closed. Whatever does not arrive is still queued. */
  readonly #hide = (): void => {
    if (document.visibilityState !== "hidden") return;
    const leaving = this.#leaving();
    // An id stands for the bytes that were sent with it: nothing is added to them from now on, and
    // what another page may still add to is left to that page.
    this.#open.clear();
    for (const batch of leaving) this.#post(batch, true).catch(() => {});
  };
}

/** Return the document of a collection's plan, which must have the collection's digest. */
async function fetchPlan(server: string, collection: string): Promise<Uint8Array> {
  let failed = "UNREACHABLE";
  try {
    const answer = await fetch(`${server.replace(/\/$/, "")}/v1/collections/${collection}/plan`, {
      ...QUIET,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.ok) return new Uint8Array(await answer.arrayBuffer());
    failed = `HTTP_${answer.status}`;
  } catch {
    // The browser's message does not help, and may hold the address.
  }
  throw new SendFailed(failed, `the collector did not send the plan (${failed})`);
}

/** Return a client for a collection, by its digest, if the policy allows the server's plan. */
export async function fromServer(
  server: string,
  collection: string,
  options: Omit<SenderOptions, "server">,
): Promise<Client> {
  if (!/^[0-9a-f]{32}$/.test(collection)) {
    throw new InvalidInput("a collection is named by the 32 hexadecimal digits of its plan's digest");
  }
  const { digests, units } = options?.policy ?? {};
  if (!digests?.length && !units?.length) {
    throw new InvalidInput("a client needs a policy before it asks for a plan");
  }
  const client = new Client(await fetchPlan(server, collection), { ...options, server });
  if (client.plan.digest === collection) return client;
  client.close();
  throw new PlanRefused("the collector sent a plan other than the one requested");
}
