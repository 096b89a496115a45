// What is published: sizes, the files that `exports` names, and nothing that names a registry.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import test from "node:test";
import { gzipSync } from "node:zlib";

const root = fileURLToPath(new URL("..", import.meta.url));
const text = (name) => readFileSync(root + name, "utf8");
const size = (name) => gzipSync(readFileSync(root + name), { level: 9 }).length;

test("the encoder has at most 8 KB, the sender at most 6 KB, a mechanism of its own entry 4", () => {
  for (const name of ["dist/index.js", "dist/faintly.min.js"]) assert.ok(size(name) <= 8000, `${size(name)}`);
  for (const name of ["dist/sender.js", "dist/faintly-sender.min.js"]) assert.ok(size(name) <= 6000, `${size(name)}`);
  for (const mechanism of ["orthogonal", "retrieval-gf"]) {
    for (const name of [`dist/${mechanism}.js`, `dist/faintly-${mechanism}.min.js`]) assert.ok(size(name) <= 4000, `${size(name)}`);
  }
});

test("32-bit words and floats are all: no BigInt, no WASM, no other source of randomness", () => {
  for (const name of readdirSync(root + "dist").filter((each) => each.endsWith(".js"))) {
    const forbidden = name === "node.js" ? /BigInt|WebAssembly|Math\.random/ : /BigInt|WebAssembly|Math\.random|node:/;
    assert.doesNotMatch(text(`dist/${name}`), forbidden, name);
  }
});

test("the package has no dependencies, and what its exports name is packed", () => {
  const about = JSON.parse(text("package.json"));
  assert.equal(about.dependencies, undefined);
  assert.deepEqual(about.publishConfig, { access: "public", provenance: true });
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const [packed] = JSON.parse(execFileSync(npm, ["pack", "--dry-run", "--json", "--silent"], { cwd: root, stdio: ["ignore", "pipe", "ignore"] }));
  const names = new Set(packed.files.map(({ path }) => path));
  for (const entry of Object.values(about.exports)) {
    for (const path of typeof entry === "string" ? [entry] : Object.values(entry)) {
      assert.ok(names.has(path.slice(2)), path);
      assert.ok(existsSync(root + path), path);
    }
  }
  for (const name of ["README.md", "LICENSE", "bridge.mjs", "dist/faintly.min.js"]) assert.ok(names.has(name), name);
  assert.ok(![...names].some((name) => /test|src\//.test(name) && !/testing/.test(name)), [...names].join());
});

test("the lock file names no host", () => {
  const lock = text("package-lock.json");
  assert.doesNotMatch(lock, /"resolved"|https?:\/\/(?!opencollective|github|tidelift|patreon)[^"]*registry/);
  assert.match(lock, /"integrity"/);
});

test("the documentation states the sizes that there are", () => {
  const page = text("../../docs/how-to/javascript.md");
  assert.ok(page.includes(`faintly-${JSON.parse(text("package.json")).version}.tgz`));
  const rows = [...page.matchAll(/`(dist\/[\w.-]+)` \| ([\d.]+) KB \|/g)];
  assert.equal(rows.length, 9);
  // Versions of Node compress a little better or worse.
  for (const [, name, stated] of rows) assert.ok(Math.abs(stated - size(name) / 1000) < 0.1, name);
});
