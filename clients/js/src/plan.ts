/** The plan: spec/plan-v1.md. A plan may come from a stranger, so every field is checked. */
import { blake2s } from "./blake2s.ts";
import { hex, isLone, unhex, utf8 } from "./bytes.ts";
import { InvalidPlan } from "./errors.ts";

const FORMAT = "faintly-plan/1";
const OPEN_MAPS = 4; // fewer maps could not outvote a collision with a frequent key

type Fields = Record<string, unknown>;

/** Every public parameter of one collection. */
export interface Plan {
  readonly digest: string;
  readonly unit: string; // event, user or l1:DISTANCE
  readonly distance: number; // of l1, else 0
  readonly epsilon: string;
  readonly delta: string;
  readonly sparsity: number;
  readonly kind: string; // of the universe
  readonly size: number | null; // of the universe; null where it is open
  readonly names: ReadonlyMap<string, number> | null; // and the position of each
  readonly mechanism: string;
  readonly parameters: Readonly<Fields>;
  readonly family: string;
  readonly bits: number;
  readonly maps: number;
  readonly decode: string;
  readonly salt: Uint8Array;
  readonly hash: (key: Uint8Array) => Uint8Array; // under the salt, to the bytes of an id
  readonly values: string; // signed, nonnegative or set
}

/** Refuse a plan unless a rule holds; the specification has the rules of each field. */
export function rule(holds: boolean, field: string): asserts holds {
  if (!holds) throw new InvalidPlan(`the plan's ${field} is not what ${FORMAT} allows`);
}

/** Return the integer of a field, which lies between two bounds. */
export function integer(fields: Fields, name: string, least: number, most: number): number {
  const value = fields[name] as number;
  rule(Number.isInteger(value) && value >= least && value <= most, name);
  return value;
}

/** Return whether a positive integer is a power of two. */
export const isPower = (value: number): boolean => Number.isInteger(Math.log2(value));

/** Refuse an object that has other fields than these. */
export function exactly(fields: unknown, what: string, names: string): asserts fields is Fields {
  rule(isObject(fields) && Object.keys(fields).sort().join() === names, `${what} (${names})`);
}

/** Return the plan that a document holds, as text, bytes or a parsed object. */
export function readPlan(document: string | Uint8Array | object): Plan {
  const fields = parse(document);
  // Without `values` a plan is signed, and may not say so: each plan has one spelling.
  const { values = "signed", format } = isObject(fields) ? fields : {};
  // First, since another format may have other fields.
  rule(format === FORMAT, `format ${JSON.stringify(format)}`);
  exactly(
    fields,
    "object",
    "clients,decode,delta,epsilon,failure,format,hashing,mechanism,parameters,protect,salt,sparsity,universe" +
      (values === "set" || values === "nonnegative" ? ",values" : ""),
  );
  const { decode, parameters, hashing, universe, salt } = fields;
  const epsilon = decimalOf(fields, "epsilon");
  rule(+epsilon > 0 && +epsilon <= 16, "epsilon");
  const delta = decimalOf(fields, "delta");
  rule(+delta < 1, "delta");
  const failure = +decimalOf(fields, "failure");
  rule(failure > 0 && failure < 1, "failure");
  const sparsity = integer(fields, "sparsity", 1, 2 ** 20);
  integer(fields, "clients", 1, 2 ** 40);
  rule(decode === "table" || decode === "direct", "decode");
  rule(/^[0-9a-f]{32}$/.test(textOf(fields, "salt")), "salt");
  exactly(hashing, "hashing", "bits,family,maps");
  rule(isObject(parameters), "parameters");
  const keys = universeOf(universe);
  const bytes = unhex(salt as string);
  return {
    digest: hex(blake2s(16)(utf8(JSON.stringify(fields, sorted)))),
    ...unitOf(fields, sparsity),
    epsilon,
    delta,
    sparsity,
    ...keys,
    mechanism: textOf(fields, "mechanism"),
    parameters,
    ...hashingOf(hashing, keys.size, decode),
    decode,
    salt: bytes,
    hash: blake2s(8, bytes),
    values: values as string,
  };
}

const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function textOf(fields: Fields, name: string): string {
  const text = fields[name];
  rule(typeof text === "string", name);
  return text;
}

