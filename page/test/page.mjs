// The page of a real collector in a real browser: node page.mjs BASE DIGEST HOSTILE FOLDER. Prints what it saw
// as JSON; tests/system/test_page.py compares it with the collector's own answers. FOLDER gets files and pictures.
//
// BASE is where the page is, a path below another server's included. The collector has no credentials.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createRequire } from "node:module";
import { opened, PATIENCE, tested } from "./browser.mjs";

const [base, digest, hostile, folder] = process.argv.slice(2);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const one = `${base}#/c/${digest}`;

/** Return what axe finds that is serious. The page's policy keeps out all scripts but its own. */
async function axe(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(" ")).slice(0, 3)}`);
}

/** Return the rows of a table of bars: the numbers, and where the lines stand that are drawn for them. */
const rowsOf = (page, card) =>
  page.$$eval(`#${card} .bars tbody tr`, (rows) =>
    rows.map((row) => {
      const cell = (kind) => {
        const found = row.querySelector(`td.number.${kind}`);
        return found && ["mean", "low", "high"].map((name) => Number(found.dataset[name]));
      };
      const line = (kind) => {
        const found = row.querySelector(`line.interval.${kind}`);
        return found && ["x1", "x2"].map((name) => parseFloat(found.getAttribute(name)));
      };
      const floor = row.querySelector("rect.floor");
      return {
        key: row.dataset.key,
        front: cell("front"),
        behind: cell("behind"),
        lines: { front: line("front"), back: line("back") },
        floor: ["x", "width"].map((name) => parseFloat(floor.getAttribute(name))),
      };
    }),
  );

async function saved(page, card, name) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(`#${card} .exports button:text-is("${name}")`)]);
  const path = join(folder, download.suggestedFilename());
  await download.saveAs(path);
  return path;
}

const drawn = (page, card) => page.waitForSelector(`#${card} .bars tbody tr`);
const picture = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

