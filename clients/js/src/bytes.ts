/** Bytes as text and back. */
const ENCODER = new TextEncoder();

export function hex(bytes: Uint8Array): string {
  let out = "";
  for (const byte of bytes) out += (byte + 256).toString(16).slice(1);
  return out;
}

export function unhex(text: string): Uint8Array {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** Return the UTF-8 form of a text. */
export const utf8 = (text: string): Uint8Array => ENCODER.encode(text);

/** Return whether a text has half of a surrogate pair, and so no UTF-8 form. */
export const isLone = (text: string): boolean => /\p{Surrogate}/u.test(text);

