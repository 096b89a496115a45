/**
 * Numbers of about 106 bits, each the sum of two floats. A plan is tight: its thresholds are the
 * smallest that keep the promise, so plain floats would refuse some sound plans or pass false ones.
 */
export type Precise = readonly [high: number, low: number];

// The rounding of all that is computed here stays far below this share of the result.
const MARGIN = 1e-27;
const LN2: Precise = [0.6931471805599453, 2.3190468138462996e-17];

const sum = (a: number, b: number): Precise => {
  const s = a + b;
  const c = s - a;
  return [s, a - (s - c) + (b - c)];
};

const halves = (a: number): Precise => {
  const c = 134217729 * a; // 2^27 + 1
  const high = c - (c - a);
  return [high, a - high];
};

export const precise = (a: number): Precise => [a, 0];

export const add = (x: Precise, y: Precise): Precise => {
  const [s, rest] = sum(x[0], y[0]);
  return sum(s, rest + x[1] + y[1]);
};

export const multiply = (x: Precise, y: Precise): Precise => {
  const p = x[0] * y[0];
  const [a, b] = halves(x[0]);
  const [c, d] = halves(y[0]);
  return sum(p, a * c - p + a * d + b * c + b * d + x[0] * y[1] + x[1] * y[0]);
};

export const divide = (x: Precise, y: Precise): Precise => {
  let rest = x;
  let out = precise(0);
  for (let i = 0; i < 3; i++) {
    const digit = precise(rest[0] / y[0]);
    out = add(out, digit);
    rest = add(rest, multiply(y, precise(-digit[0])));
  }
  return out;
};

/** Return the natural logarithm: 2·artanh((m - 1)/(m + 1)) of m near 1, and powers of two. */
export function ln(x: Precise): Precise {
  const power = Math.round(Math.log2(x[0]));
  const m = multiply(x, precise(2 ** -power));
  const z = divide(add(m, precise(-1)), add(m, precise(1)));
  const square = multiply(z, z);
  let series = precise(0);
  for (let i = 49; i > 0; i -= 2) {
    series = add(multiply(series, square), divide(precise(1), precise(i)));
  }
  return add(multiply(LN2, precise(power)), multiply(series, multiply(z, precise(2))));
}

/** Return the natural logarithm of a fraction of two integers. */
export const lnRatio = (top: number, bottom: number): Precise =>
  ln(divide(precise(top), precise(bottom)));

/** Return the number that a plain decimal spells, so that 0.1 means one tenth. */
export function decimal(text: string): Precise {
  let value = precise(0);
  let scale = precise(1);
  const point = text.indexOf(".");
  for (let i = 0; i < text.length; i++) {
    if (i === point) continue;
    value = add(multiply(value, precise(10)), precise(+text[i]));
    if (point >= 0 && i > point) scale = multiply(scale, precise(10));
  }
  return divide(value, scale);
}

/** Return whether x is certainly at most y; false if either is not a number. */
export function atMost(x: Precise, y: Precise): boolean {
  return add(y, multiply(x, [-1, -MARGIN]))[0] >= 0;
}
