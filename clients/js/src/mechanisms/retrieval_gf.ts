/** Retrieval over GF(2^w), form span-safe: spec/other-mechanisms-v1.md, sections 1 and 2. */
import { rounded } from "../coins.ts";
import { InvalidPlan } from "../errors.ts";
import { ones, ORDER, prf, SIGN, SYMBOL } from "../hashing.ts";
import { exactly, integer, rule, type Plan } from "../plan.ts";
import { lnRatio } from "../precise.ts";
import type { Mechanism } from "./api.ts";

const POLYNOMIALS = [0x3, 0x7, 0xb, 0x13, 0x25, 0x43, 0x83, 0x11d]; // by the bits of a symbol, from 1

/** One item's equation: the symbol that a report and its row must have as their product. */
interface Equation {
  row: number[];
  answer: number;
  readonly order: number;
}

export function retrievalGf(plan: Plan): Mechanism {
  const { bits, symbols, pairs, plus, minus } = check(plan);
  const each = Math.floor(32 / bits); // symbols of a word
  const length = Math.ceil(symbols / each);
  const weights = pairs.flatMap((count, i) => [...Array(count).fill(plus[i]), ...Array(count).fill(minus[i])]);
  const mirror = mirrored(pairs);
  const times = multiplication(bits);

  /** Return as many symbols as a report has, from words, the lowest bits first. */
  const unpacked = (word: (number: number) => number): number[] => {
    const words = Array.from({ length }, (_, w) => word(w));
    return Array.from({ length: symbols }, (_, i) => {
      return (words[Math.floor(i / each)] >>> (bits * (i % each))) & ones(bits);
    });
  };

  return {
    widths: Array(symbols).fill(bits),
    sent: 5,
    loss: lnRatio(Math.max(...plus), Math.min(...minus)),
    randomize(items, seed, words) {
      const certain = rounded(items, 1, words);
      const equations = items.map(({ id, value }, i): Equation => {
        const word = words();
        let answer = word >>> (32 - bits);
        if (certain[i]) {
          let left = word;
          answer = weights.findIndex((weight) => (left -= weight) < 0);
          if ((prf(seed, id, SIGN) & 1) !== +(value < 0)) answer = mirror[answer];
        }
        const row = unpacked((w) => prf(seed, id, SYMBOL, w));
        return { row, answer, order: prf(seed, id, ORDER, 0) };
      });
      // Sorting is stable, so that equal words leave the items by rising id.
      equations.sort((a, b) => a.order - b.order);
      return solve(equations, unpacked(words), times);
    },
  };
}

/** Return the other symbol of the pair of every symbol. */
function mirrored(pairs: readonly number[]): number[] {
  const out: number[] = [];
  for (const count of pairs) {
    const start = out.length;
    for (let i = 0; i < 2 * count; i++) out.push(start + ((i + count) % (2 * count)));
  }
  return out;
}

/** Return the rows of the field's multiplication table. */
function multiplication(bits: number): Uint8Array[] {
  const size = 2 ** bits;
  const product = (a: number, b: number) => {
    let out = 0;
    for (; b; b >>= 1) {
      if (b & 1) out ^= a;
      a *= 2;
      if (a >= size) a ^= POLYNOMIALS[bits - 1];
    }
    return out;
  };
  return Array.from({ length: size }, (_, a) => Uint8Array.from({ length: size }, (_, b) => product(a, b)));
}

/** Return the free symbols except those of the pivots, which solve the equations. */
function solve(equations: readonly Equation[], out: number[], times: readonly Uint8Array[]): number[] {
  const kept: { pivot: number; row: number[]; answer: number }[] = [];
  for (const equation of equations) {
    let { row, answer } = equation;
    for (const known of kept) {
      const multiples = times[row[known.pivot]];
      add(row, known.row, multiples, known.pivot);
      answer ^= multiples[known.answer];
    }
    const pivot = row.findIndex((symbol) => symbol);
    if (pivot < 0) continue; // it follows from those before, or contradicts them
    const inverse = times[times[row[pivot]].indexOf(1)];
    row = row.map((symbol) => inverse[symbol]);
    kept.push({ pivot, row, answer: inverse[answer] });
  }
  for (const { pivot, row, answer } of kept.reverse()) {
    // The pivot itself counts once, so that what is missing can be added to it.
    out[pivot] ^= row.reduce((sum, symbol, i) => sum ^ times[symbol][out[i]], answer);
  }
  return out;
}

/** Add multiples of a row to another one, from its pivot on: a function as small as this is compiled soon. */
function add(row: number[], other: readonly number[], multiples: Uint8Array, pivot: number): void {
  for (let i = pivot; i < row.length; i++) row[i] ^= multiples[other[i]];
}

function check(plan: Plan) {
  const given = plan.parameters;
  exactly(given, "parameters", "form,minus,pairs,plus,readings,seed_bytes,symbol_bits,symbols");
  if (given.form === "polynomial" || given.form === "full") {
    throw new InvalidPlan(
      `this client does not know the form ${given.form} of the mechanism retrieval-gf of faintly-plan/1`,
    );
  }
  rule(given.form === "span-safe", "form");
  rule(plan.unit === "event", "protect");
  rule(plan.family === "prf", "family");
  integer(given, "seed_bytes", 5, 5);
  const bits = integer(given, "symbol_bits", 1, 8);
  const symbols = integer(given, "symbols", plan.sparsity, 256 * Math.floor(32 / bits));
  const list = (name: string, least: number, most: number): number[] => {
    const values = given[name];
    rule(Array.isArray(values) && values.length > 0 && values.length <= 8, name);
    values.forEach((value) => integer({ [name]: value }, name, least, most));
    return values;
  };
  const pairs = list("pairs", 1, 2 ** (bits - 1));
  const plus = list("plus", 1, 2 ** 32);
  const minus = list("minus", 1, 2 ** 32);
  const readings = list("readings", 0, 2 ** 16);
  const total = (of: (i: number) => number) => pairs.reduce((sum, count, i) => sum + count * of(i), 0);
  rule([plus, minus, readings].every(({ length }) => length === pairs.length), "readings");
  rule(plus.every((weight, i) => weight >= minus[i]), "minus");
  rule(2 * total(() => 1) === 2 ** bits, "pairs");
  rule(total((i) => plus[i] + minus[i]) === 2 ** 32, "plus");
  rule(total((i) => (plus[i] - minus[i]) * readings[i]) > 0, "readings");
  return { bits, symbols, pairs, plus, minus };
}
