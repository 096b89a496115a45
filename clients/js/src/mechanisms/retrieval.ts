/** Retrieval: spec/retrieval-v1.md. Randomized response for each item, in a linear system. */
import { met, type Words } from "../coins.ts";
import { COIN, EQUATION, mapOf, ones, ORDER, parity, prf, type PublicMap, type Wide } from "../hashing.ts";
import { exactly, integer, rule, type Plan } from "../plan.ts";
import { lnRatio } from "../precise.ts";
import type { Item } from "../vector.ts";
import type { Mechanism } from "./api.ts";

/** One item's equation: the parity that a cell and its row must have. */
interface Equation {
  readonly block: number;
  readonly row: Int32Array; // words, the lowest bits first
  odd: number;
  readonly order: number;
}

export function retrieval(plan: Plan): Mechanism {
  const { bits, blocks, keep } = check(plan);
  const linear = plan.maps > 0;
  const cell = cellWidths(bits);
  const widths = Array.from({ length: blocks }, () => cell).flat();
  if (plan.maps > 1) widths.push(Math.log2(plan.maps));

  function equations(items: readonly Item[], seed: Wide, map: PublicMap | null): Equation[] {
    return items.map(({ id }) => {
      const order = prf(seed, id, ORDER, 0);
      if (!map) {
        const row = Int32Array.from(cell, (width, w) => prf(seed, id, EQUATION, w) & ones(width));
        return { block: 0, row, odd: prf(seed, id, COIN, 0) & 1, order };
      }
      const code = map.code(id);
      const row = Int32Array.of(2 * (Math.floor(code / blocks) & ones(bits - 1)) + 1);
      return { block: code % blocks, row, odd: map.negative(id), order };
    });
  }

  return {
    widths,
    drawn: linear ? 8 : 5,
    sent: linear ? 0 : 5,
    loss: lnRatio(keep, 2 ** 32 - keep),
    randomize(items, seed, words) {
      const said = answers(items, keep, words);
      const map = linear ? mapOf(plan, seed) : null;
      const all = equations(items, seed, map);
      all.forEach((equation, i) => (equation.odd ^= said[i]));
      // Sorting is stable, so that equal words leave the items by rising id.
      all.sort((a, b) => a.order - b.order);
      const cells: Equation[][] = Array.from({ length: blocks }, () => []);
      for (const equation of all) cells[equation.block].push(equation);
      const fields = cells.flatMap((inside) => {
        const free = cell.map((width) => (words() & ones(width)) >>> 0);
        return solve(inside, free);
      });
      return plan.maps > 1 ? [...fields, map!.number] : fields;
    },
  };
}

/** Return how many bits each word of a cell has. */
export const cellWidths = (bits: number): number[] =>
  Array.from({ length: Math.ceil(bits / 32) }, (_, i) => Math.min(32, bits - 32 * i));

/** Return 1 for each item that answers -1: three rounds of words, whatever they change. */
function answers(items: readonly Item[], keep: number, words: Words): number[] {
  const certain = met(
    items.map(({ value }) => Math.abs(value)),
    words,
  );
  const coins = items.map(() => words() & 1);
  return items.map(({ value }, i) => (certain[i] ? +(value < 0) : coins[i]) ^ +(words() >= keep));
}

/** Return the cell that keeps the free bits but for the pivots, which solve the equations. */
export function solve(equations: readonly Pick<Equation, "row" | "odd">[], cell: number[]): number[] {
  const kept: { at: number; pivot: number; row: Int32Array; odd: number }[] = [];
  for (const equation of equations) {
    const row = equation.row;
    let odd = equation.odd;
    for (const known of kept) {
      if (row[known.at] & known.pivot) {
        for (let w = known.at; w < row.length; w++) row[w] ^= known.row[w]; // it has none before
        odd ^= known.odd;
      }
    }
    const at = row.findIndex((word) => word !== 0);
    if (at >= 0) kept.push({ at, pivot: row[at] & -row[at], row, odd });
  }
  for (const { at, pivot, row, odd } of kept.reverse()) {
    if (parity(row.reduce((sum, word, w) => sum ^ (word & cell[w]), 0)) !== odd) cell[at] ^= pivot;
  }
  return cell.map((word) => word >>> 0);
}

function check(plan: Plan): { bits: number; blocks: number; keep: number } {
  const given = plan.parameters;
  exactly(given, "parameters", "bits,blocks,keep");
  rule(plan.unit === "event", "protect");
  rule(plan.family !== "blake2s", "family");
  const keep = integer(given, "keep", 2 ** 31 + 1, 2 ** 32 - 1);
  const bits = integer(given, "bits", plan.maps ? 2 : 1, plan.maps ? 28 : 8192);
  const blocks = integer(given, "blocks", 1, plan.maps ? 4096 : 1);
  rule(bits * blocks >= plan.sparsity, "sparsity");
  const most = plan.decode === "table" ? 27 : 32;
  rule(!plan.maps || plan.maps * blocks * 2 ** (bits - 1) <= 2 ** most, "maps");
  const split = plan.size === null ? 31 : bits - 1 + Math.floor(Math.log2(blocks));
  const codes = blocks === 1 ? bits - 1 : split;
  rule(plan.bits === (plan.maps ? codes : 0), "bits");
  return { bits, blocks, keep };
}
