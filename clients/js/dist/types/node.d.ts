import { type Store } from "./sender/index.ts";
/** Return a store in a file of an existing folder, for all processes that name it. */
export declare function fileStore(path: string): Store;
