/** Projection choice in its three forms: spec/projection-choice-v1.md. */
import { met, rounded, uniform, uniforms, type Words } from "../coins.ts";
import { below, count, GROUP, mapOf, ones, parity, prf, PROJECTION, type PublicMap, type Wide } from "../hashing.ts";
import { exactly, integer, isPower, rule, type Plan } from "../plan.ts";
import { lnRatio } from "../precise.ts";
import type { Item } from "../vector.ts";
import type { Mechanism } from "./api.ts";

// By rising degree from 8: the low digits of the polynomials by which rows are shifted.
export const POLYNOMIALS = [27, 3, 9, 5, 9, 27, 33, 3, 43, 9, 9, 39, 9, 5, 3, 33, 27];
export const LEAST_DEGREE = 8;

export function projectionChoice(plan: Plan): Mechanism {
  const [dense, signed, groups, bins, places, top, threshold, systematic, degree] = check(plan);
  const slots = groups * places;
  const table = plan.decode === "table";
  const rowOf = (seed: Wide, group: number) => prf(seed, [group, 0], GROUP) & ones(degree);
  const widths = table ? [plan.bits] : [(slots - 1).toString(2).length];
  if (table && signed) widths.unshift(1);
  if (table && plan.maps > 1) widths.push(Math.log2(plan.maps));

  /** Return the place of an id in each group, by parities of a row and the id's code. */
  const byMap = (map: PublicMap, rows: readonly number[], id: Wide) => {
    const code = map.code(id);
    const most = ones(degree);
    const wrap = most + 1 + POLYNOMIALS[degree - LEAST_DEGREE]; // the dense form never shifts
    const start = dense ? 0 : code >>> degree;
    const flip = signed ? map.negative(id) : 0;
    return (group: number) => {
      let bin = start;
      let row = rows[group]; // it has no higher bits than most
      for (let bit = 1; bit < bins; bit *= 2) {
        bin ^= parity(row & code) * bit;
        row *= 2;
        if (row > most) row ^= wrap;
      }
      return signed ? 2 * bin + (parity(row & code) ^ flip) : bin;
    };
  };

  /** Return the place of an id in each group, taken in rising order, by a word of its own. */
  const byHash = (seed: Wide, id: Wide) => {
    let word = 0;
    return (group: number) => {
      const bit = dense ? group % 32 : 0; // a word has the signs of 32 groups
      if (!bit) word = prf(seed, id, PROJECTION, dense ? group / 32 : group);
      return signed ? 2 * below(word, bins) + ((word >>> bit) & 1) : below(word, bins);
    };
  };

  return {
    widths,
    drawn: table ? 8 : 5,
    sent: table ? 0 : 5,
    loss: lnRatio(threshold * (slots - top), top * (2 ** 32 - threshold)), // exact: below 2^52
    randomize(items, seed, words) {
      const tokens = draw(items, plan.sparsity, systematic, words);
      const map = plan.maps ? mapOf(plan, seed) : null;
      const rows = Array.from({ length: map ? groups : 0 }, (_, group) => rowOf(seed, group));
      const dummies = plan.sparsity - tokens.length;
      const scores = new Map<number, number>(); // of slots that were hit: of a million, few are
      const add = (slot: number, times: number) => scores.set(slot, (scores.get(slot) ?? 0) + times);
      const hit = (slot: number, times = 1) => {
        add(slot, times);
        if (signed) add(slot ^ 1, -times);
      };
      const sums = signs(dense ? groups : 0, dummies, plan.sparsity, words);
      for (const { id, value } of tokens) {
        const place = map ? byMap(map, rows, id) : byHash(seed, id);
        for (let group = 0; group < groups; group++) {
          const at = place(group) ^ +(value < 0);
          if (dense) sums[group] += 1 - 2 * at;
          else hit(group * places + at);
        }
      }
      if (dense) sums.forEach((sum, group) => hit(2 * group, sum));
      else uniforms(dummies * groups, places, words).forEach((at, i) => hit((i % groups) * places + at));
      const slot = choose(scores, slots, plan.sparsity, top, threshold, words);
      if (!table) return [slot];
      const row = rowOf(seed, Math.floor(slot / places));
      // The server needs nothing but the cell: what else the seed tells stays at home.
      const place = slot % places;
      const fields = signed ? [slot % 2, row * bins + (place >>> 1)] : [row * bins + place];
      return plan.maps > 1 ? [...fields, map!.number] : fields;
    },
  };
}

