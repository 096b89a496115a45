/** Return `size` bytes of the hash of data, under a key and eight letters of personalisation. */
export declare function blake2s(data: Uint8Array, size: number, key?: ArrayLike<number>, person?: string): Uint8Array;
/** Return the little-endian words of bytes, whose number is a multiple of four, with a sign: such are quick. */
export declare function wordsOf(bytes: Uint8Array): Int32Array;
/** Return words as little-endian bytes. */
export declare function bytesOf(words: ArrayLike<number>): Uint8Array;
