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

/** Runs wrangler without the terminal; resolves with `{code, output}`. `input` goes to its standard input. */
export async function askWrangler(args, input) {
  const wrangler = join(ROOT, "node_modules", "wrangler", "bin", "wrangler.js");
  const child = spawn(process.execPath, [wrangler, ...args], {
    cwd: ROOT,
    stdio: ["pipe", "pipe", "inherit"],
    env: { WRANGLER_SEND_METRICS: "false", ...process.env },
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
  });
  child.stdin.end(input);
  const code = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  return { code, output };
}

/** The variables of wrangler.toml that a deployment with these options takes along. */
export async function readVars(options) {
  const { unstable_readConfig: readConfig } = await import("wrangler");
  const given = (...names) => options.find((_, index) => names.includes(options[index - 1]));
  return readConfig({ config: given("--config", "-c") ?? join(ROOT, "wrangler.toml"), env: given("--env", "-e") }).vars;
}
