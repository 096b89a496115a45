// A real page in a real browser: node browser.mjs PAGE COLLECTOR DIGEST. Sends 500 reports through
// reloads, no network, lost answers and pages that go away; prints what it saw as JSON.
//
// PAGE serves dist/ under /demo/; COLLECTOR is another origin that allows the page.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [page_, collector, digest] = process.argv.slice(2);
const large = JSON.parse(readFileSync(new URL("large_plans.json", import.meta.url), "utf8"));
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
FLAGS.push("--disable-background-networking", "--disable-component-update", "--disable-sync");

const profile = mkdtempSync(join(tmpdir(), "faintly-browser-"));
const program = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: program,
  headless: true,
  args: FLAGS,
  timeout: 0, // the caller waits as long as it will
});
browser.setDefaultTimeout(0);

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
    const payOnce = (each, name) =>
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
    const paid = await Promise.all(pages.map((each) => payOnce(each, name)));
    seen.spent.push({ reports: new Set(paid.map(([bytes]) => bytes)).size, epsilon: paid[0][1] });
    for (const each of pages) await each.close();
  }

  // Script tags instead of modules; the third adds a mechanism.
  const plain = await browser.newPage();
  await plain.goto(`${page_}/demo/script.html`);
  seen.script = await plain.evaluate(
    async ([plan, server]) => {
      const client = new Faintly.Client(plan, { policy: { epsilon: 16, units: ["event"] }, server });
      return [typeof Faintly.fromServer, (await client.report([1])) instanceof Uint8Array];
    },
    [large["retrieval-gf"], collector],
  );

  // The storage is full: a typed error, nothing charged, nothing lost, and all is well once there is room.
  // Chromium remembers for a while how much room there was, so this is another browser.
  const fresh = await chromium.launch({ executablePath: program, args: FLAGS, timeout: 0 });
  try {
    const other = await fresh.newPage();
    other.setDefaultTimeout(0);
    await other.goto(`${page_}/demo/`);
    const session = await other.context().newCDPSession(other);
    const origin = page_;
    await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 1 });
    await other.evaluate(
      async ([server, digest]) => {
        const { fromServer } = await import("/demo/sender.js");
        const options = { policy: { digests: [digest] }, limits: { event: 9 }, delay: null };
        globalThis.client = await fromServer(server, digest, options);
      },
      [collector, digest],
    );
    const pay = () =>
      other.evaluate(async () => {
        const failed = await client.send([1]).then(() => null, ({ name, message }) => [name, message]);
        return [failed, await client.spent("event"), await client.pending()];
      });
    seen.full = [await pay()];
    await session.send("Storage.overrideQuotaForOrigin", { origin });
    seen.full.push(await pay());
  } finally {
    await fresh.close();
  }

  // How long one report of 16 keys holds the page up, for each mechanism. The best of many counts: in others
  // the machine had something else to do.
  seen.blocked_ms = await page.evaluate(async (plans) => {
    const { Client } = await import("/demo/index.js");
    await import("/demo/orthogonal.js");
    await import("/demo/retrieval-gf.js");
    const keys = Array.from({ length: 16 }, (_, i) => i);
    return Object.entries(plans).map(([name, plan]) => {
      const client = new Client(plan, { policy: { epsilon: 16, units: [plan.protect] } });
      const times = Array.from({ length: 50 }, () => {
        const start = performance.now();
        client.report(keys);
        return performance.now() - start;
      });
      return [name, Math.min(...times)];
    });
  }, large);

  // The same for a page's first client and its first report, whose code no engine has compiled yet: the best of three
  // new pages counts.
  seen.first_ms = [];
  for (const [name, plan] of Object.entries(large).filter(([name]) => name.startsWith("planned-16"))) {
    const tries = [];
    for (let i = 0; i < 3; i++) {
      const fresh = await browser.newPage();
      await fresh.goto(`${page_}/demo/`);
      tries.push(
        await fresh.evaluate(async (plan) => {
          const { Client } = await import("/demo/index.js");
          await import("/demo/orthogonal.js");
          await import("/demo/retrieval-gf.js");
          const keys = Array.from({ length: 16 }, (_, i) => i);
          const [start, policy] = [performance.now(), { epsilon: 16, units: [plan.protect] }];
          const client = new Client(plan, { policy });
          const made = performance.now();
          client.report(keys);
          return [made - start, performance.now() - made];
        }, plan),
      );
      await fresh.close();
    }
    seen.first_ms.push([name, ...[0, 1].map((part) => Math.min(...tries.map((each) => each[part])))]);
  }
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}

function isReportUrl(url) {
  return url.href.includes("/reports?");
}
