/** Signed binning: spec/randomize-v1.md. Items share bins under random signs, then integer noise. */
import { rounded, settle, type Words } from "../coins.ts";
import { below, BIN, keyed, mapOf, MATRIX, ones, parity, prf, ROW, SIGN, type Wide } from "../hashing.ts";
import { exactly, integer, isPower, rule, type Plan } from "../plan.ts";
import { add, decimal, divide, ln, multiply, precise, type Precise } from "../precise.ts";
import type { Mechanism } from "./api.ts";

const MOST = 2 ** 31 - 1;
const FINE = 2 ** 16; // steps from which the squeezed bound is close to that of the values

export function signedBinning(plan: Plan): Mechanism {
  const given = check(plan);
  const [row, bins, steps, noise, clip, range] = given;
  const limit = (value: number, most: number) => Math.max(-most, Math.min(most, value));
  return {
    widths: Array(bins).fill((2 * range).toString(2).length),
    sent: plan.family === "blake2s" ? 8 : 5,
    loss: lossOf(plan, given),
    bounded: row === "squeeze",
    randomize(items, seed, words) {
      const sizes = rounded(items, steps, words);
      const raw: number[] = Array(bins).fill(0);
      const place = placesOf(plan, bins, seed);
      items.forEach(({ id, value }, i) => {
        const [bin, odd] = place(id);
        raw[bin] += odd === +(value < 0) ? sizes[i] : -sizes[i];
      });
      const drawn = geometric(noise, 2 * bins, words);
      return raw.map((sum, bin) => {
        return limit(limit(sum, clip) + drawn[bin] - drawn[bins + bin], range) + range;
      });
    },
  };
}

/** Return a function from an id to its bin, and to 1 where its sign is negative. */
export function placesOf(plan: Plan, bins: number, seed: Wide): (id: Wide) => [number, number] {
  if (!plan.maps) {
    const hash = plan.family === "prf" ? prf : keyed;
    return (id) => [bins > 1 ? below(hash(seed, id, BIN), bins) : 0, hash(seed, id, SIGN) & 1];
  }
  const map = mapOf(plan, seed);
  const low = ones(plan.bits);
  const row = prf(seed, [0, 0], ROW) & low;
  const matrix = Array.from({ length: Math.log2(bins) }, (_, i) => prf(seed, [i, 0], MATRIX) & low);
  return (id) => {
    const code = map.code(id);
    const bin = matrix.reduce((sum, line, i) => sum | (parity(line & code) << i), 0);
    return [bin, parity(row & code) ^ map.negative(id)];
  };
}

/** Return geometric numbers, from binary digits and a rarely continuing coin. */
function geometric(noise: readonly number[], count: number, words: Words): number[] {
  const drawn: number[] = Array(count).fill(0);
  const digits = noise.length - 1;
  for (let digit = 0; digit < digits; digit++) {
    const threshold = noise[digit];
    const size = 2 ** digit;
    for (let i = 0; i < count; i++) if (words() < threshold) drawn[i] += size;
  }
  settle(count, (i) => {
    if (words() >= noise[digits]) return false;
    drawn[i] += 2 ** digits;
    return true;
  });
  return drawn;
}

/** Return the loss that the thresholds prove, by the theorem of the row. */
function lossOf(plan: Plan, [row, bins, steps, noise, clip]: ReturnType<typeof check>): Precise {
  const ratio = stepRatio(noise);
  if (row === "l1") {
    const distance = multiply(decimal(plan.unit.slice(3)), precise(steps));
    return multiply(add(ratio, precise(-1)), distance);
  }
  let change = 2 * steps;
  if (row === "user") change = 2 * clip * bins;
  if (row === "squeeze") {
    const least = Math.log((2 * bins) / +plan.delta);
    // The chance is one over seeds of 64 bits, so it is never less than one of them.
    rule(+plan.delta >= 2 ** -64, "delta");
    rule(plan.distance / bins >= least, "bins");
    const reach = plan.distance + (2 * plan.sparsity) / steps;
    change = Math.ceil(3 * Math.sqrt(bins * reach * least) * steps) + 1;
  }
  return multiply(ln(ratio), precise(change));
}

/** Return the largest factor by which a shift of one step changes any probability. */
function stepRatio(noise: readonly number[]): Precise {
  let product = precise(1);
  let most = precise(1);
  noise.forEach((threshold, i) => {
    const last = i === noise.length - 1;
    const odds = divide(precise(threshold), precise(last ? 2 ** 32 : 2 ** 32 - threshold));
    for (const ratio of [divide(odds, product), divide(product, odds)]) {
      // What is not a number stays, and is refused in the end.
      if (!(add(most, multiply(ratio, precise(-1)))[0] >= 0)) most = ratio;
    }
    product = multiply(product, odds);
  });
  return most;
}

function check(plan: Plan) {
  const given = plan.parameters;
  exactly(given, "parameters", "bins,clip,noise,range,row,steps");
  const { row, noise } = given;
  const protects = plan.distance ? row === "l1" || row === "squeeze" : row === plan.unit;
  rule(protects, "row");
  const squeeze = row === "squeeze";
  rule(!squeeze || plan.family === "blake2s", "family");
  const linear = plan.family === "linear";
  const bins = integer(given, "bins", 1, row === "user" ? 1 : 4096);
  rule(!linear || isPower(bins), "bins");
  const steps = integer(given, "steps", squeeze ? FINE : 1, 2 ** 20);
  rule(isPower(steps), "steps");
  const range = integer(given, "range", 1, MOST);
  rule(plan.maps * 2 ** plan.bits <= 2 ** 32, "maps");
  rule(!linear || bins * range <= MOST, "range");
  rule(row === "user" || given.clip === null, "clip");
  const clip = row === "user" ? integer(given, "clip", 1, MOST) : Infinity; // where the unit alone bounds the change
  rule(Array.isArray(noise) && noise.length >= 1 && noise.length <= 40, "noise");
  // With a last threshold above one half, drawing could take very long.
  noise.forEach((_, i) => {
    integer({ noise: noise[i] }, "noise", 1, i < noise.length - 1 ? 2 ** 32 - 1 : 2 ** 31);
  });
  return [row as string, bins, steps, noise as readonly number[], clip, range] as const;
}
