// Build dist/: an ESM file for each entry, two files for script tags, and types.
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

// The sender does not carry a second encoder: a module imports it, a script finds the global.
const outside = (filter, path) => ({
  name: "outside",
  setup(made) {
    made.onResolve({ filter }, () => ({ path, external: true }));
  },
});
const encoder = /^\.\.\/index\.ts$/;
const fromGlobal = (names) => ({
  name: "from-global",
  setup(made) {
    made.onResolve({ filter: encoder }, () => ({ path: "encoder", namespace: "global" }));
    made.onLoad({ filter: /.*/, namespace: "global" }, () => ({
      contents: `export const {${names}} = Faintly`,
    }));
  },
});

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

/** Bundle, then minify: terser's output is a twentieth smaller than that of esbuild. */
async function bundle(options) {
  await build({ ...shared, ...options });
  const { code } = await minify(readFileSync(options.outfile, "utf8"), {
    module: options.format === "esm",
    ecma: 2020,
    compress: { passes: 3 },
  });
  writeFileSync(options.outfile, code + "\n");
}

for (const [name, given] of Object.entries(modules)) {
  await bundle({ format: "esm", outfile: join(out, `${name}.js`), ...given });
}
// For script tags: each adds its names to the one global, Faintly.
const namesOf = async (module) => Object.keys(await import(pathToFileURL(join(out, `${module}.js`)))).join();
for (const [name, module] of Object.entries({ "faintly.min": "index", "faintly-sender.min": "sender" })) {
  const names = await namesOf(module);
  const [source] = modules[module].entryPoints;
  const contents = `import {${names}} from "./${source}"; globalThis.Faintly = {...globalThis.Faintly, ${names}};`;
  await bundle({
    stdin: { contents, resolveDir: here },
    outfile: join(out, `${name}.js`),
    format: "iife",
    plugins: [fromGlobal(await namesOf("index"))],
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
