// The example page in a browser: node example.mjs COLLECTOR. Prints what it saw as JSON.
import { chromium } from "playwright-core";

const [collector] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
});
try {
  const page = await browser.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (said) => said.type() === "error" && errors.push(said.text()));
  await page.goto(`${collector}/demo`);
  await page.waitForSelector("#many svg");
  await page.context().setOffline(true);
  const bytes = () => page.textContent("#bytes");
  const before = await bytes();
  await page.click("#again");
  const after = await bytes();
  const lengths = [before.length, after.length];
  for (const box of await page.$$("#interests input")) await box.check();
  lengths.push((await bytes()).length);
  if (process.argv[3]) await page.screenshot({ path: process.argv[3], fullPage: true });
  const names = (await page.$$("#interests label")).length;
  const bars = (await page.$$("#one svg")).length;
  console.log(JSON.stringify({ errors, before, after, lengths, names, bars }));
} finally {
  await browser.close();
}
