// Signing in, and reports that arrive while somebody looks: node live.mjs BASE DIGEST BODY SUBMIT READ ADMIN.
// BODY is a file with a batch, the others are secrets of these roles.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { opened, tested } from "./browser.mjs";

const [base, digest, file, submit, read, admin] = process.argv.slice(2);
const where = `${base}v1/collections/${digest}`;
const asRole = (secret, extra = {}) => ({ method: "POST", headers: { authorization: `Bearer ${secret}` }, ...extra });

await tested(async (browser) => {
  const told = {};
  const { page, seen, context } = await opened(browser);
  await page.goto(`${base}#/c/${digest}`);
  const signIn = async (secret) => {
    await page.fill("#credential", secret);
    await page.keyboard.press("Enter");
  };
  await signIn("wrong");
  told.wrong = await page.textContent(".trouble");
  await signIn(submit);
  await page.waitForFunction(() => document.querySelector(".trouble")?.textContent.includes("NOT_ALLOWED"));
  told.submit = await page.textContent(".trouble");
  await signIn(read);
  told.empty = await page.textContent(".empty p"); // the view that was asked for, without a detour

  const query = `request=${randomBytes(16).toString("hex")}`;
  const sent = await fetch(`${where}/reports?${query}`, asRole(submit, { body: readFileSync(file) }));
  if (!sent.ok) throw new Error(await sent.text());
  await page.waitForFunction(() => document.querySelector("#pending dd").firstChild.textContent === "300");
  told.pending = await page.$eval("#pending dd", (cell) => cell.firstChild.textContent);
  told.first = await page.textContent(".empty p");
  await fetch(`${where}/seal`, asRole(admin));
  await page.waitForSelector("#top .bars tbody tr"); // by itself, without a reload
  told.sealed = await page.textContent("#sealed dd");

  told.readable = await page.evaluate(() => ({ cookie: document.cookie, stored: localStorage.length + sessionStorage.length }));
  told.cookies = await context.cookies();
  told.statuses = await page.evaluate(async (digest) => {
    const status = async (path, method) => (await fetch(path, { method })).status;
    return {
      delete: await status(`v1/collections/${digest}?confirm=${digest}`, "DELETE"),
      seal: await status(`v1/collections/${digest}/seal`, "POST"),
      list: await status("v1/collections", "GET"),
    };
  }, digest);
  // A page of another site that has the cookie, which browsers do not let happen, gets nothing for it.
  const header = told.cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
  const foreign = { cookie: header, "sec-fetch-site": "cross-site" };
  told.statuses.foreign = (await fetch(`${base}v1/collections`, { headers: foreign })).status;
  await page.reload();
  await page.waitForSelector("#top .bars tbody tr");
  await page.click('button:text-is("Sign out")');
  await page.waitForSelector("#credential");
  told.form = await page.locator("#credential").count();
  told.statuses.out = (await fetch(`${base}v1/collections`, { headers: { cookie: header } })).status;
  return { ...told, errors: seen.errors };
});
