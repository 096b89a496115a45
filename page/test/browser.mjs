// Chromium for the tests of the page, and what every test of it watches.
import { chromium } from "playwright-core";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"];
FLAGS.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
export const PATIENCE = 180_000; // a busy machine is slow; nothing waits for this long otherwise

/** Run work with a browser, and print what it returns as JSON. */
export async function tested(work) {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  try {
    console.log(JSON.stringify(await work(browser)));
  } finally {
    await browser.close();
  }
}

/** Open a page of its own session, whose errors and requests to others are noted. */
export async function opened(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, acceptDownloads: true, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const seen = { errors: [], hosts: new Set(), dialogs: 0 };
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => request.url().startsWith("http") && seen.hosts.add(new URL(request.url()).host));
  page.on("dialog", (dialog) => (seen.dialogs++, dialog.dismiss()));
  return { page, context, seen };
}
