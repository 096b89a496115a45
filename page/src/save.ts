/** Files to keep: tables as CSV and Parquet, charts as PNG. */
import type { Row } from "./api.ts";
import type { Svg } from "./charts.tsx";

/** Let the browser save bytes under a name. */
export function save(content: BlobPart, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Return rows as CSV (RFC 4180), with the columns of the first. */
export function csv(rows: Row[]): string {
  const columns = Object.keys(rows[0] ?? { key: "" }) as (keyof Row)[];
  const cell = (value: unknown) => {
    const text = String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = rows.map((row) => columns.map((name) => cell(row[name])).join());
  return [columns.join(), ...lines, ""].join("\r\n");
}

const SCALE = 2; // sharp on every screen

/** Return a chart as a PNG, in the colours that the page has now. */
export async function png(svg: Svg): Promise<Blob> {
  const colours = getComputedStyle(document.documentElement);
  const plain = new XMLSerializer()
    .serializeToString(svg)
    .replace(/var\((--[a-z0-9-]+)\)/g, (_, name) => colours.getPropertyValue(name).trim())
    .replaceAll("currentColor", colours.getPropertyValue("--text").trim());
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(plain)}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = SCALE * Number(svg.getAttribute("width"));
  canvas.height = SCALE * Number(svg.getAttribute("height"));
  const context = canvas.getContext("2d")!;
  context.fillStyle = colours.getPropertyValue("--card");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) =>
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture"))), "image/png"),
  );
}

/** Return a name for a file: letters and digits alone, whatever a collection is called. */
export function fileName(name: string, what: string, kind: string): string {
  const plain = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40);
  return `${plain || "collection"}-${what}.${kind}`;
}
