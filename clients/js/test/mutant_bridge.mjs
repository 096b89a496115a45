// A broken client, which an audit must catch: half of all words never come, so coins are skewed.
import { secureWords } from "../dist/testing.js";
import { serve } from "../bridge.mjs";

await serve(() => {
  const words = secureWords();
  return () => words() >>> 1;
});
