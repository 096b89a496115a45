/** Orthogonal: spec/orthogonal-v1.md. A report that is orthogonal to the rows of items that speak. */
import { rounded } from "../coins.ts";
import { EQUATION, mapOf, ones, prf, type PublicMap } from "../hashing.ts";
import { exactly, integer, rule, type Plan } from "../plan.ts";
import { lnRatio } from "../precise.ts";
import type { Item } from "../vector.ts";
import type { Mechanism } from "./api.ts";
import { orthogonalTo } from "./elimination.ts";
import { LEAST_DEGREE, POLYNOMIALS } from "./projection_choice.ts";
import { cellWidths } from "./retrieval.ts";

const SMALL = [0x3, 0x7, 0xb, 0x13, 0x25, 0x43, 0x83]; // polynomials of the degrees from 1

export function orthogonal(plan: Plan): Mechanism {
  const { few, most, first, second, bits, blocks, constants, degree } = check(plan);
  const cell = cellWidths(bits);
  const widths: number[] = Array(blocks).fill(cell).flat();
  if (plan.maps > 1) widths.unshift(Math.log2(plan.maps));

  /** Return the rows of each block, one after another. */
  function rowsOf(items: readonly Item[], asked: readonly number[], map: PublicMap): Int32Array[] {
    if (constants.length) {
      const cells: number[][] = Array.from({ length: blocks }, () => []);
      items.forEach(({ id }, i) => {
        const code = map.code(id);
        const element = Math.floor(code / blocks) & ones(degree);
        for (let l = 0; l < asked[i]; l++) {
          cells[code % blocks].push(2 ** (degree + l) + product(constants[l], element, degree));
        }
      });
      return cells.map((rows) => new Int32Array(rows));
    }
    const size = cell.length;
    const rows = new Int32Array(size * asked.reduce((sum, count) => sum + count, 0));
    let at = 0;
    items.forEach(({ id }, i) => {
      for (let n = 0; n < size * asked[i]; n++) rows[at++] = prf(map.fold, id, EQUATION, n);
    });
    const last = ones(cell[size - 1]);
    for (let i = size - 1; i < rows.length; i += size) rows[i] &= last;
    return [rows];
  }

  return {
    widths,
    sent: 0,
    loss: lossOf(few, first, second),
    randomize(items, seed, words) {
      const certain = rounded(items, 1, words);
      const asked = items.map((_, i) => {
        const word = words();
        return !certain[i] || word >= first + second ? 0 : word < first ? few : most;
      });
      const map = mapOf(plan, seed);
      const fields = rowsOf(items, asked, map).flatMap((rows) => orthogonalTo(rows, cell, words));
      return plan.maps > 1 ? [map.number, ...fields] : fields;
    },
  };
}

/** Return the product of two elements of GF(2^degree). */
function product(a: number, b: number, degree: number): number {
  const large = 2 ** degree + POLYNOMIALS[degree - LEAST_DEGREE];
  let out = 0;
  for (; b; b >>>= 1) {
    if (b & 1) out ^= a;
    a *= 2;
    if (a > ones(degree)) a ^= degree < LEAST_DEGREE ? SMALL[degree - 1] : large;
  }
  return out;
}

/** Return the larger of the two losses: of what silence and of what speaking can tell. */
function lossOf(few: number, first: number, second: number) {
  const silent = 2 ** 32 - first - second;
  const silence = lnRatio(2 ** 32, silent);
  const speaking = lnRatio(silent + first * 2 ** few + second * 2 ** (few + 1), 2 ** 32);
  const [high, low] = [silence[0] - speaking[0], silence[1] - speaking[1]];
  return (high || low) > 0 ? silence : speaking;
}

function check(plan: Plan) {
  const given = plan.parameters;
  exactly(given, "parameters", "bits,blocks,constants,rows,speak");
  rule(plan.unit === "event", "protect");
  rule(plan.values !== "signed", "values");
  rule(plan.family === "linear", "family");
  const list = (name: string, least: number, count: number, most: number): number[] => {
    const values = given[name];
    rule(Array.isArray(values) && values.length >= least && values.length <= count, name);
    values.forEach((value) => integer({ [name]: value }, name, 1, most));
    return values;
  };
  const few = integer(given, "rows", 1, 8);
  const [first, second = 0] = list("speak", 1, 2, 2 ** 32 - 1);
  rule(first + second < 2 ** 32, "speak");
  const most = few + +(second > 0);
  rule(most <= 8, "rows");
  const table = plan.decode === "table";
  const least = table ? most + 1 : 1;
  const bits = integer(given, "bits", least, table ? Math.min(26, most + 24) : 32 * Math.floor(256 / most));
  const blocks = integer(given, "blocks", 1, table ? 4096 : 1);
  const degree = bits - most;
  const split = plan.size === null ? 31 : Math.min(31, degree + Math.floor(Math.log2(blocks)));
  rule(plan.bits === (table ? (blocks === 1 ? degree : split) : 31), "bits");
  const count = table ? most : 0;
  const constants = list("constants", count, count, ones(degree));
  return { few, most, first, second, bits, blocks, constants, degree };
}
