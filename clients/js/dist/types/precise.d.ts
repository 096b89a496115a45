/**
 * Numbers of about 106 bits, each the sum of two floats. A plan is tight: its thresholds are the
 * smallest that keep the promise, so plain floats would refuse some sound plans or pass false ones.
 */
export type Precise = readonly [high: number, low: number];
export declare const precise: (a: number) => Precise;
export declare const add: (x: Precise, y: Precise) => Precise;
export declare const multiply: (x: Precise, y: Precise) => Precise;
export declare const divide: (x: Precise, y: Precise) => Precise;
/** Return the natural logarithm: 2·artanh((m - 1)/(m + 1)) of m near 1, and powers of two. */
export declare function ln(x: Precise): Precise;
/** Return the natural logarithm of a fraction of two integers. */
export declare const lnRatio: (top: number, bottom: number) => Precise;
/** Return the number that a plain decimal spells, so that 0.1 means one tenth. */
export declare function decimal(text: string): Precise;
/** Return whether x is certainly at most y; false if either is not a number. */
export declare function atMost(x: Precise, y: Precise): boolean;
