/** Projection choice, dense form: spec/projection-choice-v1.md, sections 1 to 7. */
import { met, rounded, uniform, type Words } from "../coins.ts";
import { GROUP, mapOf, ones, parity, prf, PROJECTION, type PublicMap, type Wide } from "../hashing.ts";
import { exactly, integer, isPower, rule, type Plan } from "../plan.ts";
import { divide, ln, multiply, precise } from "../precise.ts";
import type { Item } from "../vector.ts";
import type { Mechanism } from "./api.ts";

export function projectionChoice(plan: Plan): Mechanism {
  const { groups, top, threshold, systematic } = check(plan);
  const slots = 2 * groups;
  const table = plan.decode === "table";
  const rowOf = (seed: Wide, group: number) => (prf(seed, [group, 0], GROUP) & ones(plan.bits)) >>> 0;
  const mapBits = Math.log2(plan.maps);

  /** Add the signs of tokens in all groups to the scores. */
  function addTokens(
    scores: Int32Array,
    tokens: readonly Item[],
    seed: Wide,
    map: PublicMap | null,
  ): void {
    const rows = map ? Array.from(scores, (_, group) => rowOf(seed, group)) : [];
    for (const { id, value } of tokens) {
      const turned = +(value < 0) ^ (map ? map.negative(id) : 0);
      const code = map ? map.code(id) : 0;
      let word = 0;
      for (let group = 0; group < groups; group++) {
        if (!map && group % 32 === 0) word = prf(seed, id, PROJECTION, group / 32);
        const odd = map ? parity(rows[group] & code) : (word >>> (group % 32)) & 1;
        scores[group] += 1 - 2 * (odd ^ turned);
      }
    }
  }

  return {
    widths: table ? (mapBits ? [1, plan.bits, mapBits] : [1, plan.bits]) : [Math.log2(slots)],
    drawn: table ? 8 : 5,
    sent: table ? 0 : 5,
    loss: ln(
      divide(
        multiply(precise(threshold), precise(slots - top)),
        multiply(precise(top), precise(2 ** 32 - threshold)),
      ),
    ),
    randomize(items, seed, words) {
      const tokens = draw(items, plan.sparsity, systematic, words);
      const scores = new Int32Array(groups);
      const map = plan.maps ? mapOf(plan, seed) : null;
      addTokens(scores, tokens, seed, map);
      addDummies(scores, plan.sparsity - tokens.length, plan.sparsity, words);
      const slot = choose(scores, top, threshold, words);
      if (!table) return [slot];
      const cell = [slot % 2, rowOf(seed, slot >> 1)];
      return mapBits ? [...cell, map!.number] : cell;
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

/** Add fair signs, so that every client has k; all words are taken, however many are needed. */
function addDummies(scores: Int32Array, dummies: number, k: number, words: Words): void {
  for (let start = 0; start < k; start += 32) {
    const used = Math.min(Math.max(dummies - start, 0), 32);
    for (let group = 0; group < scores.length; group++) {
      scores[group] += used - 2 * count(words() & ones(used));
    }
  }
}

/** Return the number of ones of a word. */
function count(word: number): number {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** Return one slot: of the N best with the chance T/2^32, else one of the others. */
function choose(scores: Int32Array, top: number, threshold: number, words: Words): number {
  const slots = new Int32Array(2 * scores.length);
  scores.forEach((score, group) => {
    slots[2 * group] = score;
    slots[2 * group + 1] = -score;
  });
  const border = slots.slice().sort()[slots.length - top];
  const places: number[][] = [[], [], []]; // below the border, tied with it, above it
  slots.forEach((score, slot) => places[Math.sign(score - border) + 1].push(slot));
  const [below, tied, above] = places;
  let chosen;
  if (words() < threshold) chosen = uniform(top, words) < above.length ? above : tied;
  else {
    const rank = uniform(slots.length - top, words);
    chosen = rank < above.length + tied.length - top ? tied : below;
  }
  return chosen[uniform(chosen.length, words)];
}

function check(plan: Plan) {
  const given = plan.parameters;
  exactly(given, "parameters", "bins,form,groups,rounding,threshold,tokens,top");
  rule(given.form === "dense", "form (of which this client knows dense)");
  const systematic = given.rounding === "systematic";
  rule(systematic || given.rounding === "independent", "rounding");
  rule(plan.family !== "blake2s", "family");
  const groups = integer(given, "groups", 1, 8192);
  rule(isPower(groups), "groups");
  integer(given, "bins", 1, 1);
  integer(given, "tokens", plan.sparsity, plan.sparsity);
  const top = integer(given, "top", 1, groups);
  const threshold = integer(given, "threshold", 1, 2 ** 32 - 1);
  rule(
    threshold * (2 * groups - top) > top * (2 ** 32 - threshold),
    "threshold",
  );
  const most = plan.decode === "table" ? 31 : 32;
  rule(plan.maps * 2 ** plan.bits <= 2 ** most, "maps");
  return { groups, top, threshold, systematic };
}
