/** One person's side of a collection. */
import { drawSeed, secureWords } from "./coins.ts";
import { TooManyItems } from "./errors.ts";
import type { Mechanism } from "./mechanisms/api.ts";
import { readPlan, type Plan } from "./plan.ts";
import { admit, type Policy } from "./policy.ts";
import { project, type Items, type Tally } from "./vector.ts";
import { encodeBatch, encodeRecord } from "./wire.ts";

export interface ClientOptions {
  /** What the application accepts; there is no default. */
  readonly policy: Policy;
}

/**
 * Turns one person's items into one report, with the system's randomness.
 *
 * Each call spends the plan's budget again: the application decides how often to call, or uses the
 * client of `faintly/sender`, which keeps a ledger. Nothing about the data decides whether there is
 * a report, or how long it is; the one exception is the application's own promise `boundedItems`.
 */
export class Client {
  /** The collection. */
  readonly plan: Plan;
  /** What was left out, moved or added up so far. It depends on the data: never send it. */
  readonly tally: Tally = { unknown: 0, absent: 0, repeated: 0, clipped: 0, beyond: 0 };
  /** Whether the plan's mechanism refuses more items than its sparsity. */
  readonly bounded: boolean;
  readonly #mechanism: Mechanism;

  /** Take part in the collection of a plan: JSON as text, as bytes, or parsed. */
  constructor(plan: string | Uint8Array | object, options: ClientOptions) {
    this.plan = readPlan(plan);
    this.#mechanism = admit(this.plan, options?.policy);
    this.bounded = !!this.#mechanism.bounded;
    secureWords()(); // the first draw takes a millisecond, so that a first report need not wait for it
  }

  /** Return one randomized report, as the bytes of a batch of one. */
  report(items: Items): Uint8Array {
    return encodeBatch(this.plan.digest, this.record(items), 1);
  }

  /** Return one randomized report, as the bytes of a record. */
  record(items: Items): Uint8Array {
    return this.prepare(items)();
  }

  /** Return a function that draws the noise and makes the record: a ledger charges before that. */
  prepare(items: Items): () => Uint8Array {
    const mechanism = this.#mechanism;
    // Public seed and secret noise have separate sources.
    const seed = drawSeed(secureWords(), mechanism.sent || 8);
    const held = project(this.plan, items, this.tally);
    if (mechanism.bounded && held.length > this.plan.sparsity) {
      throw new TooManyItems(`the plan takes at most ${this.plan.sparsity} items`);
    }
    return () => encodeRecord(mechanism, seed, mechanism.randomize(held, seed, secureWords()));
  }
}
