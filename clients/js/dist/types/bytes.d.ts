export declare function hex(bytes: Uint8Array): string;
/** Return the bytes of hexadecimal digits in lower case; a queue has a hundred thousand of them at a time. */
export declare function unhex(text: string): Uint8Array;
/** Return the UTF-8 form of a text. */
export declare const utf8: (text: string) => Uint8Array;
/** Return whether a text has half of a surrogate pair, and so no UTF-8 form. */
export declare const isLone: (text: string) => boolean;
