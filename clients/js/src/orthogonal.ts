/** Adds the mechanism orthogonal to the encoder: for its plans, import this as well. */
import { register } from "./index.ts";
import { orthogonal } from "./mechanisms/orthogonal.ts";

register("orthogonal", orthogonal);
