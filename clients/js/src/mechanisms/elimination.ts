/** Hundreds of equations in bits, solved a few columns at a time. */
import type { Words } from "../coins.ts";
import { ones, parity } from "../hashing.ts";

const COLUMNS = 6; // that are cleared together

/** The bit of a word by which a row is solved. */
interface Pivot {
  readonly row: number;
  readonly w: number;
  readonly bit: number;
}

/**
 * Return a cell of random bits except those of the pivots, which make it orthogonal to all rows. These lie one
 * after another, each with as many words as a cell, the lowest bits first. They are overwritten.
 */
export function orthogonalTo(rows: Int32Array, widths: readonly number[], words: Words): number[] {
  const cell = Int32Array.from(widths, (width) => words() & ones(width));
  const size = cell.length;
  const sums = new Int32Array(2 ** COLUMNS * size);
  const pivots: Pivot[] = [];
  const left: number[] = [];
  for (let row = 0; row < rows.length; row += size) left.push(row);
  widths.forEach((width, w) => {
    for (let column = 0; column < width; column += COLUMNS) {
      sweep(rows, left, sums, w, column, ones(Math.min(COLUMNS, width - column)), size, pivots);
    }
  });
  for (const { row, w, bit } of pivots.reverse()) {
    let sum = 0;
    for (let i = w; i < size; i++) sum ^= rows[row + i] & cell[i];
    if (parity(sum)) cell[w] ^= bit;
  }
  return Array.from(cell, (word) => word >>> 0);
}

/** Find the pivots in a few columns of a word, and clear these columns in all rows that are left. */
function sweep(
  rows: Int32Array,
  left: number[], // rows without a pivot
  sums: Int32Array, // of the rows with a pivot here, by what they have in its columns
  w: number,
  column: number,
  most: number,
  size: number,
  pivots: Pivot[],
): void {
  const count = left.length;
  let known = 0; // columns with a pivot
  let kept = 0;
  for (let i = 0; i < count; i++) {
    const row = left[i];
    add(rows, row, sums, ((rows[row + w] >>> column) & known) * size, w, size);
    const bits = (rows[row + w] >>> column) & most;
    if (!bits) {
      left[kept++] = row;
      continue;
    }
    const bit = bits & -bits;
    for (let j = 0; j <= known; j++) {
      if (j & ~known) continue;
      const at = j * size;
      const other = (j + bit) * size;
      sums.copyWithin(other, at, at + size);
      add(sums, (sums[at + w] >>> column) & bit ? at : other, rows, row, w, size);
    }
    known += bit;
    pivots.push({ row, w, bit: bit << column });
  }
  left.length = kept;
}

/** Add a row to another one, from a word on. A function as small as this is compiled soon. */
function add(to: Int32Array, at: number, from: Int32Array, start: number, w: number, end: number): void {
  for (; w < end; w++) to[at + w] ^= from[start + w];
}
