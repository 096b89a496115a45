/** What a client accepts. The application decides, not the server that a plan comes from. */
import { InvalidInput, PlanRefused } from "./errors.ts";
import type { Mechanism } from "./mechanisms/api.ts";
import { mechanismOf } from "./mechanisms/index.ts";
import { distanceOf, type Plan } from "./plan.ts";

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
  const sound =
    [digests, units].every(Array.isArray) && units.every((unit) => distanceOf(unit) >= 0);
  if (!sound || (!digests.length && !(epsilon! > 0 && units.length))) {
    throw new InvalidInput(
      "a client needs a policy: {epsilon, units: [event, user or l1:DISTANCE]} or {digests}",
    );
  }
  if (!digests.includes(plan.digest)) {
    const within = +plan.epsilon <= epsilon! && +plan.delta <= delta;
    if (!within || !units.some((unit) => protects(plan, unit))) {
      throw new PlanRefused(
        `the policy neither lists the plan ${plan.digest} ` +
          `nor allows ${plan.unit} with epsilon ${plan.epsilon}, delta ${plan.delta}`,
      );
    }
  }
  const mechanism = mechanismOf(plan);
  if (mechanism.bounded && !boundedItems) {
    throw new PlanRefused(
      `the plan takes at most ${plan.sparsity} items, and a missing report would reveal more: ` +
        "the policy must promise boundedItems: true",
    );
  }
  return mechanism;
}

const protects = (plan: Plan, unit: string): boolean =>
  distanceOf(unit) ? plan.distance >= distanceOf(unit) : unit === plan.unit;
