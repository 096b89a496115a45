// The example page in a browser: node example.mjs COLLECTOR [PICTURE]. Prints what it saw as JSON.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [collector, picture] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "faintly-example-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
  timeout: 0, // the caller waits as long as it will
});
browser.setDefaultTimeout(0);
try {
  const page = await browser.newPage();
  const errors = [];
  const requests = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (said) => said.type() === "error" && errors.push(said.text()));
  page.on("request", (request) => requests.push(`${request.method()} ${new URL(request.url()).pathname}`));
  const bytes = async () => (await page.textContent("#bytes")).replaceAll(/\s/g, "");
  const finished = () => page.waitForFunction(() => document.getElementById("errors").textContent);
  const seen = { errors, requests, lengths: [] };

  await page.goto(`${collector}/demo`);
  await finished();
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
  await browser.setOffline(true);
  seen.before = await bytes();
  await page.click("#again");
  seen.after = await bytes();
  seen.lengths.push(seen.before.length, seen.after.length);
  for (const name of await page.$$("#interests label:not(:has(:checked))")) await name.click();
  seen.lengths.push((await bytes()).length);
  seen.vector = (await page.textContent("#vector")).replaceAll(/\s/g, "");
  seen.names = await page.locator("#interests label").count();
  seen.bars = [await page.locator("#one .bar").count(), await page.locator("#many .bar").count()];

  // Once it was loaded it also opens without a network, and on a phone nothing is cut off.
  await page.setViewportSize({ width: 360, height: 740 });
  await page.reload();
  await finished();
  seen.reloaded = (await bytes()).length;
  seen.width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (picture) await page.screenshot({ path: picture, fullPage: true });
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
