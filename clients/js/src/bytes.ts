/** Bytes as text and back. */
const ENCODER = new TextEncoder();

export function hex(bytes: Uint8Array): string {
  let out = "";
  for (const byte of bytes) out += (byte + 256).toString(16).slice(1);
  return out;
}

/** Return the bytes of hexadecimal digits in lower case; a queue has a hundred thousand of them at a time. */
export function unhex(text: string): Uint8Array {
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    out[i >> 1] = (out[i >> 1] << 4) | ((code & 15) + 9 * (code >> 6));
  }
  return out;
}

/** Return the UTF-8 form of a text. */
export const utf8 = (text: string): Uint8Array => ENCODER.encode(text);

/** Return whether a text has half of a surrogate pair, and so no UTF-8 form. */
export const isLone = (text: string): boolean => /\p{Surrogate}/u.test(text);

