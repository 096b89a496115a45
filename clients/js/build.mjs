// Build dist/: an ESM file for each entry, files for script tags, and types.
// With --check, build elsewhere and compare with what is committed.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { minify } from "terser";

const here = dirname(fileURLToPath(import.meta.url));
const check = process.argv.includes("--check");
const out = check ? mkdtempSync(join(tmpdir(), "faintly-build-")) : join(here, "dist");
const shared = {
  absWorkingDir: here,
  bundle: true,
  minifySyntax: true,
  charset: "utf8",
  target: "es2022",
  legalComments: "none",
};

// What a bundle takes from another one: a module imports it, a script finds it in the global Faintly.
const encoder = { filter: /^\.\.\/index\.ts$/, path: "./index.js" };
const register = { filter: /^\.\.?\/(index|errors)\.ts$/, path: "./index.js" };
const sender = { filter: /^\.\/sender\/index\.ts$/, path: "./sender.js" };
const modules = {
  index: { entry: "src/index.ts", script: "faintly.min" },
  sender: { entry: "src/sender/index.ts", from: encoder, script: "faintly-sender.min" },
  // These have copies of the functions that they need; errors and names must be those of the encoder.
  orthogonal: { entry: "src/orthogonal.ts", from: register, script: "faintly-orthogonal.min" },
  "retrieval-gf": { entry: "src/retrieval_gf.ts", from: register, script: "faintly-retrieval-gf.min" },
  node: { entry: "src/node.ts", from: sender },
  testing: { entry: "src/testing.ts" },
};

const outside = ({ filter, path }) => ({
  name: "outside",
  setup(made) {
    made.onResolve({ filter }, () => ({ path, external: true }));
  },
});
const fromGlobal = ({ filter }, names) => ({
  name: "from-global",
  setup(made) {
    made.onResolve({ filter }, () => ({ path: "encoder", namespace: "global" }));
    made.onLoad({ filter: /.*/, namespace: "global" }, () => ({
      contents: `export const {${names}} = Faintly`,
    }));
  },
});

/** Bundle, then minify: terser's output is a twentieth smaller than that of esbuild. */
async function bundle(options) {
  await build({ ...shared, ...options });
  const { code } = await minify(readFileSync(options.outfile, "utf8"), {
    module: options.format === "esm",
    ecma: 2020,
    // Smaller by some bytes once it is gzipped; no property that is read here does anything.
    compress: { passes: 3, hoist_funs: true, inline: 0, pure_getters: true },
  });
  writeFileSync(options.outfile, code + "\n");
}

for (const [name, { entry, from }] of Object.entries(modules)) {
  await bundle({
    entryPoints: [entry],
    outfile: join(out, `${name}.js`),
    format: "esm",
    platform: name === "node" ? "node" : "browser",
    plugins: from ? [outside(from)] : [],
  });
}
const namesOf = async (module) => Object.keys(await import(pathToFileURL(join(out, `${module}.js`)))).join();
const known = await namesOf("index");
for (const [module, { entry, from, script }] of Object.entries(modules)) {
  if (!script) continue;
  const names = await namesOf(module);
  const contents = names
    ? `import {${names}} from "./${entry}"; globalThis.Faintly = {...globalThis.Faintly, ${names}};`
    : `import "./${entry}";`;
  await bundle({
    stdin: { contents, resolveDir: here },
    outfile: join(out, `${script}.js`),
    format: "iife",
    plugins: from ? [fromGlobal(from, known)] : [],
  });
}
const tsc = join(here, "node_modules/typescript/bin/tsc");
execFileSync(process.execPath, [tsc, "-p", here, "--outDir", join(out, "types")], { stdio: "inherit" });
const page = join(here, "../../examples/web");
const pageOut = check ? join(out, "demo.js") : join(page, "demo.js");
if (existsSync(join(page, "demo.ts"))) {
  await bundle({ entryPoints: [join(page, "demo.ts")], outfile: pageOut, format: "esm" });
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
    ([fresh, kept]) => !existsSync(kept) || !readFileSync(fresh).equals(readFileSync(kept)),
  );
  const made = new Set(files(out));
  const left = files(committed).filter((name) => !made.has(name));
  rmSync(out, { recursive: true });
  if (stale.length || left.length) {
    console.error("not what the sources make:", ...stale.map(([, kept]) => kept), ...left);
    console.error("run: npm run build, and commit the result");
    process.exit(1);
  }
  console.log(`${pairs.length} built files are as committed`);
}
