// Build the page into the Python package, which serves it. With --check, build elsewhere and compare with
// what is committed.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const committed = join(here, "../collector/faintly_collector/page");
const check = process.argv.includes("--check");
const out = check ? mkdtempSync(join(tmpdir(), "faintly-page-")) : committed;

// Plot imports maps and colour schemes, which no chart here has: a fifth of the page.
const UNUSED = ["d3-geo", "d3-scale-chromatic"];
const withoutUnused = {
  name: "without-unused",
  enforce: "pre",
  resolveId: (name) => (UNUSED.includes(name) ? `\0${name}` : null),
  load: async (id) => {
    if (!UNUSED.includes(id.slice(1))) return null;
    return Object.keys(await import(id.slice(1))).map((name) => `export const ${name} = () => null;`).join("\n");
  },
};

await build({
  root: here,
  configFile: false,
  logLevel: "warn",
  plugins: [withoutUnused],
  base: "./", // addresses are relative, whatever path a proxy serves the page under
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    reportCompressedSize: false,
  },
});

const filesIn = (folder) =>
  readdirSync(folder, { recursive: true }).filter((name) => statSync(join(folder, name)).isFile()).sort();
const files = filesIn(out);
const total = files.reduce((sum, name) => sum + gzipSync(readFileSync(join(out, name))).length, 0);
if (check) {
  const kept = existsSync(committed) ? filesIn(committed) : [];
  const same = (name) => readFileSync(join(out, name)).equals(readFileSync(join(committed, name)));
  const stale = kept.join() !== files.join() || !files.every(same);
  rmSync(out, { recursive: true });
  if (stale) {
    console.error("collector/faintly_collector/page is not what the sources in page/ make: run make js, commit the result");
    process.exit(1);
  }
}
console.log(`the page: ${files.length} files, ${(total / 1000).toFixed(1)} kB gzipped${check ? ", as committed" : ""}`);
