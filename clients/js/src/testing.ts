/** What tests need: mechanisms under given seeds and words. Never for data that leaves a device. */
import { register } from "./mechanisms/index.ts";
import { orthogonal } from "./mechanisms/orthogonal.ts";
import { retrievalGf } from "./mechanisms/retrieval_gf.ts";

export * from "./blake2s.ts";
export * from "./bytes.ts";
export * from "./coins.ts";
export * from "./errors.ts";
export * from "./hashing.ts";
export { mechanismOf } from "./mechanisms/index.ts";
export { placesOf } from "./mechanisms/signed_binning.ts";
export { readPlan } from "./plan.ts";
export * from "./precise.ts";
export * from "./vector.ts";
export * from "./wire.ts";

register("orthogonal", orthogonal);
register("retrieval-gf", retrievalGf);
