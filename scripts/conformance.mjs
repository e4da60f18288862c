// `npm run conformance [-- <revision>] [--scenario name] [--url URL]`: the official conformance suite against the gateway.
//
// Without --url it builds the gateway with the suite's fixtures and starts it. What counts is read from the results that the suite
// writes for each scenario, not from its exit code, which lets warnings pass: a scored scenario has to be there, to have
// passed something, and to have neither failed nor warned.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ensureNode, ensurePackages } from "./lib/node.mjs";
import { ROOT } from "./lib/paths.mjs";
import { bold, dim, elapsed, Failure, green, heading, red, runScript, say, yellow } from "./lib/report.mjs";

const USAGE = "Usage: npm run conformance [-- <revision>] [--scenario name] [--url URL]";
const FEATURES = ["conformance"];
/** The revisions that the gateway speaks with the suite; the first is the default. */
const SERVED = ["2025-11-25"];
const HOME = join(ROOT, "conformance");
const SUITE = join(HOME, "node_modules", "@modelcontextprotocol", "conformance");
/** A check that failed may hold whole messages. */
const REASON_CHARACTERS = 600;

await runScript(async () => {
  const wish = parseWish(process.argv.slice(2));
  await ensureNode();
  await ensurePackages(HOME, "Installing the conformance suite into conformance/node_modules");
  const scenarios = scenariosFor(wish);
  const gateway = wish.url ? undefined : await startOwnGateway();
  const folder = mkdtempSync(join(tmpdir(), "countersign-conformance-"));
  try {
    const suite = await runSuite(wish, wish.url ?? new URL("/mcp", gateway.url).href, folder);
    const verdicts = scenarios.map((scenario) => judge(scenario, readChecks(folder, scenario.name)));
    print(verdicts);
    const scored = verdicts.filter((verdict) => verdict.reason === undefined);
    const bad = scored.filter((verdict) => verdict.problem);
    const unexplained = suite.code !== 0 && verdicts.every((verdict) => !verdict.problem);
    if (bad.length === 0 && !unexplained) {
      rmSync(folder, { recursive: true, force: true });
      const result = scored.length === 0 ? "Nothing that counts was run" : `All ${scored.length} scored scenarios passed`;
      console.log(`\n${bold(green(result))} in ${elapsed()}`);
      return 0;
    }
    if (unexplained || bad.some((verdict) => verdict.missing)) {
      console.error(dim(`\n--- the suite ended with ${suite.code} and said at last\n${lastLines(suite.output)}`));
    }
    if (gateway) console.error(dim(`\n--- the gateway's log\n${lastLines(gateway.output())}`));
    const result = unexplained
      ? `The suite ended with ${suite.code} for no visible reason`
      : `${bad.length} of ${scored.length} scored scenarios did not pass`;
    console.error(`\n${red(result)} after ${elapsed()}. The suite's own results are in ${folder}`);
    return 1;
  } finally {
    await gateway?.stop();
  }
});

function parseWish(args) {
  const wish = {};
  for (let i = 0; i < args.length; i += 1) {
    const [name, inline] = splitOption(args[i]);
    if (name === "--scenario" || name === "--url") {
      const value = inline ?? args[(i += 1)];
      if (!value || value.startsWith("--")) throw new Failure(`${name} needs a value. ${USAGE}`);
      wish[name.slice(2)] = value;
    } else if (name.startsWith("-") || wish.revision !== undefined) {
      throw new Failure(`Unknown argument ${args[i]}. ${USAGE}`);
    } else {
      wish.revision = name;
    }
  }
  if (wish.url && !URL.canParse(wish.url)) throw new Failure(`--url ${wish.url} is not a URL.`);
  return { revision: SERVED[0], ...wish };
}

function splitOption(arg) {
  const at = arg.startsWith("--") ? arg.indexOf("=") : -1;
  return at < 0 ? [arg, undefined] : [arg.slice(0, at), arg.slice(at + 1)];
}

