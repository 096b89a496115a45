/** What a client needs of a mechanism. */
import type { Words } from "../coins.ts";
import type { Wide } from "../hashing.ts";
import type { Precise } from "../precise.ts";
import type { Item } from "../vector.ts";

export interface Mechanism {
  /** Bits of each field of a report. */
  readonly widths: readonly number[];
  /** Bytes of the seed in a report, 5 or 8; 0 where it is not sent, and then has 8. */
  readonly sent: number;
  /** The loss that the plan's integers prove; the plan may not state less. */
  readonly loss: Precise;
  /** Whether more items than the plan's sparsity are refused. */
  readonly bounded?: boolean;
  /**
   * Return the fields of one report of items by rising id: the only privacy step, and a pure
   * function of its arguments. The seed is public, and drawn before the data is looked at.
   */
  randomize(items: readonly Item[], seed: Wide, words: Words): number[];
}
