/** Mechanisms by name: the only way from a plan to what it describes. */
import { InvalidPlan } from "../errors.ts";
import type { Plan } from "../plan.ts";
import { atMost, decimal } from "../precise.ts";
import type { Mechanism } from "./api.ts";
import { projectionChoice } from "./projection_choice.ts";
import { retrieval } from "./retrieval.ts";
import { signedBinning } from "./signed_binning.ts";

const KNOWN = new Map<string, (plan: Plan) => Mechanism>([
  ["projection-choice", projectionChoice],
  ["retrieval", retrieval],
  ["signed-binning", signedBinning],
]);

/** Make a mechanism known under its name: for those that are imported separately. */
export const register = (name: string, make: (plan: Plan) => Mechanism): void => {
  KNOWN.set(name, make);
};

/** Return the plan's mechanism, having checked that its integers keep the plan's promise. */
export function mechanismOf(plan: Plan): Mechanism {
  const make = KNOWN.get(plan.mechanism);
  if (!make) {
    throw new InvalidPlan(
      `this client does not know the mechanism ${plan.mechanism} of faintly-plan/1; ` +
        `it knows ${[...KNOWN.keys()].join(", ")}; import others separately`,
    );
  }
  const mechanism = make(plan);
  if (!atMost(mechanism.loss, decimal(plan.epsilon))) {
    throw new InvalidPlan(
      `the plan states epsilon ${plan.epsilon}, but its integers prove ${mechanism.loss[0]}`,
    );
  }
  return mechanism;
}