/** Return a decimal in the one spelling there is: the shortest that names its float. */
function decimalOf(fields: Fields, name: string): string {
  const text = textOf(fields, name);
  const plain = /^(0|[1-9][0-9]{0,17})(\.[0-9]{1,400})?$/.test(text);
  rule(plain && spelled(+text) === text, name);
  return text;
}

/** Return the shortest decimal of a number, without an exponent. */
export function spelled(value: number): string {
  const [digits, power] = String(value).split("e-");
  return power ? `0.${"0".repeat(+power - 1)}${digits.replace(".", "")}` : digits;
}

function unitOf(fields: Fields, sparsity: number): { unit: string; distance: number } {
  const unit = textOf(fields, "protect");
  const distance = distanceOf(unit);
  if (distance) decimalOf({ protect: unit.slice(3) }, "protect");
  rule(distance >= 0 && distance <= 2 * sparsity, "protect");
  return { unit, distance };
}

/** Return the distance of l1:DISTANCE, 0 of event and user, NaN or less of anything that is not a unit. */
export const distanceOf = (unit: string): number =>
  unit === "event" || unit === "user" ? 0 : Number(/^l1:(.+)/.exec(unit)?.[1]) || NaN;

function universeOf(fields: unknown): Pick<Plan, "kind" | "size" | "names"> {
  const kind = isObject(fields) ? fields.kind : null;
  if (kind === "open") {
    exactly(fields, "universe", "kind");
    return { kind, size: null, names: null };
  }
  if (kind === "indexed") {
    exactly(fields, "universe", "kind,size");
    return { kind, size: integer(fields, "size", 1, 2 ** 31), names: null };
  }
  rule(kind === "named", "universe");
  exactly(fields, "universe", "kind,names");
  const listed = fields.names;
  const isName = (name: unknown) => typeof name === "string" && name && !isLone(name);
  const sound = Array.isArray(listed) && listed.every(isName);
  const names = new Map<string, number>(sound ? listed.map((name, i) => [name, i]) : []);
  rule(sound && names.size === listed.length && names.size > 0, "names");
  return { kind, size: names.size, names };
}

function hashingOf(
  fields: Fields,
  size: number | null,
  decode: string,
): Pick<Plan, "family" | "bits" | "maps"> {
  const family = fields.family;
  if (family !== "linear") {
    rule(family === "prf" || family === "blake2s", "family");
    rule(decode === "direct", "decode");
    return { family, bits: integer(fields, "bits", 0, 0), maps: integer(fields, "maps", 0, 0) };
  }
  const bits = integer(fields, "bits", 1, 31);
  const maps = integer(fields, "maps", size === null ? OPEN_MAPS : 1, 4096);
  rule(isPower(maps), "maps");
  rule(size === null || 2 ** bits >= size, "bits");
  return { family, bits, maps };
}

/** Return what a document holds, having refused what JSON.parse accepts but the format does not. */
function parse(document: string | Uint8Array | object): unknown {
  try {
    if (document instanceof Uint8Array) {
      document = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(document);
    }
    // An object was parsed by somebody else; its own text has no field twice.
    const text = typeof document === "string" ? document : JSON.stringify(document);
    const found: unknown = JSON.parse(text);
    checkTokens(text);
    return found;
  } catch (error) {
    throw error instanceof InvalidPlan ? error : new InvalidPlan("the plan is not JSON");
  }
}

/** Refuse numbers with a fraction or an exponent, and fields that appear twice. */
function checkTokens(text: string): void {
  const open: Set<string>[] = [];
  for (const [token, key, number] of text.matchAll(
    /("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|(-?\d[^\s,\]}]*)|[{}]/g,
  )) {
    if (token === "{") open.push(new Set());
    else if (token === "}") open.pop();
    else if (key) {
      const fields = open[open.length - 1];
      const name: string = JSON.parse(key);
      rule(!fields.has(name), "repeated field");
      fields.add(name);
    } else rule(!/[.eE]/.test(number ?? ""), "number with a fraction");
  }
}

/** Return a value, an object with its fields in the order of their names. */
const sorted = (_: string, value: unknown): unknown =>
  isObject(value)
    ? Object.fromEntries(
        Object.keys(value)
          .sort()
          .map((name) => [name, value[name]]),
      )
    : value;
