// Build dist/: an ESM file for each entry, two files for script tags, and types.
// With --check, build elsewhere and compare with what is committed.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const check = process.argv.includes("--check");
const out = check ? mkdtempSync(join(tmpdir(), "faintly-build-")) : join(here, "dist");
const shared = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  charset: "utf8",
  target: "es2022",
  legalComments: "none",
};

// The sender does not carry a second encoder: a module imports it, a script finds the global.
const outside = (filter, path) => ({
  name: "outside",
  setup(made) {
    made.onResolve({ filter }, () => ({ path, external: true }));
  },
});
const encoder = /^\.\.\/index\.ts$/;
const fromGlobal = {
  name: "from-global",
  setup(made) {
    made.onResolve({ filter: encoder }, () => ({ path: "encoder", namespace: "global" }));
    made.onLoad({ filter: /.*/, namespace: "global" }, () => ({ contents: "module.exports = Faintly" }));
  },
};

const modules = {
  index: { entryPoints: ["src/index.ts"] },
  sender: { entryPoints: ["src/sender/index.ts"], plugins: [outside(encoder, "./index.js")] },
  node: {
    entryPoints: ["src/node.ts"],
    platform: "node",
    plugins: [outside(/^\.\/sender\/index\.ts$/, "./sender.js")],
  },
  testing: { entryPoints: ["src/testing.ts"] },
};
for (const [name, given] of Object.entries(modules)) {
  await build({ ...shared, format: "esm", outfile: join(out, `${name}.js`), ...given });
}
// For script tags: both add their names to the one global, Faintly.
const scripts = { "faintly.min": "./src/index.ts", "faintly-sender.min": "./src/sender/index.ts" };
for (const [name, source] of Object.entries(scripts)) {
  const contents = `import * as own from "${source}"; globalThis.Faintly = {...globalThis.Faintly, ...own};`;
  await build({
    ...shared,
    stdin: { contents, resolveDir: here },
    outfile: join(out, `${name}.js`),
    format: "iife",
    plugins: [fromGlobal],
  });
}
const tsc = join(here, "node_modules/typescript/bin/tsc");
execFileSync(process.execPath, [tsc, "-p", here, "--outDir", join(out, "types")], { stdio: "inherit" });
const page = join(here, "../../examples/web");
const pageOut = check ? join(out, "demo.js") : join(page, "demo.js");
if (existsSync(join(page, "demo.ts"))) {
  await build({ ...shared, entryPoints: [join(page, "demo.ts")], outfile: pageOut, format: "esm" });
}

function files(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}

if (check) {
  const committed = join(here, "dist");
  const pairs = files(out).map((name) =>
    name === "demo.js" ? [pageOut, join(page, name)] : [join(out, name), join(committed, name)],
  );
  const stale = pairs.filter(
    ([made, kept]) => !existsSync(kept) || !readFileSync(made).equals(readFileSync(kept)),
  );
  const known = new Set(files(out));
  const left = files(committed).filter((name) => !known.has(name));
  rmSync(out, { recursive: true });
  if (stale.length || left.length) {
    console.error("not what the sources make:", ...stale.map(([, kept]) => kept), ...left);
    console.error("run: npm run build, and commit the result");
    process.exit(1);
  }
  console.log(`${pairs.length} built files are as committed`);
}
