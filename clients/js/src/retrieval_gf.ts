/** Adds the mechanism retrieval-gf to the encoder: for its plans, import this as well. */
import { register } from "./index.ts";
import { retrievalGf } from "./mechanisms/retrieval_gf.ts";

register("retrieval-gf", retrievalGf);
