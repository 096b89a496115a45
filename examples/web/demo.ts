/** The page: one person's report, what a collector reads from it, and from many. */
import { Client } from "../../clients/js/src/index.ts";
import { secureWords, uniform } from "../../clients/js/src/coins.ts";
import collection from "./plan.json";
import { CHECKSUM_BYTES, HEADER_BYTES, readings, SEED_BYTES } from "./reading.ts";

const WORK_MS = 8; // of each turn, so that the page stays responsive
const [LEAST, MOST] = [-0.15, 0.75]; // shares of people that a bar can show
const SURE = 1.96; // standard errors: 19 times out of 20

const client = new Client(collection, { policy: { epsilon: 1, units: ["event"] } });
const names = [...client.plan.names!.keys()];
const { keep, bits } = collection.parameters;
const chance = keep / 2 ** 32; // that an answer is kept
const scale = 1 / (2 * chance - 1);
// By Bayes' rule, of a belief of one half: without the interest both readings are equally likely.
const [doubted, believed] = [1 - chance, chance].map((likely) => likely / (likely + 0.5));
const picked = new Set<string>(["chess", "jazz"]);

const find = (id: string): HTMLElement => document.getElementById(id)!;
const percent = (share: number, digits = 0): string => `${(100 * share).toFixed(digits)} %`;

/** Return an element of a class with a text. */
function made(tag: string, name: string, text = ""): HTMLElement {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  return element;
}

/** One row of a chart; its parts are moved, not recreated. */
interface Bar {
  readonly row: HTMLElement;
  readonly value: HTMLElement;
  part(name: string, from: number, to?: number): void;
}

/** Return a chart with a row for each name, whose tracks run from the least share to the most. */
function chart(id: string, parts: readonly string[], least: number, most: number): Bar[] {
  return names.map((name) => {
    const row = made("div", "bar");
    const track = made("div", "track");
    const value = made("span", "value");
    const found = new Map(parts.map((part) => [part, made("i", part)]));
    track.append(...found.values());
    row.append(made("span", "name", name), track, value);
    find(id).append(row);
    const place = (share: number) => {
      return `${(100 * (Math.min(most, Math.max(least, share)) - least)) / (most - least)}%`;
    };
    return {
      row,
      value,
      part(part, from, to = from) {
        const { style } = found.get(part)!;
        style.setProperty("--from", place(Math.min(from, to)));
        style.setProperty("--to", place(Math.max(from, to)));
      },
    };
  });
}

const one = chart("one", ["limit low", "limit high", "zero", "fill"], 0, 1);
const many = chart("many", ["zero", "fill", "doubt", "truth"], LEAST, MOST);
one.forEach((bar) => {
  bar.part("limit low", doubted);
  bar.part("limit high", believed);
  bar.part("zero", 0.5);
});
many.forEach((bar) => bar.part("zero", 0));

// The parts of a report, in their order: bytes, class, and what they tell.
const PARTS: readonly [number, string, string][] = [
  [5, "frame", "the format and its version"],
  [16, "frame", "the digest of the plan: which collection this is for"],
  [6, "frame", "the length and the number of records"],
  [SEED_BYTES, "seed", "a public seed, drawn before your device looked at what you like"],
  [bits / 8, "noise", "noisy bits: all that has to do with you"],
  [CHECKSUM_BYTES, "frame", "a checksum of the bytes before"],
];

function showOne(): void {
  const report = client.report(picked);
  find("vector").replaceChildren(
    ...names.flatMap((name) => [made("i", picked.has(name) ? "held" : "", picked.has(name) ? "1" : "0"), " "]),
  );
  let start = 0;
  find("bytes").replaceChildren(
    ...PARTS.flatMap(([length, name]) => {
      const part = report.subarray(start, (start += length));
      return Array.from(part, (byte) => [made("i", name, (byte + 256).toString(16).slice(1)), " "]).flat();
    }),
  );
  const said = readings(report, names.length, bits);
  said.forEach((reading, i) => {
    const belief = reading > 0 ? believed : doubted;
    one[i].row.className = picked.has(names[i]) ? "bar held" : "bar";
    one[i].part("fill", 0.5, belief);
    one[i].value.textContent = percent(belief);
  });
  const right = names.filter((name, i) => picked.has(name) === said[i] > 0).length;
  find("score").textContent = `This time the bars point the right way for ${right} of ${names.length}.`;
}

/** Return made-up interests: the first names are popular, the last are rare. */
function someone(): Set<string> {
  const words = secureWords();
  return new Set(names.filter((_, i) => uniform(100, words) < 45 - 1.8 * i));
}

let run = 0;
async function showMany(): Promise<void> {
  const mine = ++run;
  const people = 10 ** Number((find("people") as HTMLInputElement).value);
  const sums = names.map(() => 0);
  const held = names.map(() => 0);
  for (let done = 0; done < people; ) {
    const until = performance.now() + WORK_MS;
    do {
      const interests = someone();
      readings(client.report(interests), names.length, bits).forEach((reading, i) => (sums[i] += reading));
      names.forEach((name, i) => (held[i] += +interests.has(name)));
    } while (++done < people && performance.now() < until);
    show(done, people, sums, held);
    await new Promise((next) => setTimeout(next));
    if (mine !== run) return; // somebody moved the slider
  }
}

function show(done: number, people: number, sums: readonly number[], held: readonly number[]): void {
  let furthest = 0;
  many.forEach((bar, i) => {
    const mean = (scale * sums[i]) / done;
    const doubt = SURE * Math.sqrt((scale ** 2 - Math.min(1, mean ** 2)) / done);
    bar.part("fill", 0, mean);
    bar.part("doubt", mean - doubt, mean + doubt);
    bar.part("truth", held[i] / done);
    bar.value.textContent = percent(mean);
    furthest = Math.max(furthest, Math.abs(mean - held[i] / done));
  });
  const number = (count: number) => count.toLocaleString("en");
  find("count").textContent = done < people ? `${number(done)} of ${number(people)}` : number(people);
  find("errors").textContent =
    done < people ? "" : `The estimate that is furthest off is off by ${(100 * furthest).toFixed(1)} percentage points.`;
}

for (const name of names) {
  const label = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = picked.has(name);
  box.addEventListener("change", () => {
    if (box.checked) picked.add(name);
    else picked.delete(name);
    showOne();
  });
  label.append(box, name);
  find("interests").append(label);
}
for (const [length, name, text] of PARTS) {
  find("parts").append(made("dt", name, `${length} bytes`), made("dd", "", text));
}
document.querySelectorAll(".least").forEach((each) => (each.textContent = percent(doubted, 1)));
document.querySelectorAll(".most").forEach((each) => (each.textContent = percent(believed, 1)));
find("length").textContent = `${client.report([]).length}`;
find("promise").textContent =
  `${client.plan.mechanism}, which protects each single interest with ε\u00a0=\u00a0${client.plan.epsilon}. Its collection is ${client.plan.digest}.`;
find("again").addEventListener("click", showOne);
find("people").addEventListener("input", () => void showMany());
showOne();
void showMany();
// Once loaded, the page also opens without a network; browsers offer that to secure pages only.
void navigator.serviceWorker?.register("worker.js").catch(() => {});
