// Where things are. Nothing here touches the disk.

import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's root folder. */
export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Build tools that are compiled once for each user and version, shared by every clone. */
export const CACHE = process.env.COUNTERSIGN_CACHE || join(homedir(), ".cache", "countersign");

/** The folder that the Worker's bundle goes to, relative to ROOT; each set of cargo features has its own. */
export function bundleFolder(features = []) {
  return ["build", ...[...features].sort()].join("-");
}
