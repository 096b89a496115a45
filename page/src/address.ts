/** The view that an address shows. All of it comes after the #, which browsers do not send: no log of a proxy
 * has the keys that somebody looked at. */
import { useEffect, useState } from "preact/hooks";

export interface Address {
  parts: string[];
  query: URLSearchParams;
}

export function read(hash = location.hash): Address {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a mangled address leads nowhere, and says so
  }
}

export function write(parts: string[], query: URLSearchParams | Record<string, string> = {}): string {
  const text = new URLSearchParams(query).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

export function useAddress(): Address {
  const [address, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return address;
}

/** Change the query of the present address; values of null are removed. */
export function change(changes: Record<string, string | string[] | null>): void {
  const { parts, query } = read();
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const each of value === null ? [] : [value].flat()) query.append(name, each);
  }
  location.hash = write(parts, query);
}

/** Return text as part of an address: deflated, since a list of candidates is long. */
export async function packed(text: string): Promise<string> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export async function unpacked(text: string): Promise<string> {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).text();
}
