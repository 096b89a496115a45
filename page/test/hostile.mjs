// Keys that would do harm if they were more than text: node hostile.mjs BASE DIGEST KEYS, a file of JSON.
import { readFileSync } from "node:fs";
import { opened, tested } from "./browser.mjs";

const [base, digest, file] = process.argv.slice(2);
const keys = JSON.parse(readFileSync(file, "utf8"));

await tested(async (browser) => {
  const { page, seen } = await opened(browser);
  const query = new URLSearchParams(keys.map((key) => ["key", key]));
  await page.goto(`${base}#/c/${digest}?${query}`);
  await page.fill("#candidates", keys.filter((key) => !key.includes("\n")).join("\n"));
  await page.click('button:text-is("Rank these")');
  await page.waitForSelector("#top .bars tbody tr");
  await page.waitForFunction((count) => document.querySelectorAll("#compare .bars tbody tr").length === count, keys.length);
  await page.click(".collisions summary");
  await page.waitForSelector(".collisions p");
  const told = await page.evaluate(() => {
    const numbers = (row, kind) => {
      const cell = row.querySelector(`td.number.${kind}`);
      return cell && ["mean", "low", "high"].map((name) => Number(cell.dataset[name]));
    };
    const along = (shape, ...names) => shape && names.map((name) => parseFloat(shape.getAttribute(name)));
    const rows = [...document.querySelectorAll("#top .bars tbody tr")];
    return {
      rows: rows.map((row) => ({
        key: row.dataset.key,
        front: numbers(row, "front"),
        behind: numbers(row, "behind"),
        lines: { back: along(row.querySelector("line.interval.back"), "x1", "x2") },
        floor: along(row.querySelector("rect.floor"), "x", "width"),
      })),
      keys: rows.map((row) => row.dataset.key),
      shown: [...document.querySelectorAll("h1, .name")].map((each) => each.textContent),
      added: { img: document.images.length, script: document.scripts.length },
      width: document.documentElement.scrollWidth,
      collisions: document.querySelector(".collisions").textContent,
    };
  });
  await page.goto(base); // the name of the collection
  await page.waitForSelector(".line");
  told.shown.push(await page.textContent(".line > a"));
  return { ...told, errors: seen.errors, dialogs: seen.dialogs };
});
