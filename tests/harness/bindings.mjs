// The Worker's configuration for workerd, as wrangler itself reads it from wrangler.toml.
//
// Loading wrangler takes two seconds, so it happens in a process of its own and once for each state of wrangler.toml.
// Neither .dev.vars nor .env takes part: a suite must not depend on what a developer keeps there.

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { ROOT } from "../../scripts/lib/paths.mjs";

const CONFIG = join(ROOT, "wrangler.toml");
const SELF = fileURLToPath(import.meta.url);

/** The Worker's options in the form that miniflare's `convertV4MiniflareOptions` takes, without the code. */
export async function loadBindings() {
  const hash = createHash("sha256");
  for (const path of [CONFIG, SELF, join(ROOT, "package-lock.json")]) hash.update(readFileSync(path));
  const cached = join(ROOT, "node_modules", ".cache", "countersign", `bindings-${hash.digest("hex").slice(0, 16)}.json`);
  try {
    return JSON.parse(readFileSync(cached, "utf8"));
  } catch {
    const { stdout } = await promisify(execFile)(process.execPath, [SELF, "--print"], { cwd: ROOT });
    const options = JSON.parse(stdout.slice(stdout.indexOf("\u0000") + 1));
    mkdirSync(dirname(cached), { recursive: true });
    writeFileSync(`${cached}.${process.pid}`, JSON.stringify(options));
    renameSync(`${cached}.${process.pid}`, cached);
    return options;
  }
}

if (process.argv[1] === SELF && process.argv[2] === "--print") {
  const wrangler = await import("wrangler");
  const config = wrangler.unstable_readConfig({ config: CONFIG });
  const { workerOptions } = wrangler.unstable_getMiniflareWorkerOptions(config);
  const options = { ...workerOptions, name: config.name, bindings: config.vars };
  // wrangler may print notices of its own first; the NUL says where the answer begins.
  process.stdout.write(`\u0000${JSON.stringify(options)}`);
}