/** The scenarios to expect, as `{name, reason}`; one that has a `reason` is not scored, and that is why. */
function scenariosFor({ revision, scenario }) {
  const folder = join(SUITE, "requirements");
  const known = readdirSync(folder).map((file) => file.replace(/\.yaml$/, "")).sort();
  if (!known.includes(revision)) throw new Failure(`The suite has no requirements for revision ${revision}. It has: ${known.join(", ")}`);
  if (!SERVED.includes(revision)) throw new Failure(`The gateway does not serve revision ${revision} yet. It serves: ${SERVED.join(", ")}`);

  const { parse } = createRequire(join(SUITE, "package.json"))("yaml");
  const required = parse(readFileSync(join(folder, `${revision}.yaml`), "utf8"));
  const all = [
    ...required.server.map((name) => ({ name })),
    ...required.not_scored.filter(({ leg }) => leg === "server").map((entry) => ({ name: entry.scenario, reason: entry.reason })),
  ];
  const chosen = all.filter(({ name }) => scenario === undefined || name === scenario);
  if (chosen.length === 0) {
    throw new Failure(`Revision ${revision} has no server scenario ${scenario}. It has: ${all.map(({ name }) => name).join(", ")}`);
  }
  return chosen;
}

async function startOwnGateway() {
  const { ensureBundle, describeSize } = await import("./lib/bundle.mjs");
  say(describeSize(await ensureBundle({ features: FEATURES })));
  const { startGateway } = await import("../tests/harness/index.mjs");
  return startGateway({ features: FEATURES });
}

async function runSuite({ revision, scenario }, url, folder) {
  const { run } = await import("./lib/command.mjs");
  heading(`Conformance suite ${versionOf(SUITE)}, revision ${revision}, against ${url}`);
  // The suite takes either a whole set of requirements or one scenario, never both.
  const what = scenario ? ["--scenario", scenario, "--spec-version", revision, "--force"] : ["--requirements", revision];
  return run(process.execPath, [join(SUITE, "dist", "index.js"), "server", "--url", url, ...what, "-o", folder], {
    cwd: HOME,
    what: "the suite",
    allowFailure: true,
  });
}

function versionOf(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version;
}

/** What a scenario checked, or undefined if it left no results. */
function readChecks(folder, scenario) {
  // <name>-<time>: one scenario's name may begin with another's.
  const prefix = `server-${scenario}-`;
  const isItsFolder = (name) => name.startsWith(prefix) && /^\d{4}-\d\d-\d\dT[\d-]+Z$/.test(name.slice(prefix.length));
  const file = join(folder, readdirSync(folder).find(isItsFolder) ?? "", "checks.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined;
}

function judge(scenario, checks) {
  const withStatus = (status) => (checks ?? []).filter((check) => check.status === status);
  const [passed, failed, warned] = ["SUCCESS", "FAILURE", "WARNING"].map(withStatus);
  const verdict = { ...scenario, missing: checks === undefined, passed, failed, warned };
  return { ...verdict, problem: problemOf(verdict) };
}

function problemOf({ missing, passed, failed, warned }) {
  if (missing) return "missing";
  if (failed.some((check) => check.id === "wire-schema-valid")) return "invalid messages";
  if (failed.length > 0) return "failed";
  if (warned.length > 0) return "warned";
  return passed.length === 0 ? "nothing checked" : undefined;
}

function print(verdicts) {
  const width = Math.max(...verdicts.map(({ name }) => name.length));
  console.log(`\n   ${bold(`${"scenario".padEnd(width)}  passed  failed  warned`)}`);
  for (const { name, reason, problem, ...checks } of verdicts) {
    const counts = ["passed", "failed", "warned"].map((status) => String(checks[status].length).padStart(6)).join("  ");
    const colour = reason === undefined ? red : yellow;
    const notScored = reason === undefined ? "" : dim(`  not scored: ${reason}`);
    console.log(`   ${name.padEnd(width)}  ${counts}  ${problem ? colour(problem) : green("ok")}${notScored}`);
  }
  for (const { name, failed, warned } of verdicts) {
    for (const check of [...failed, ...warned]) {
      const status = check.status === "FAILURE" ? red("failed") : yellow("warned");
      console.log(`\n   ${bold(name)}: ${status} ${check.id}: ${check.description}`);
      if (check.errorMessage) console.log(dim(`     ${shorten(check.errorMessage)}`));
    }
  }
}

function shorten(text) {
  return text.length > REASON_CHARACTERS ? `${text.slice(0, REASON_CHARACTERS)} …` : text;
}

function lastLines(text) {
  return text.trimEnd().split("\n").slice(-40).join("\n");
}
