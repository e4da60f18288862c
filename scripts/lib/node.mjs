// The JavaScript half of the set-up: npm packages as in package-lock.json, and a Node that is new enough.
//
// This module runs first, under whatever Node is installed, without any package. It never looks at Rust.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";

import { ask, run } from "./command.mjs";
import { ROOT } from "./paths.mjs";
import { elapsed, Failure, heading, say, STARTED, startedAt } from "./report.mjs";

const OLDEST_MAJOR = 20;
/** wrangler and miniflare ask for it; the lock file brings it along. */
const NEEDED = [22, 12];
const REEXECUTED = "COUNTERSIGN_NODE";

/**
 * Makes sure that node_modules is as the lock file says and that the script runs under Node 22.12 or newer; when it has to,
 * it runs the same script again under the packaged Node, and ends with that one's exit code.
 */
export async function ensureNode() {
  const [major] = process.versions.node.split(".").map(Number);
  if (major < OLDEST_MAJOR) {
    throw new Failure(
      `Node ${process.versions.node} is too old: Countersign's scripts need Node ${OLDEST_MAJOR} or newer to start (a suitable Node for everything else is installed by them). Install a newer Node and run the same command again.`,
    );
  }
  await ensurePackages(ROOT, "Installing npm packages (about 550 MB on disk, half a minute)");
  const again = process.env[REEXECUTED];
  delete process.env[REEXECUTED];
  if (isRecent(process.versions.node)) return;
  if (again) throw new Failure(`Node ${process.versions.node} ran where a newer one was expected.`);
  await runAgainUnder(packagedNode());
}

function isRecent(version) {
  const [major, minor] = version.split(".").map(Number);
  return major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1]);
}

/** Makes sure that the node_modules of a folder is as its lock file says; `what` is said when something is installed. */
export async function ensurePackages(folder, what) {
  const stamp = join(folder, "node_modules", ".countersign-stamp");
  const wanted = packagesStamp(folder);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  if (!isAsLocked(folder)) {
    const since = Date.now();
    heading(what);
    const npm = process.env.npm_execpath;
    const [command, args] = npm?.endsWith(".js") ? [process.env.npm_node_execpath ?? process.execPath, [npm]] : ["npm", []];
    await run(command, [...args, "ci", "--loglevel=error", "--include=dev", "--include=optional"], {
      cwd: folder,
      what: "npm ci",
      advice: "The message of npm is above.",
    });
    say(`installed in ${elapsed(since)}`);
  }
  writeFileSync(stamp, wanted);
}

function packagesStamp(folder) {
  const hash = createHash("sha256");
  for (const file of ["package.json", "package-lock.json"]) hash.update(readFileSync(join(folder, file)));
  return `${hash.digest("hex")} ${process.platform}-${process.arch}`;
}

/** Whether a node_modules that somebody else filled (`npm install`) already holds what the lock file names. */
function isAsLocked(folder) {
  const hidden = join(folder, "node_modules", ".package-lock.json");
  if (!existsSync(hidden)) return false;
  const installed = JSON.parse(readFileSync(hidden, "utf8")).packages;
  const locked = JSON.parse(readFileSync(join(folder, "package-lock.json"), "utf8")).packages;
  const fits = (name) => installed[name]?.integrity === locked[name].integrity && existsSync(join(folder, name));
  return Object.keys(locked).every((name) => name === "" || (locked[name].optional && !installed[name]) || fits(name));
}

function packagedNode() {
  const binary = join(ROOT, "node_modules", ".bin", "node");
  if (existsSync(binary)) return binary;
  throw new Failure(
    `Node ${process.versions.node} is too old for wrangler, and there is no packaged Node for ${process.platform}-${process.arch}. Install Node ${NEEDED.join(".")} or newer and run the same command again.`,
  );
}

async function runAgainUnder(binary) {
  const version = await ask(binary, ["--version"]);
  if (!version) {
    throw new Failure(
      `Node ${process.versions.node} is too old for wrangler, and the packaged Node does not run on this system (it needs glibc). Install Node ${NEEDED.join(".")} or newer and run the same command again.`,
    );
  }
  const path = [join(ROOT, "node_modules", ".bin"), process.env.PATH].join(delimiter);
  const env = { ...process.env, PATH: path, [REEXECUTED]: version, [STARTED]: startedAt() };
  const child = spawn(binary, process.argv.slice(1), { stdio: "inherit", env });
  // A terminal sends Ctrl-C to both processes; the inner one decides what follows.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  const code = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exit, signal) => resolve(exit ?? (signal === "SIGINT" ? 130 : 1)));
  });
  process.exit(code);
}
