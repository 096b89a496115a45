/** The page: one person's report, what a server reads from it, and from many. */
import { Client } from "../../clients/js/src/index.ts";
import { secureWords, uniform } from "../../clients/js/src/coins.ts";
import { COIN, EQUATION, parity, prf, type Wide } from "../../clients/js/src/hashing.ts";
import collection from "./plan.json";

const HEADER_BYTES = 27;
const SEED_BYTES = 5;
const CHUNK = 25; // people between two frames, so that the page never stands still

const client = new Client(collection, { policy: { epsilon: 1, units: ["event"] } });
const names = [...client.plan.names!.keys()];
const { keep, bits } = collection.parameters;
const scale = 2 ** 32 / (2 * keep - 2 ** 32);
const find = <T extends Element>(id: string) => document.getElementById(id) as unknown as T;
const picked = new Set<string>(["chess", "jazz"]);

/** Return what one report says about each name, +1 or -1: spec/retrieval-v1.md, section 8. */
function readings(report: Uint8Array): number[] {
  const record = report.subarray(HEADER_BYTES, -4);
  const view = new DataView(record.slice().buffer);
  const seed: Wide = [view.getUint32(0, true), record[4]];
  const payload = record.slice(SEED_BYTES);
  return names.map((_, id) => {
    let odd = prf(seed, [id, 0], COIN, 0) & 1;
    for (let w = 0; 32 * w < bits; w++) {
      const row = prf(seed, [id, 0], EQUATION, w);
      for (let byte = 0; byte < 4; byte++) {
        const at = 4 * w + byte;
        const width = Math.min(8, bits - 8 * at);
        if (width <= 0) break;
        odd ^= parity(((row >>> (8 * byte)) & payload[at]) & (2 ** width - 1));
      }
    }
    return 1 - 2 * odd;
  });
}

/** Draw a bar from the middle for each name, and a line where the truth is. */
function bars(id: string, values: readonly number[], most: number, truth?: readonly number[]): void {
  find<HTMLElement>(id).replaceChildren(
    ...values.flatMap((value, i) => {
      const label = document.createElement("span");
      label.textContent = names[i];
      const at = (x: number) => 50 + (50 * Math.max(-most, Math.min(most, x))) / most;
      const [left, right] = [Math.min(50, at(value)), Math.max(50, at(value))];
      const holder = document.createElement("div");
      const line = truth
        ? `<rect x="${at(truth[i]) - 0.3}" width="0.6" height="20" fill="#1b1f24"/>`
        : "";
      // Numbers alone come here, so that there is nothing to escape.
      holder.innerHTML =
        `<svg viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="${value.toFixed(2)}">` +
        `<rect x="50" width="0.2" height="20" fill="#b8b2a4"/>` +
        `<rect x="${left}" width="${right - left}" y="4" height="12" fill="#4a7fb5"/>${line}</svg>`;
      return [label, holder];
    }),
  );
}

function showOne(): void {
  const report = client.report(picked);
  find<HTMLElement>("vector").textContent = JSON.stringify([...picked].sort());
  find<HTMLElement>("bytes").textContent = Array.from(report, (byte) =>
    (byte + 256).toString(16).slice(1),
  ).join(" ");
  bars("one", readings(report), 2);
}

/** Return made-up interests: the first names are popular, the last are rare. */
function someone(): Set<string> {
  const words = secureWords();
  return new Set(names.filter((_, i) => uniform(100, words) < 45 - 1.8 * i));
}

let run = 0;
async function showMany(): Promise<void> {
  const mine = ++run;
  const people = 10 ** Number(find<HTMLInputElement>("people").value);
  find<HTMLElement>("count").textContent = `${people}`;
  const sums = names.map(() => 0);
  const held = names.map(() => 0);
  for (let done = 0; done < people; done++) {
    const interests = someone();
    readings(client.report(interests)).forEach((reading, i) => (sums[i] += reading));
    names.forEach((name, i) => (held[i] += +interests.has(name)));
    if (done % CHUNK === CHUNK - 1 || done === people - 1) {
      bars("many", sums.map((sum) => (scale * sum) / (done + 1)), 1, held.map((count) => count / (done + 1)));
      await new Promise((next) => setTimeout(next));
      if (mine !== run) return; // somebody moved the slider
    }
  }
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
  label.append(box, ` ${name}`);
  find<HTMLElement>("interests").append(label);
}
const chance = keep / 2 ** 32;
find<HTMLElement>("chance").textContent = `${(100 * chance).toFixed(1)} %`;
find<HTMLElement>("promise").textContent =
  `Whatever you pick, these are ${client.report([]).length} bytes. Whoever thought an interest as likely ` +
  `as not can be at most ${(100 * chance).toFixed(1)} % sure of it afterwards (epsilon ${client.plan.epsilon}).`;
find<HTMLElement>("again").addEventListener("click", showOne);
find<HTMLElement>("people").addEventListener("input", showMany);
showOne();
void showMany();
