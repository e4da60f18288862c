// Runs other programs: quietly while they are well, with all that they said when they fail.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { dim, elapsed, Failure } from "./report.mjs";

const PROGRESS_EVERY_MS = 10_000;

/** Lines of cargo, rustup, worker-build and esbuild that only tell how far they are. */
const PROGRESS_LINE =
  /^\s*(?:Compiling|Checking|Downloaded|Downloading|Fresh|Building|Updating|Locking|Adding|Installing|Installed|Replacing|Replaced|Packaging|Documenting|Blocking|Ignored|Finished|Running|Dirty|Scraping|Compacting)\b|^\[INFO\]:|^\s+index\.js\s|^⚡/;

/** What the registries' clients say when they cannot reach them. */
const NO_NETWORK =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|[Cc]ould not resolve host|[Cc]ouldn't resolve host|[Ff]ailed to connect|dns error|network failure|spurious network error|error trying to connect|[Cc]ould not download|failed to download from|[Uu]nable to update registry|Temporary failure in name resolution|client error \(Connect\)/;

/**
 * Runs a program and resolves with `{code, output}`; a code other than 0 is a `Failure` unless `allowFailure`.
 *
 * `show` is "all" (every line at once), "problems" (all but cargo's progress; of that only how far it is, every ten
 * seconds) or "nothing" (the whole output is shown if it fails). `what` names the work in messages.
 */
export async function run(command, args, { cwd, env, what = command, show = "nothing", allowFailure = false, advice } = {}) {
  const since = Date.now();
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const lines = [];
  let compiled = 0;
  let latest = "";
  const heed = (line, stream) => {
    lines.push(line);
    const noise = PROGRESS_LINE.exec(line);
    if (noise) {
      if (/Compiling|Checking/.test(noise[0])) compiled += 1;
      latest = line.replace(/^\[INFO\]:[^\p{L}]*/u, "").replace(/\s*\(.*/, "").trim();
    }
    if (show === "all" || (show === "problems" && !noise && line.trim() !== "")) stream.write(`${line}\n`);
  };
  createInterface({ input: child.stdout }).on("line", (line) => heed(line, process.stdout));
  createInterface({ input: child.stderr }).on("line", (line) => heed(line, process.stderr));
  const ticking = setInterval(() => {
    const far = compiled > 0 ? `${compiled} crates so far, now: ${latest}` : latest || "still working";
    console.log(dim(`   … ${what}: ${far} (${elapsed(since)})`));
  }, PROGRESS_EVERY_MS);

  const code = await new Promise((resolve) => {
    child.once("error", (error) => {
      lines.push(error.code === "ENOENT" ? `${command}: not found` : error.message);
      resolve(127);
    });
    child.once("close", (exit, signal) => resolve(exit ?? (signal ? 128 : 1)));
  }).finally(() => clearInterval(ticking));

  const output = lines.join("\n");
  if (code !== 0 && !allowFailure) {
    if (show === "nothing") console.error(`${lines.slice(-60).join("\n")}\n`);
    const network = NO_NETWORK.test(output)
      ? " It looks as if the package registry could not be reached. Set-up needs the network the first time; connect and run the same command again."
      : "";
    throw new Failure(`${what} failed (exit code ${code}).${network}${advice ? ` ${advice}` : ""}`);
  }
  return { code, output };
}

/** The output of a short program, or undefined when it is missing or fails. */
export async function ask(command, args, options = {}) {
  const { code, output } = await run(command, args, { ...options, allowFailure: true });
  return code === 0 ? output.trim() : undefined;
}
