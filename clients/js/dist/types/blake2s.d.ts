/**
 * Return a function from data to `size` bytes of its hash, under a key and eight letters of
 * personalisation. It keeps the state after the key, which saves half the work for a short text.
 */
export declare function blake2s(size: number, key?: ArrayLike<number>, person?: string): (data: Uint8Array) => Uint8Array;
/** Return the little-endian words of bytes, whose number is a multiple of four; signed words are faster. */
export declare function wordsOf(bytes: Uint8Array): Int32Array;
/** Return words as little-endian bytes. */
export declare const bytesOf: (words: ArrayLike<number>) => Uint8Array;
