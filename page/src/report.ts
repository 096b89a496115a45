/** A made-up report as it would leave a device, in its parts; spec/wire-v1.md has the byte tables. */
import type { Anatomy } from "./api.ts";

export interface Part {
  name: string;
  kind: "fixed" | "seed" | "noisy";
  bytes: Uint8Array;
  words: string;
}

/** Return a request with one report whose contents are drawn at random. */
export function example(found: Anatomy, digest: string): Part[] {
  const seed = crypto.getRandomValues(new Uint8Array(found.seed_bytes));
  const fields = packedFields(found);
  const size = littleEndian(found.record_bytes, 2);
  const parts: Part[] = [
    { name: "Mark", kind: "fixed", bytes: new TextEncoder().encode("FNTR"), words: "These are reports of faintly. The same in every request." },
    { name: "Version", kind: "fixed", bytes: Uint8Array.of(1), words: "Of the format." },
    { name: "Plan", kind: "fixed", bytes: unhex(digest), words: "Which plan the device followed. The same for everybody." },
    { name: "Length", kind: "fixed", bytes: size, words: "The bytes of one report, which the plan fixes." },
    { name: "Count", kind: "fixed", bytes: littleEndian(1, 4), words: "How many reports follow." },
    { name: "Seed", kind: "seed", bytes: seed, words: "Public randomness, drawn before the device looks at anything a person holds." },
    { name: "Answer", kind: "noisy", bytes: fields, words: `${described(found)}. The only part that depends on what a person holds, after the noise.` },
  ];
  const all = Uint8Array.from(parts.flatMap((part) => Array.from(part.bytes)));
  parts.push({ name: "Checksum", kind: "fixed", bytes: littleEndian(crc32(all), 4), words: "Of all bytes before it, to detect transmission errors." });
  return parts.filter((part) => part.bytes.length);
}

function described({ fields }: Anatomy): string {
  const one = ({ count, bits, below }: Anatomy["fields"][number]) =>
    `${count === 1 ? "one number" : `${count.toLocaleString("en")} numbers`} from 0 to ${(below - 1).toLocaleString("en")}, ${bits} ${bits === 1 ? "bit" : "bits"}${count === 1 ? "" : " each"}`;
  const words = fields.map(one).join("; ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Return fields drawn at random, packed low bit first. */
function packedFields({ fields }: Anatomy): Uint8Array {
  const bits: number[] = [];
  for (const { count, bits: width, below } of fields) {
    for (let i = 0; i < count; i++) {
      const value = Math.floor(Math.random() * below); // an example, not a report
      for (let bit = 0; bit < width; bit++) bits.push(Math.floor(value / 2 ** bit) % 2);
    }
  }
  const made = new Uint8Array(Math.ceil(bits.length / 8));
  bits.forEach((bit, i) => (made[i >> 3] |= bit << (i & 7)));
  return made;
}

const littleEndian = (value: number, size: number): Uint8Array =>
  Uint8Array.from({ length: size }, (_, i) => Math.floor(value / 256 ** i) % 256);

const unhex = (text: string): Uint8Array =>
  Uint8Array.from(text.match(/[0-9a-f]{2}/g) ?? [], (pair) => parseInt(pair, 16));

function crc32(data: Uint8Array): number {
  let crc = -1;
  for (const byte of data) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
