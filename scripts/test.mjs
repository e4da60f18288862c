// `npm test [-- rust | js | <part of a suite's file name>] [node --test options]`: everything that CI checks, in one go.
//
// All stages run even if one fails, so that one run tells all; the JavaScript suites need a bundle and are left out without one.
// They come last: CI reads node's closing lines.

import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";

import { ensureNode } from "./lib/node.mjs";
import { ROOT } from "./lib/paths.mjs";
import { bold, elapsed, Failure, green, heading, red, runScript, say } from "./lib/report.mjs";

const stages = [];

await runScript(async () => {
  const wish = parseWish(process.argv.slice(2));
  await ensureNode();
  const { run } = await import("./lib/command.mjs");
  const { ensureRust } = await import("./lib/rust.mjs");
  const { ensureBundle, describeSize } = await import("./lib/bundle.mjs");
  const { ensureBrowser } = await import("./lib/browser.mjs");

  if (wish.rust) {
    await stage("Rust toolchain", () => ensureRust({ components: ["rustfmt", "clippy"] }));
    const colour = process.stdout.isTTY ? { CARGO_TERM_COLOR: "always" } : {};
    // CI must build what the lock file says; a developer may be about to change it.
    const locked = process.env.CI ? ["--locked"] : [];
    const cargo = (...args) => run("cargo", args, { cwd: ROOT, show: "problems", what: `cargo ${args[0]}`, env: colour });
    await stage("cargo fmt --check", () => cargo("fmt", "--check"));
    await stage("clippy", () => cargo("clippy", "--all-targets", "--all-features", ...locked, "--", "-D", "warnings"));
    await stage("clippy for wasm", () => cargo("clippy", "--lib", "--target", "wasm32-unknown-unknown", ...locked, "--", "-D", "warnings"));
    await stage("cargo test", () => cargo("test", "--all-features", ...locked));
  }
  if (wish.js) {
    const suites = suitesFor(wish.filter);
    if (suites.some((suite) => suite.includes("browser"))) {
      await stage("Browser", async () => {
        const browser = await ensureBrowser();
        if (browser) say(browser);
      });
    }
    const bundle = await stage("Bundle", async () => {
      const built = await ensureBundle();
      say(describeSize(built));
      return built;
    });
    const fixtures = await stage("Bundle with the conformance fixtures", async () => say(describeSize(await ensureBundle({ features: ["conformance"] }))));
    if (fixtures && !wish.filter) await stage("Conformance suite", () => run(process.execPath, ["scripts/conformance.mjs"], { cwd: ROOT, what: "the conformance suite", show: "problems" }));
    if (bundle && fixtures) await stage(`${suites.length} suites in workerd`, () => runSuites(suites, wish.options));
    else stages.push({ name: "suites in workerd (left out: no bundle)", failed: true });
  }

  const failed = stages.filter((each) => each.failed);
  console.log("");
  for (const { name, failed: bad, time } of stages) console.log(`   ${bad ? red("failed") : green("ok    ")} ${name}${time ? `  ${time}` : ""}`);
  if (failed.length > 0) {
    console.error(`\n${red(`${failed.length} of ${stages.length} stages failed`)} after ${elapsed()}`);
    return 1;
  }
  console.log(`\n${bold(green("All stages passed"))} in ${elapsed()}`);
  return 0;
});

function parseWish(args) {
  const options = args.filter((arg) => arg.startsWith("-"));
  const words = args.filter((arg) => !arg.startsWith("-"));
  if (words.length > 1) throw new Failure("Usage: npm test [-- rust | js | <part of a suite's file name>] [node --test options]");
  const [word] = words;
  return {
    rust: word === undefined || word === "rust",
    js: word !== "rust",
    filter: word === "js" ? undefined : word,
    options,
  };
}

function suitesFor(filter) {
  const all = readdirSync(join(ROOT, "tests")).filter((name) => name.endsWith(".test.mjs")).sort();
  const chosen = filter ? all.filter((name) => name.includes(filter)) : all;
  if (chosen.length === 0) throw new Failure(`No suite in tests/ has "${filter}" in its name. There are: ${all.join(", ")}`);
  return chosen.map((name) => join("tests", name));
}

/** Runs one stage; a failure is reported at once, counted, and does not end the others. */
async function stage(name, work) {
  heading(name);
  const since = Date.now();
  try {
    const value = await work();
    stages.push({ name, time: elapsed(since) });
    return value ?? true;
  } catch (error) {
    console.error(`${red("failed:")} ${error instanceof Failure ? error.message : error.stack}`);
    stages.push({ name, failed: true, time: elapsed(since) });
    return undefined;
  }
}

async function runSuites(suites, options) {
  const reporter = options.some((option) => option.startsWith("--test-reporter")) ? [] : ["--test-reporter=spec"];
  const child = spawn(process.execPath, ["--test", ...reporter, "--test-concurrency=2", ...options, ...suites], { cwd: ROOT, stdio: "inherit" });
  const code = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exit) => resolve(exit ?? 1));
  });
  if (code !== 0) throw new Failure(`node --test ended with ${code}.`);
}