await tested(async (browser) => {
  const told = { axe: {} };
  const { page, seen, context } = await opened(browser);

  // The list, and from it to one collection.
  await page.goto(base);
  await page.waitForSelector(".collections .line");
  told.list = await page.$$eval(".line > a", (links) => links.map((link) => link.textContent));
  await page.waitForFunction(() => !/…$/.test(document.querySelector(".line dd:last-child")?.textContent ?? "…"));
  told.axe.list = await axe(page);
  await picture(page, "list");
  await page.click('.line > a:has-text("npm packages")');

  // The top list as the interface has it.
  await drawn(page, "top");
  await page.waitForSelector(".chart svg");
  told.top = await rowsOf(page, "top");
  told.threshold = Number(await page.getAttribute("[data-threshold]", "data-threshold"));
  told.counted = await page.textContent("#sealed dd");
  told.axe.collection = await axe(page);
  told.saved = [];
  for (const name of ["CSV", "Parquet", "PNG"]) told.saved.push(await saved(page, "top", name));
  await page.click('button:text-is("By epoch")');
  await page.waitForFunction(() => location.hash.includes("by=epoch"));
  await page.selectOption("#top select", "all");
  await page.waitForFunction(() => document.querySelector("#top .found")?.textContent.includes("60,000 reports"));
  await picture(page, "collection");
  await page.selectOption("#top select", "");

  // Look for keys by keyboard alone; every view has an address, which shows the same to somebody else.
  await page.focus("#compare input");
  for (const key of ["lodash", "react"]) {
    await page.keyboard.type(key);
    await page.keyboard.press("Enter");
    await page.waitForFunction((wanted) => location.hash.includes(`key=${wanted}`), key);
  }
  await page.waitForFunction(() => document.querySelectorAll("#compare .bars tbody tr").length === 2);
  await page.waitForSelector("#compare .chart svg");
  told.compared = await rowsOf(page, "compare");
  told.saved.push(await saved(page, "compare", "Parquet"));
  told.history = await page.getAttribute("#compare .chart svg", "aria-label");
  await page.locator("#compare .exports").last().locator('button:text-is("PNG")').waitFor();
  await page.locator("#compare").screenshot({ path: join(folder, "compare.png") });
  const colleague = await opened(browser);
  await colleague.page.goto(page.url());
  await drawn(colleague.page, "compare");
  told.sent = await rowsOf(colleague.page, "compare");
  await colleague.context.close();

  // Candidates, and a key that is not there.
  await page.click("#top summary");
  await page.fill("#candidates", "lodash\nreact\nexpress");
  await page.click('button:text-is("Rank these")');
  await page.waitForFunction(() => document.querySelectorAll("#top .bars tbody tr").length === 3);
  told.candidates = await rowsOf(page, "top");
  await page.goto(`${one}?key=no-such-package`);
  told.unknown = await page.textContent("#compare .trouble");

  // The plan.
  await page.goto(`${one}/plan`);
  await page.waitForSelector("#after");
  await page.fill("#prior", "0.2");
  told.belief = await page.$eval("#after", ({ dataset }) => [Number(dataset.least), Number(dataset.most)]);
  told.bytes = await page.$$eval(".bytes code", (codes) => codes.map((code) => code.textContent).join(" "));
  await page.waitForSelector(".chart svg");
  told.axe.plan = await axe(page);
  await picture(page, "plan");

  // Health, and an address that leads nowhere.
  await page.goto(`${base}#/health`);
  await page.waitForSelector("#disk");
  told.health = await page.$$eval(".figure dt", (names) => names.map((name) => name.textContent));
  told.axe.health = await axe(page);
  await page.goto(`${base}#/nowhere`);
  told.nowhere = await page.textContent(".empty");
  await page.goto(`${base}#/c/${"0".repeat(32)}`);
  told.missing = await page.textContent(".trouble");
  await page.goto(`${base}docs`);
  await page.waitForSelector("details");
  told.docs = await page.evaluate(() => (document.querySelector("script").remove(), document.body.textContent));
  told.errors = seen.errors.splice(0).filter((text) => !text.includes("status of 4")); // as asked for
  told.hosts = [...seen.hosts];

  // Keys and names that would do harm if they were more than text.
  await page.goto(`${base}#/c/${hostile}`);
  await page.waitForSelector("#top .empty");
  told.hostile = { title: await page.textContent("h1") };
  await context.close();

  // A phone, by night, on a slow network.
  const phone = await opened(browser, { viewport: { width: 360, height: 740 }, colorScheme: "dark", isMobile: true, hasTouch: true });
  const session = await phone.context.newCDPSession(phone.page);
  await session.send("Network.enable");
  const slow = { offline: false, latency: 150, downloadThroughput: 50_000, uploadThroughput: 50_000 };
  await session.send("Network.emulateNetworkConditions", slow);
  await phone.page.goto(`${one}?key=lodash`, { waitUntil: "commit" });
  await phone.page.waitForSelector('[role="status"], .first, .bars');
  await drawn(phone.page, "top");
  await phone.page.waitForSelector("#compare .bars");
  told.phone = {
    width: await phone.page.evaluate(() => document.documentElement.scrollWidth),
    background: await phone.page.evaluate(() => getComputedStyle(document.body).backgroundColor),
  };
  await phone.page.waitForSelector(".chart svg");
  told.axe.phone = await axe(phone.page);
  await picture(phone.page, "phone");
  for (const where of [`#/c/${digest}/plan`, "#/health", ""]) {
    await phone.page.goto(base + where);
    await phone.page.waitForSelector(".card");
    told.phone.width = Math.max(told.phone.width, await phone.page.evaluate(() => document.documentElement.scrollWidth));
  }

  // The collector goes away: the numbers stay, and the page says so.
  await session.send("Network.emulateNetworkConditions", { ...slow, offline: true });
  await phone.page.waitForSelector(".trouble", { timeout: PATIENCE });
  told.offline = await phone.page.textContent(".trouble");
  await phone.context.close();
  return told;
});
