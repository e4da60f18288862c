// Runs wrangler in the foreground.

import { spawn } from "node:child_process";
import { join } from "node:path";

import { ROOT } from "./paths.mjs";

/** Runs wrangler with the terminal attached; resolves with its exit code. */
export async function runWrangler(args) {
  const wrangler = join(ROOT, "node_modules", "wrangler", "bin", "wrangler.js");
  const child = spawn(process.execPath, [wrangler, ...args], {
    cwd: ROOT,
    stdio: "inherit",
    env: { WRANGLER_SEND_METRICS: "false", ...process.env },
  });
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve(code ?? (signal === "SIGINT" ? 130 : 1)));
  });
}
