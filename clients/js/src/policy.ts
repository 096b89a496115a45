/** What a client agrees to. The application decides it, not the server that a plan comes from. */
import { InvalidInput, PlanRefused } from "./errors.ts";
import type { Mechanism } from "./mechanisms/api.ts";
import { mechanismOf } from "./mechanisms/index.ts";
import type { Plan } from "./plan.ts";

/** Plans that a client accepts: those with a digest that is listed, and those within a budget. */
export interface Policy {
  /** Digests, 32 hexadecimal digits each, that did not come from the server itself. */
  readonly digests?: readonly string[];
  /** The most that one report may spend, with `units`. */
  readonly epsilon?: number;
  /** The same for delta; 0 unless given. */
  readonly delta?: number;
  /** Units to accept: event, user or l1:DISTANCE, where a plan may hide a larger distance. */
  readonly units?: readonly string[];
  /** The application promises never to report more items than a plan's sparsity. */
  readonly boundedItems?: boolean;
}

/** Return the mechanism of a plan that the policy allows and whose integers keep its promise. */
export function admit(plan: Plan, policy: Policy | undefined): Mechanism {
  const { digests = [], epsilon, delta = 0, units = [], boundedItems } = policy ?? {};
  if (!digests.length && !(epsilon! > 0 && units.length)) {
    throw new InvalidInput(
      "a client needs a policy: {epsilon: 1, units: ['event']}, or {digests: [...]} of known plans",
    );
  }
  if (!digests.includes(plan.digest)) {
    if (!(+plan.epsilon <= epsilon! && +plan.delta <= delta)) {
      throw new PlanRefused(
        epsilon === undefined
          ? `the policy does not list the plan ${plan.digest}`
          : `the plan spends epsilon ${plan.epsilon}, delta ${plan.delta}: more than the policy allows`,
      );
    }
    if (!units.some((unit) => protects(plan, unit))) {
      throw new PlanRefused(`the plan protects ${plan.unit}; the policy allows ${units.join(", ")}`);
    }
  }
  const mechanism = mechanismOf(plan);
  if (mechanism.bounded && !boundedItems) {
    throw new PlanRefused(
      `the plan takes at most ${plan.sparsity} items, and a missing report would tell of more; ` +
        "an application that never has more says boundedItems: true",
    );
  }
  return mechanism;
}

const protects = (plan: Plan, unit: string): boolean =>
  unit === plan.unit || (unit.startsWith("l1:") && plan.distance >= +unit.slice(3));
