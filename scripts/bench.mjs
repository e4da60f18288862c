// `npm run bench [-- --quick] [--check] [options]`: Countersign, `McpAgent` and a bare Durable Object under the same load.
// bench/README.md says what is measured. Ends with 0 only if everything was measured, with --check only if every goal is met.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { ensureNode, ensurePackages } from "./lib/node.mjs";
import { bundleFolder, ROOT } from "./lib/paths.mjs";
import { bold, elapsed, Failure, runScript, say } from "./lib/report.mjs";

const FOLDER = join(ROOT, "bench");
const OPERATIONS = ["tools/list", "tools/call", "initialize"];
const ALL_OPERATIONS = [...OPERATIONS, "ping"];
// Many short rounds rather than a few long ones: what else the machine does then falls on all three alike.
const FULL = { rounds: 9, seconds: 1.5, levels: [1, 100, 1_000, 5_000] };
const QUICK = { rounds: 3, seconds: 0.7, levels: [1, 100, 1_000] };
const USAGE = `Usage: npm run bench [-- options]
  --quick             3 rounds of 0.7 s, up to 1 000 sessions
  --check             exit code 1 when a goal is missed
  --rounds <n>        how often each measurement is repeated
  --seconds <n>       how long each one takes
  --sessions <a,b>    the numbers of open sessions
  --only <a,b>        of ${ALL_OPERATIONS.join(", ")}
  --bundle <folder>   this build of Countersign instead of ${bundleFolder(["conformance"])}/
  --tool <name>       Countersign's tool that gives back its message (echo)
  --query <query>     of Countersign's endpoint (tool_mode=direct)
  --through-entry     by the Worker that miniflare puts in front, as in wrangler dev`;

await runScript(async () => {
  if (process.argv.includes("--help")) return console.log(USAGE);
  const wish = parseOptions(process.argv.slice(2));
  await ensureNode();
  await ensurePackages(FOLDER, "Installing what Countersign is compared with (about 90 MB on disk)");
  const bundle = await bundleOf(wish);
  const { runBenchmark } = await import("../bench/run.mjs");
  const { print, toJson } = await import("../bench/report.mjs");

  const result = await runBenchmark({ ...wish, bundle });
  print(result);
  const kept = keep(toJson(result));
  const missed = result.goals.filter(({ met }) => met === false);
  console.log(`\n${bold("Everything was measured")} in ${elapsed()}; ${kept}`);
  return wish.check && missed.length > 0 ? 1 : 0;
});

function parseOptions(args) {
  const given = {};
  for (let i = 0; i < args.length; i += 1) {
    const [option, inline] = args[i].split(/=([^]*)/);
    const name = option.replace(/^--/, "");
    if (["quick", "check", "through-entry"].includes(name)) given[name] = true;
    else if (["rounds", "seconds", "sessions", "only", "bundle", "tool", "query"].includes(name)) given[name] = inline ?? args[(i += 1)];
    else throw new Failure(`Unknown option ${args[i]}.\n${USAGE}`);
    if (given[name] === undefined) throw new Failure(`${option} needs a value.\n${USAGE}`);
  }
  const base = given.quick ? QUICK : FULL;
  const number = (text, name) => {
    const value = Number(text);
    if (!(value > 0)) throw new Failure(`--${name} needs a number above 0, not "${text}".`);
    return value;
  };
  const operations = given.only?.split(",") ?? OPERATIONS;
  const unknown = operations.find((name) => !ALL_OPERATIONS.includes(name));
  if (unknown !== undefined) throw new Failure(`--only: there is no "${unknown}"; there are ${ALL_OPERATIONS.join(", ")}.`);
  return {
    check: given.check ?? false,
    bundle: given.bundle,
    operations,
    levels: given.sessions?.split(",").map((text) => number(text, "sessions")).toSorted((a, b) => a - b) ?? base.levels,
    rounds: given.rounds ? number(given.rounds, "rounds") : base.rounds,
    seconds: given.seconds ? number(given.seconds, "seconds") : base.seconds,
    tool: given.tool ?? "echo",
    query: given.query ?? "tool_mode=direct",
    throughEntry: given["through-entry"] ?? false,
    // What counts as the record: everything at full length, of the bundle that this tree gives.
    complete: Object.keys(given).every((name) => name === "check"),
  };
}

/** Writes a run to latest.json, and says so. A run that left something out does not take the place of a complete one. */
function keep(result) {
  const path = join(FOLDER, "latest.json");
  const last = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined;
  if (last?.run.complete && !result.run.complete) return "bench/latest.json still has the last complete run";
  writeFileSync(path, `${JSON.stringify(result, null, 2)}\n`);
  return `written to bench/latest.json${result.run.complete ? "" : " (marked as not complete)"}`;
}

async function bundleOf({ bundle }) {
  if (bundle !== undefined) {
    const folder = resolve(ROOT, bundle);
    if (!existsSync(join(folder, "index.js"))) throw new Failure(`There is no bundle in ${bundle}.`);
    return folder;
  }
  const { ensureBundle, describeSize } = await import("./lib/bundle.mjs");
  const built = await ensureBundle({ features: ["conformance"] });
  say(describeSize(built));
  return join(ROOT, built.folder);
}
