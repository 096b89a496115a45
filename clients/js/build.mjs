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
const outside = (path, contents) => ({
  name: "encoder-outside",
  setup(made) {
    made.onResolve({ filter: /\.\.\/index\.ts$/ }, () =>
      contents ? { path: "encoder", namespace: "global" } : { path, external: true },
    );
    made.onLoad({ filter: /.*/, namespace: "global" }, () => ({ contents, loader: "js" }));
  },
});

const modules = { index: "src/index.ts", sender: "src/sender/index.ts", node: "src/node.ts", testing: "src/testing.ts" };
for (const [name, source] of Object.entries(modules)) {
  const plugins = name === "sender" || name === "node" ? [outside("./index.js")] : [];
  await build({
    ...shared,
    entryPoints: [source],
    outfile: join(out, `${name}.js`),
    format: "esm",
    platform: name === "node" ? "node" : "neutral",
    plugins,
  });
}
await build({
  ...shared,
  entryPoints: ["src/index.ts"],
  outfile: join(out, "faintly.min.js"),
  format: "iife",
  globalName: "Faintly",
});
await build({
  ...shared,
  entryPoints: ["src/sender/index.ts"],
  outfile: join(out, "faintly-sender.min.js"),
  format: "iife",
  globalName: "FaintlySender",
  footer: { js: "Faintly=Object.assign({},Faintly,FaintlySender);" },
  plugins: [outside("", "module.exports = Faintly")],
});
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
