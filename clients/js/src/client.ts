/** One person's side of a collection. */
import { drawSeed, secureWords } from "./coins.ts";
import { SendFailed, TooManyItems } from "./errors.ts";
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
  }

  /** Return one randomized report, as the bytes of a batch of one. */
  report(items: Items): Uint8Array {
    return encodeBatch(this.plan.digest, [this.record(items)]);
  }

  /** Return one randomized report, as the bytes of a record. */
  record(items: Items): Uint8Array {
    const mechanism = this.#mechanism;
    // Public seed and secret noise have sources of their own.
    const seed = drawSeed(secureWords(), mechanism.drawn);
    const held = project(this.plan, items, this.tally);
    if (mechanism.bounded && held.length > this.plan.sparsity) {
      throw new TooManyItems(`the plan takes at most ${this.plan.sparsity} items`);
    }
    return encodeRecord(mechanism, seed, mechanism.randomize(held, seed, secureWords()));
  }
}

/** Return the document of a collection's plan, which must have the collection's digest. */
export async function fetchPlan(server: string, collection: string): Promise<Uint8Array> {
  let failed = "UNREACHABLE";
  try {
    // Without a referrer or cookies, and without headers that a preflight would ask about.
    const answer = await fetch(`${server.replace(/\/$/, "")}/v1/collections/${collection}/plan`, {
      credentials: "omit",
      referrerPolicy: "no-referrer",
    });
    if (answer.ok) return new Uint8Array(await answer.arrayBuffer());
    failed = `HTTP_${answer.status}`;
  } catch {
    // What the browser says about it is of no use, and may hold the address.
  }
  throw new SendFailed(failed, `the collector did not send the plan (${failed})`);
}

/** Return a client for a collection, by its digest, if the policy allows the server's plan. */
export async function fromServer(
  server: string,
  collection: string,
  options: ClientOptions,
): Promise<Client> {
  return checked(new Client(await fetchPlan(server, collection), options), collection);
}

/** Return a client whose plan is the one requested. */
export function checked<T extends { readonly plan: Plan }>(client: T, collection: string): T {
  if (client.plan.digest !== collection) {
    throw new SendFailed("OTHER_PLAN", "the collector sent another plan than the one requested");
  }
  return client;
}
