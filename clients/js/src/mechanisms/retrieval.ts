/** Retrieval: spec/retrieval-v1.md. Randomized response for each item, in a linear system. */
import { rounded, type Words } from "../coins.ts";
import { COIN, EQUATION, mapOf, ones, ORDER, parity, prf } from "../hashing.ts";
import { exactly, integer, rule, type Plan } from "../plan.ts";
import { lnRatio } from "../precise.ts";
import type { Item } from "../vector.ts";
import type { Mechanism } from "./api.ts";

export function retrieval(plan: Plan): Mechanism {
  const [bits, blocks, keep] = check(plan);
  const cell = cellWidths(bits);
  const widths: number[] = Array(blocks).fill(cell).flat();
  if (plan.maps > 1) widths.push(Math.log2(plan.maps));

  return {
    widths,
    sent: plan.maps ? 0 : 5,
    loss: lnRatio(keep, 2 ** 32 - keep),
    randomize(items, seed, words) {
      const said = answers(items, keep, words);
      const map = plan.maps ? mapOf(plan, seed) : null;
      const cells: Int32Array[][] = Array.from({ length: blocks }, () => []);
      // Sorting is stable, so that equal words leave the items by rising id.
      items
        .map(({ id }, i) => ({ id, answer: said[i], order: prf(seed, id, ORDER, 0) }))
        .sort((a, b) => a.order - b.order)
        .forEach(({ id, answer }) => {
          const code = map ? map.code(id) : 0;
          const row = map
            ? [2 * (Math.floor(code / blocks) & ones(bits - 1)) + 1]
            : cell.map((width, w) => prf(seed, id, EQUATION, w) & ones(width));
          const sign = map ? map.negative(id) : prf(seed, id, COIN, 0) & 1;
          cells[code % blocks].push(Int32Array.of(...row, sign ^ answer));
        });
      const fields = cells.flatMap((rows) => solve(rows, cell, words));
      return plan.maps > 1 ? [...fields, map!.number] : fields;
    },
  };
}

/** Return how many bits each word of a cell has. */
export const cellWidths = (bits: number): number[] =>
  Array.from({ length: Math.ceil(bits / 32) }, (_, i) => Math.min(32, bits - 32 * i));

/** Return 1 for each item that answers -1: three rounds of words, whatever they change. */
function answers(items: readonly Item[], keep: number, words: Words): number[] {
  const certain = rounded(items, 1, words);
  const coins = items.map(() => words() & 1);
  return items.map(({ value }, i) => (certain[i] ? +(value < 0) : coins[i]) ^ +(words() >= keep));
}

/**
 * Return a cell of random bits except those of the pivots, which solve the equations: each has the words of a row, the
 * lowest bits first, and the parity that it must have with the cell.
 */
function solve(rows: readonly Int32Array[], widths: readonly number[], words: Words): number[] {
  const cell = Uint32Array.from(widths, (width) => words() & ones(width));
  const size = cell.length;
  const places = rows.map((row, i) => {
    const at = row.findIndex(Boolean);
    if (at in cell) clear(rows, i, at); // else it follows from those before, or contradicts them
    return at;
  });
  for (let i = rows.length; i--; ) {
    const row = rows[i];
    const at = places[i];
    let sum = row[size];
    for (let w = at; w < size; w++) sum ^= row[w] & cell[w];
    if (parity(sum)) cell[at] ^= row[at] & -row[at]; // where there is no such word, nothing is written
  }
  return [...cell];
}

/** Add a row to those after it that have its pivot. Functions as small as these two are compiled soon. */
function clear(rows: readonly Int32Array[], i: number, at: number): void {
  const row = rows[i];
  const pivot = row[at] & -row[at];
  while (++i < rows.length) if (rows[i][at] & pivot) add(rows[i], row, at);
}

function add(row: Int32Array, other: Int32Array, at: number): void {
  for (; at < row.length; at++) row[at] ^= other[at];
}

function check(plan: Plan): [bits: number, blocks: number, keep: number] {
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
  return [bits, blocks, keep];
}
