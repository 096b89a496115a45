/** A store in a file, for Node: what the browser's database is to a page. */
import { link, open, readFile, rename, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { freshId, guarded, LedgerFailed, poll, type Access, type Store } from "./sender/index.ts";

const held = new Set<string>(); // marks of the locks that this process holds

/** Return a store in a file of an existing folder, for all processes that name it. */
export function fileStore(path: string): Store {
  const lock = `${path}.lock`;

  const access: Access = {
    read: guarded("read", async () => {
      const text = await ifThere(readFile(path, "utf8"));
      try {
        return text === undefined ? undefined : JSON.parse(text);
      } catch {
        throw new LedgerFailed("the ledger is damaged, so what was spent is not known");
      }
    }),
    write: guarded("write", async (state: unknown) => {
      const fresh = `${path}.new`;
      await written(fresh, JSON.stringify(state));
      await rename(fresh, path);
      await synced(dirname(path));
    }),
  };

  const locked = async <T>(use: (access: Access) => Promise<T>): Promise<T> => {
    const mark = `${process.pid} ${freshId()}`;
    held.add(mark);
    try {
      await poll(mark, guarded("lock", () => taken(lock, mark)));
      return await use(access).finally(guarded("unlock", () => ifThere(unlink(lock))));
    } finally {
      held.delete(mark);
    }
  };
  return { locked };
}

/** Make a lock file, after removing that of a process that has ended; return whose it is. */
async function taken(lock: string, mark: string): Promise<string | undefined> {
  if (await made(lock, mark)) return mark;
  const found = await ifThere(readFile(lock, "utf8"));
  if (!isDead(found)) return found;
  // One process at a time may remove a lock; otherwise it might remove one that was just made.
  const broom = `${lock}.remove`;
  if (!(await made(broom, mark))) return found;
  try {
    if (isDead(await ifThere(readFile(lock, "utf8")))) await ifThere(unlink(lock));
  } finally {
    await unlink(broom);
  }
  return (await made(lock, mark)) ? mark : found;
}

/** Return whether a lock has the mark of a process that has ended; if there is no lock, it does not. */
function isDead(mark: string | undefined): boolean {
  if (mark === undefined) return false;
  const pid = parseInt(mark);
  if (pid === process.pid) return !held.has(mark);
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** Make a file that has all of its text or does not exist; return whether it is new. */
async function made(path: string, text: string): Promise<boolean> {
  const own = `${path}.${freshId()}`;
  await written(own, text);
  try {
    await link(own, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await unlink(own);
  }
}

async function written(path: string, text: string): Promise<void> {
  const file = await open(path, "w", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function synced(folder: string): Promise<void> {
  if (process.platform === "win32") return; // where a folder cannot be opened
  const file = await open(folder, "r");
  await file.sync().finally(() => file.close());
}

/** Return what is done, undefined where the file is not there. */
async function ifThere<T>(done: Promise<T>): Promise<T | undefined> {
  try {
    return await done;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
