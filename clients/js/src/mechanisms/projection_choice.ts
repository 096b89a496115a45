/** Projection choice in its three forms: spec/projection-choice-v1.md. */
import { rounded, uniform, uniforms, type Words } from "../coins.ts";
import { below, count, GROUP, mapOf, ones, parity, prf, PROJECTION } from "../hashing.ts";
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
  const k = plan.sparsity;
  const table = plan.decode === "table";
  const sides = places / bins; // slots with opposite scores
  const size = dense ? 32 : 1; // tokens at a time
  const widths = table ? [plan.bits] : [(slots - 1).toString(2).length];
  if (table && signed) widths.unshift(1);
  if (table && plan.maps > 1) widths.push(Math.log2(plan.maps));

  /** Return the place of a bin and a sign in a group. */
  const placeOf = (bin: number, sign: number) => (signed ? 2 * bin + sign : bin);

  /** Return sums of fair signs for each group; all words are taken, however many are needed. */
  function signs(dummies: number, words: Words): Int32Array {
    const sums = new Int32Array(groups);
    for (let start = 0; start < k; start += 32) {
      const used = Math.min(Math.max(dummies - start, 0), 32);
      const mask = ones(used) | 0;
      for (let group = 0; group < groups; group++) {
        const word = words();
        if (used) sums[group] += used - 2 * count(word & mask);
      }
    }
    return sums;
  }

  /** Write the slots that hits lie in to their front, and return the scores of these; of two sides, of the first. */
  function tallied(hits: Int32Array): Int32Array {
    const { length } = hits.sort();
    const scores = new Int32Array(length);
    let n = -1;
    let last = -1;
    for (let i = 0; i < length; i++) {
      const hit = hits[i];
      const first = hit & -sides;
      if (first !== last) hits[++n] = last = first;
      scores[n] += hit > first ? -1 : 1;
    }
    return scores.subarray(0, n + 1);
  }

  /** Return one slot: of the N best with the chance T/2^32, else one of the others. */
  function choose(hits: Int32Array, scores: Int32Array, words: Words): number {
    const { length } = scores;
    const counts = new Int32Array(2 * k + 1); // of slots by score, from -k
    counts[k] = slots - sides * length;
    for (let i = 0; i < length; i++) {
      counts[k + scores[i]]++;
      if (signed) counts[k - scores[i]]++;
    }
    let border = k;
    let above = 0;
    while (above + counts[k + border] < top) above += counts[k + border--];
    const tied = counts[k + border];
    let kind; // 1 above the border, 0 at it, -1 below
    if (words() < threshold) kind = +(uniform(top, words) < above);
    else kind = uniform(slots - top, words) < above + tied - top ? 0 : -1;
    let member = uniform([slots - above - tied, tied, above][kind + 1], words);
    // Slots in rising order: those that were hit, and in the gaps between them those that were not.
    const isGap = Math.sign(-border) === kind;
    let next = 0;
    for (let i = 0; i < length; i++) {
      let slot = dense ? 2 * i : hits[i];
      let score = scores[i];
      if (isGap) {
        if (member < slot - next) break;
        member -= slot - next;
      }
      for (next = slot + sides; slot < next; slot++) {
        if (Math.sign(score - border) === kind && !member--) return slot;
        score = -score;
      }
    }
    return next + member;
  }

  return {
    widths,
    sent: table ? 0 : 5,
    loss: lnRatio(threshold * (slots - top), top * (2 ** 32 - threshold)), // exact: below 2^52
    randomize(items, seed, words) {
      const tokens = draw(items, k, systematic, words);
      const map = plan.maps ? mapOf(plan, seed) : null;
      const most = ones(degree);
      const rows = Int32Array.from({ length: map ? groups : 0 }, (_, group) => prf(seed, [group, 0], GROUP) & most);
      const dummies = k - tokens.length;
      const sums = dense ? signs(dummies, words) : new Int32Array(k * groups);
      let n = 0;
      for (let start = 0; start < tokens.length; start += size) {
        // What some tokens say in each group: the place of one, or the signs of up to 32, a bit for each.
        const out = new Int32Array(groups);
        const some = tokens.slice(start, start + size);
        const columns = new Int32Array(32);
        let flips = 0;
        some.forEach(({ id, value }, t) => {
          let flip = +(value < 0);
          if (map) {
            let code = map.code(id);
            flip = placeOf(code >>> degree, map.negative(id) ^ flip);
            code &= most;
            for (let i = 0; i < degree; i++) {
              columns[i] |= placeOf(code & (bins - 1), +!!(code & bins)) << t;
              // A parity with X·row is one of the row with the code after this step.
              code = (code >>> 1) | (parity(code & POLYNOMIALS[degree - LEAST_DEGREE]) << (degree - 1));
            }
          } else {
            let word = 0;
            for (let group = 0; group < groups; group++) {
              const bit = group % size; // a word has the signs of 32 groups
              if (!bit) word = prf(seed, id, PROJECTION, group / size);
              out[group] |= placeOf(below(word, bins), (word >>> bit) & 1) << t;
            }
          }
          flips |= flip << t;
        });
        if (map) select(columns, rows, out);
        for (let group = 0; group < groups; group++) {
          const word = out[group] ^ flips;
          if (dense) sums[group] += some.length - 2 * count(word);
          else sums[n++] = group * places + word;
        }
      }
      if (!dense) uniforms(dummies * groups, places, words).forEach((at, i) => (sums[n + i] = (i % groups) * places + at));
      const slot = choose(sums, dense ? sums : tallied(sums), words);
      if (!table) return [slot];
      // The server needs nothing but the cell; the rest of the seed stays on the device.
      const fields = [rows[Math.floor(slot / places)] * bins + Math.floor((slot % places) / sides)];
      if (signed) fields.unshift(slot % 2);
      if (plan.maps > 1) fields.push(map!.number);
      return fields;
    },
  };
}

/** Add the sum of the columns that the bits of each row select, from tables for six bits each. */
function select(columns: Int32Array, rows: Int32Array, out: Int32Array): void {
  const sums = new Int32Array(384);
  columns.forEach((column, i) => {
    const size = 1 << i % 6;
    const at = 64 * Math.floor(i / 6);
    for (let j = at; j < at + size; j++) sums[j + size] = sums[j] ^ column;
  });
  rows.forEach((row, i) => {
    for (let at = 0; row; at += 64) {
      out[i] ^= sums[at + (row & 63)];
      row >>>= 6;
    }
  });
}

/** Return the items that were rounded up, and a uniform choice of k where there are more. */
function draw(items: readonly Item[], k: number, systematic: boolean, words: Words): Item[] {
  const taken = systematic ? bySteps(items, words) : rounded(items, 1, words);
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
function bySteps(items: readonly Item[], words: Words): boolean[] {
  const parts = rounded(items, 2 ** 32, words);
  let end = -words();
  return parts.map((part) => {
    const begin = end;
    end += part;
    return Math.ceil(end / 2 ** 32) > Math.ceil(begin / 2 ** 32);
  });
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
