// How soon a first view is there: node many.mjs BASE DIGEST [TURNS]. Prints the median of the turns, in seconds.
import { opened, tested } from "./browser.mjs";

const [base, digest, turns = "1"] = process.argv.slice(2);
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Return the seconds from the address to the first rows, in a browser that never saw the page. */
async function timed(browser, hash, row) {
  const { page, context } = await opened(browser);
  const start = performance.now();
  await page.goto(base + hash, { waitUntil: "commit" });
  await page.waitForSelector(row);
  const seconds = (performance.now() - start) / 1000;
  const rows = await page.locator(row).count();
  return { page, context, seconds, rows };
}

await tested(async (browser) => {
  const told = { lists: [], tops: [] };
  for (let turn = 0; turn < Number(turns); turn++) {
    const list = await timed(browser, "#/", ".line");
    told.lists.push(list.seconds);
    told.collections = list.rows;
    await list.context.close();
    const top = await timed(browser, `#/c/${digest}?count=10000`, "#top .bars tbody tr");
    told.tops.push(top.seconds);
    const all = await top.page.textContent(".pages span"); // once the others are there, too
    told.rows = { first: top.rows, all: Number(all.split(" of ")[1].replace(",", "")) };
    await top.context.close();
  }
  return { ...told, list_s: median(told.lists), top_s: median(told.tops) };
});
