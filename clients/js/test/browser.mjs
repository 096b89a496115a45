// A real page in a real browser: node browser.mjs PAGE COLLECTOR DIGEST. Sends 500 reports through
// reloads, no network, lost answers and pages that go away; prints what it saw as JSON.
//
// PAGE serves dist/ under /demo/; COLLECTOR is another origin that allows the page.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [page_, collector, digest] = process.argv.slice(2);
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
FLAGS.push("--disable-background-networking", "--disable-component-update", "--disable-sync");

const profile = mkdtempSync(join(tmpdir(), "faintly-browser-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: FLAGS,
});

/** Return once the collector has so many reports; the browser does not tell what it still sends. */
async function arrived(count) {
  for (;;) {
    const status = await (await fetch(`${collector}/v1/collections/${digest}`)).json();
    if (status.reports + status.pending >= count) return;
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** Open a page with a client that sends when it is told to. */
async function opened(setUp = () => {}) {
  const page = await browser.newPage();
  await page.addInitScript(setUp);
  await page.goto(`${page_}/demo/`);
  await start(page);
  return page;
}

async function start(page) {
  await page.evaluate(
    async ([server, collection]) => {
      const sender = await import("/demo/sender.js");
      const options = { policy: { digests: [collection] }, delay: null };
      globalThis.client = await sender.fromServer(server, collection, options);
      // Person i holds the keys 0 and 1, and every second one key 2.
      globalThis.sendAll = async (from, to) => {
        for (let i = from; i < to; i++) await client.send(i % 2 ? [0, 1] : [0, 1, 2]);
      };
      globalThis.failure = () => client.flush().then(() => null, (error) => error.code);
    },
    [collector, digest],
  );
}

const send = (page, from, to) => page.evaluate(([a, b]) => sendAll(a, b), [from, to]);
const flush = (page) => page.evaluate(() => failure());
const pending = (page) => page.evaluate(() => client.pending());
const seen = { failures: [], pending: [] };

try {
  // Plainly, and from two pages at once.
  const page = await opened();
  const second = await opened();
  await Promise.all([send(page, 0, 60), send(second, 60, 120)]);
  seen.failures.push(...(await Promise.all([flush(page), flush(second)])));
  seen.pending.push(await pending(page));
  await second.close();

  // Without a network; then a reload, before there was time to send.
  await browser.setOffline(true);
  await send(page, 120, 220);
  seen.failures.push(await flush(page));
  await send(page, 220, 250);
  await browser.setOffline(false);
  await page.reload();
  await start(page);
  seen.pending.push(await pending(page));
  seen.failures.push(await flush(page));

  // The collector counts, but its answer is lost: twice.
  await send(page, 250, 350);
  await browser.route(isReportUrl, async (route) => {
    await route.fetch();
    await route.abort();
  });
  seen.failures.push(await flush(page), await flush(page));
  await browser.unroute(isReportUrl);
  seen.failures.push(await flush(page));

  // Pages that go away before they were told to send.
  for (let start = 350; start < 500; start += 50) {
    const leaving = await opened();
    await send(leaving, start, start + 50);
    await leaving.goto("about:blank");
    await arrived(start + 50);
    await leaving.close();
  }
  seen.failures.push(await flush(page));
  seen.pending.push(await pending(page));

  // One ledger for all pages, with Web Locks and without.
  seen.spent = [];
  for (const setUp of [() => {}, () => Object.defineProperty(navigator, "locks", { value: undefined })]) {
    const pages = await Promise.all([opened(setUp), opened(setUp), opened(setUp)]);
    const pay = (each, name) =>
      each.evaluate(
        async ([server, name]) => {
          const { Client, indexedDBStore } = await import("/demo/sender.js");
          const { digest } = client.plan;
          const plan = await (await fetch(`${server}/v1/collections/${digest}/plan`)).text();
          const policy = { digests: [digest] };
          const store = indexedDBStore(name);
          const mine = new Client(plan, { policy, server, store, limits: { event: 50 }, delay: null });
          const bytes = await mine.report([1], { epoch: 9 });
          return [bytes.join(), (await mine.spent("event"))[0]];
        },
        [collector, name],
      );
    const name = `ledger-${seen.spent.length}`;
    const paid = await Promise.all(pages.map((each) => pay(each, name)));
    seen.spent.push({ reports: new Set(paid.map(([bytes]) => bytes)).size, epsilon: paid[0][1] });
    for (const each of pages) await each.close();
  }

  // A script tag instead of modules.
  const plain = await browser.newPage();
  await plain.goto(`${page_}/demo/script.html`);
  seen.script = await plain.evaluate(() => [typeof Faintly.Client, typeof Faintly.fromServer]);

  // The longest that one report of 16 keys holds the page up, over 100 of them.
  seen.longest_ms = await page.evaluate(async (server) => {
    const { Client } = await import("/demo/index.js");
    const plan = await (await fetch(`${server}/v1/collections/${client.plan.digest}/plan`)).text();
    const encoder = new Client(plan, { policy: { digests: [client.plan.digest] } });
    const keys = Array.from({ length: 16 }, (_, i) => i);
    const times = Array.from({ length: 100 }, () => {
      const start = performance.now();
      encoder.report(keys);
      return performance.now() - start;
    });
    return times.sort((a, b) => a - b)[50];
  }, collector);
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}

function isReportUrl(url) {
  return url.href.includes("/reports?");
}
