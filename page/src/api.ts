/** The collector's own interface, as docs/reference/http.md describes it. */

export type Key = string | number;

export interface Row {
  key: Key;
  mean: number;
  stderr: number;
  low: number;
  high: number;
  low_all: number;
  high_all: number;
  posterior_mean?: number | null;
  posterior_low?: number | null;
  posterior_high?: number | null;
  significant?: boolean;
  verdict?: string;
}

export interface Estimates {
  epoch: number | "all";
  version: string;
  reports: number;
  pending: number;
  level: number;
  noise_floor: number;
  noise_floor_all: number;
  notes: string[];
  estimates: Row[];
  posterior?: { population: string; notes: string[] };
}

export interface Top extends Estimates {
  threshold: number | null;
  compared: number;
}

export interface Arriving {
  digest: string;
  name: string;
  state: "open" | "closed";
  guarantee: string;
  universe: "indexed" | "named" | "open";
  keys: number | null;
  values: "signed" | "nonnegative" | "set";
  reports: number;
  pending: number;
  last_report: number | null;
  hours: number[];
}

export interface Health {
  reports: number;
  refusals: Record<string, number>;
  failed: number;
  last_seal: number | null;
  waiting: number;
  pending: number;
  pending_bytes: number;
  disk_free: number;
  disk_total: number;
  waits: [number | null, number][];
}

export interface Activity {
  now: number;
  health: Health;
  collections: Arriving[];
}

export interface Epoch {
  epoch: number;
  state: string;
  reports: number;
  pending: number;
}

export interface Status {
  digest: string;
  name: string;
  state: "open" | "closed";
  mechanism: string;
  universe: string;
  guarantee: string;
  reports: number;
  pending: number;
  period_s: number | null;
  epochs: Epoch[];
}

export interface Anatomy {
  unit: string;
  epsilon: number;
  delta: number;
  strength: "sound" | "weak" | "none";
  short: string;
  guarantee: string;
  theorem: string;
  conditions: string[];
  header_bytes: number;
  seed_bytes: number;
  fields: { count: number; bits: number; below: number }[];
  record_bytes: number;
  checksum_bytes: number;
}

/** What the collector refused, or that it did not answer (status 0). */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

// The page may be served under any path; addresses begin where it is.
const BASE = new URL("./", location.href.replace(/#.*/, ""));
const JSON_TYPE = "application/json";
export const PARQUET = "application/vnd.apache.parquet";

export interface Call {
  method?: string;
  body?: unknown;
  accept?: string;
  signal?: AbortSignal;
}

/** Return the answer at an address, or throw `Refused`. */
export async function call(path: string, { method, body, accept = JSON_TYPE, signal }: Call = {}): Promise<Response> {
  const sent: RequestInit = { method: method ?? (body === undefined ? "GET" : "POST"), headers: { accept } };
  if (signal) sent.signal = signal;
  if (body !== undefined) {
    sent.body = JSON.stringify(body);
    sent.headers = { accept, "content-type": JSON_TYPE };
  }
  let answer: Response;
  try {
    answer = await fetch(new URL(path, BASE), sent);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, "UNREACHABLE", "The collector does not answer.", "Is it running, and are you online?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  const words = told.message ?? `The answer was ${answer.status}, from something that is not a collector.`;
  throw new Refused(answer.status, told.code ?? "INTERNAL", words, told.hint ?? "Ask whoever runs it.");
}

/** Return the JSON at an address. */
export async function ask<Answer>(path: string, how: Call = {}): Promise<Answer> {
  return (await call(path, how)).json();
}

export const activity = (signal?: AbortSignal) => ask<Activity>("v1/activity", { signal });
export const pathOf = (digest: string) => `v1/collections/${encodeURIComponent(digest)}`;