/** Return the items that were rounded up, and a uniform choice of k where there are more. */
function draw(items: readonly Item[], k: number, systematic: boolean, words: Words): Item[] {
  const sizes = items.map(({ value }) => Math.abs(value));
  const taken = systematic ? bySteps(sizes, words) : met(sizes, words);
  const up = items.filter((_, i) => taken[i]);
  if (up.length <= k) return up;
  let places = k;
  return up.filter((_, i) => {
    const stays = uniform(up.length - i, words) < places;
    places -= +stays;
    return stays;
  });
}

/** Return which sizes, laid end to end, steps of 1 from a uniform start fall into. */
function bySteps(sizes: readonly number[], words: Words): boolean[] {
  const parts = rounded(sizes, 2 ** 32, words);
  let end = -words();
  return parts.map((part) => {
    const begin = end;
    end += part;
    return Math.ceil(end / 2 ** 32) > Math.ceil(begin / 2 ** 32);
  });
}

/** Return sums of fair signs for each group; all words are taken, however many are needed. */
function signs(groups: number, dummies: number, k: number, words: Words): Int32Array {
  const sums = new Int32Array(groups);
  for (let start = 0; start < k; start += 32) {
    const used = Math.min(Math.max(dummies - start, 0), 32);
    for (let group = 0; group < groups; group++) sums[group] += used - 2 * count(words() & ones(used));
  }
  return sums;
}

/** Return one slot: of the N best with the chance T/2^32, else one of the others. */
function choose(
  scores: ReadonlyMap<number, number>,
  slots: number,
  k: number,
  top: number,
  threshold: number,
  words: Words,
): number {
  const counts = new Int32Array(2 * k + 1); // of slots by score, from -k
  counts[k] = slots - scores.size;
  for (const score of scores.values()) counts[k + score]++;
  let border = k;
  let above = 0;
  while (above + counts[k + border] < top) above += counts[k + border--];
  const tied = counts[k + border];
  let kind; // 1 above the border, 0 at it, -1 below
  if (words() < threshold) kind = +(uniform(top, words) < above);
  else kind = uniform(slots - top, words) < above + tied - top ? 0 : -1;
  let member = uniform([slots - above - tied, tied, above][kind + 1], words);
  // Slots in rising order: those that were hit, and in the gaps between them those that were not.
  const matches = (score: number) => Math.sign(score - border) === kind;
  let next = 0;
  for (const slot of Uint32Array.from(scores.keys()).sort()) {
    if (matches(0)) {
      if (member < slot - next) break;
      member -= slot - next;
    }
    if (matches(scores.get(slot)!) && !member--) return slot;
    next = slot + 1;
  }
  return next + member;
}

function check(plan: Plan) {
  const given = plan.parameters;
  exactly(given, "parameters", "bins,form,groups,rounding,threshold,tokens,top");
  const dense = given.form === "dense";
  const signed = given.form !== "unsigned";
  rule(dense || !signed || given.form === "bins", "form");
  rule(signed || plan.values !== "signed", "values");
  const systematic = given.rounding === "systematic";
  rule(systematic || given.rounding === "independent", "rounding");
  const groups = integer(given, "groups", 1, dense ? 8192 : 256);
  rule(isPower(groups), "groups");
  const bins = integer(given, "bins", signed ? 1 : 2, dense ? 1 : 2 ** 20);
  const places = signed ? 2 * bins : bins; // slots of a group
  const slots = groups * places;
  rule(dense || slots <= 2 ** 20, "bins");
  rule(dense || plan.sparsity <= 4096, "sparsity");
  integer(given, "tokens", plan.sparsity, plan.sparsity);
  const top = integer(given, "top", 1, signed ? slots / 2 : slots - 1);
  const threshold = integer(given, "threshold", 1, 2 ** 32 - 1);
  rule(threshold * (slots - top) > top * (2 ** 32 - threshold), "threshold");
  const table = plan.decode === "table";
  const linear = plan.family === "linear";
  rule(plan.family === "prf" || (linear && (dense || table)), "family");
  const width = Math.log2(bins);
  const degree = plan.bits - width; // bits of a row
  if (linear && !dense) {
    rule(bins > 1 && isPower(bins), "bins");
    rule(degree >= Math.max(LEAST_DEGREE, width + +signed) && degree <= 24, "bits");
  }
  rule(plan.maps * 2 ** plan.bits <= 2 ** (table ? 31 : 32), "maps");
  return [dense, signed, groups, bins, places, top, threshold, systematic, degree] as const;
}
