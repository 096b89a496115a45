/** Return `size` bytes of the hash of data, under a key and eight letters of personalisation. */
export declare function blake2s(data: Uint8Array, size: number, key?: Uint8Array, person?: string): Uint8Array;
/** Return the little-endian words of bytes, whose number is a multiple of four. */
export declare function wordsOf(bytes: Uint8Array): Uint32Array;
/** Return words as little-endian bytes. */
export declare function bytesOf(words: ArrayLike<number>): Uint8Array;
