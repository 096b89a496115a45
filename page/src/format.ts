/** Numbers, times and keys as people read them. */
import type { Key } from "./api.ts";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const count = (value: number): string => whole.format(value);
export const brief = (value: number): string => (value < 10_000 ? count(value) : short.format(value));

/** Return a mean: where people hold sets it is the share that holds the key. */
export function mean(value: number | null | undefined, share: boolean): string {
  if (value === null || value === undefined) return "–";
  const shown = share ? 100 * value : value;
  const size = Math.abs(shown);
  const digits = size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4;
  return shown.toFixed(digits).replace("-", "−") + (share ? " %" : "");
}

/** Return a mean beside an axis, where numbers are round. */
export const tick = (value: number, share: boolean): string =>
  Number((share ? 100 * value : value).toPrecision(3)).toString().replace("-", "−") + (share ? " %" : "");

export function percent(value: number): string {
  const digits = value > 0.999 || value < 0.001 ? 2 : value > 0.99 || value < 0.01 ? 1 : 0;
  return `${(100 * value).toFixed(digits)} %`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; value >= 1000 && at < units.length - 1; at++) value /= 1000;
  return `${value >= 100 || at === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[at]}`;
}

export function ago(seconds: number): string {
  if (seconds < 120) return "just now"; // minutes are all that the collector keeps
  if (seconds < 2 * 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 2 * 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} days ago`;
}

export function duration(seconds: number): string {
  return seconds < 1 ? `${Number((1000 * seconds).toPrecision(2))} ms` : `${Number(seconds.toPrecision(2))} s`;
}

// Controls, and marks that turn the direction of the text around them, would act instead of being seen.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/gu;
const LONGEST = 120;

/** Return a key or a name as text that shows every character, and not too many of them. */
export function visible(key: Key, longest = LONGEST): string {
  const text = String(key);
  const letters = Array.from(text.slice(0, 2 * longest));
  const cut = letters.length > longest || text.length > 2 * longest;
  const shown = (cut ? letters.slice(0, longest) : letters).join("");
  return shown.replace(UNSEEN, escaped) + (cut ? "…" : "") || "(empty)";
}

const escaped = (letter: string): string => `\\u${letter.codePointAt(0)!.toString(16).padStart(4, "0")}`;
