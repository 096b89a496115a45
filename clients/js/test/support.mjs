// What several tests need.
import { readFileSync } from "node:fs";
import { unhex, wordsOf } from "../dist/testing.js";

/** Return the cases of a file of spec/vectors. */
export const vectors = (name) =>
  JSON.parse(readFileSync(new URL(`../../../spec/vectors/${name}.json`, import.meta.url), "utf8"));

/** Return the plans of the vectors by name. */
export const plans = new Map(vectors("plan/valid").map((each) => [each.name, each]));

/** Return a 64-bit number of 16 hexadecimal digits as two words. */
export const wide = (text) => Array.from(wordsOf(unhex(text).reverse()), (word) => word >>> 0);

/** Return a source that hands out listed words, and what is left of them. */
export function given(words) {
  let used = 0;
  const next = () => {
    if (used === words.length) throw new Error("more words asked for than the vector lists");
    return words[used++];
  };
  return [next, () => words.length - used];
}

/** A store in memory, for several clients at once: one after another, as a database would have it. */
export function memoryStore() {
  let text;
  let last = Promise.resolve();
  const access = {
    read: async () => (text === undefined ? undefined : JSON.parse(text)),
    write: async (state) => void (text = JSON.stringify(state)),
  };
  return {
    locked(use) {
      const done = last.then(() => use(access));
      last = done.catch(() => {});
      return done;
    },
  };
}
