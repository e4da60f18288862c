// The Rust half of the set-up: toolchains with their wasm parts, and the two programs that turn a crate into a Worker.

import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

import { ask, run } from "./command.mjs";
import { CACHE, ROOT } from "./paths.mjs";
import { elapsed, Failure, heading, say, warn } from "./report.mjs";

const WASM = "wasm32-unknown-unknown";

/** The version of a package in Cargo.lock. */
export function lockedVersion(crate) {
  const lock = readFileSync(join(ROOT, "Cargo.lock"), "utf8");
  const found = new RegExp(`name = "${crate}"\\nversion = "([^"]+)"`).exec(lock);
  if (!found) throw new Failure(`Cargo.lock names no package "${crate}".`);
  return found[1];
}

/** Checks that rustup and a new enough cargo are there, and adds the parts of the default toolchain that are missing. */
export async function ensureRust({ components = [] } = {}) {
  const [toolchains, rustc] = await Promise.all([
    ask("rustup", ["toolchain", "list"]),
    ask("rustc", ["--version"], { cwd: ROOT }),
  ]);
  if (toolchains === undefined) {
    throw new Failure(
      "rustup is not installed (or not on PATH). Countersign is written in Rust and built with rustup's toolchains: install rustup together with the stable toolchain, open a new shell and run the same command again.",
    );
  }
  const oldest = /^rust-version = "([^"]+)"/m.exec(readFileSync(join(ROOT, "Cargo.toml"), "utf8"))?.[1];
  if (!rustc || (oldest && isOlder(rustc, oldest))) {
    throw new Failure(
      `${rustc ? `The default Rust toolchain is too old (${rustc})` : "rustup is installed but has no working default toolchain"}. Countersign needs Rust ${oldest ?? "stable"} or newer: run "rustup update stable" and "rustup default stable", then the same command again.`,
    );
  }
  const installed = (await ask("rustup", ["component", "list", "--installed"], { cwd: ROOT })) ?? "";
  const missing = components.filter((name) => !new RegExp(`^${name}(-preview)?(-|$)`, "m").test(installed));
  for (const component of missing) {
    say(`adding ${component} to the Rust toolchain`);
    await run("rustup", ["component", "add", component], { cwd: ROOT, what: `rustup component add ${component}` });
  }
  if (!new RegExp(`^rust-std-${WASM}$`, "m").test(installed)) {
    say(`adding the target ${WASM} to the Rust toolchain`);
    await run("rustup", ["target", "add", WASM], { cwd: ROOT, what: `rustup target add ${WASM}` });
  }
}

/** Whether a nightly toolchain is installed, without trying to install one. */
export async function hasNightly() {
  return /^nightly-/m.test((await ask("rustup", ["toolchain", "list"])) ?? "");
}

/**
 * A nightly toolchain that can build the standard library for wasm, which `--panic-unwind` needs: with it a panic ends one
 * request instead of every object in the isolate. Resolves with false, after a warning, where there is none to be had.
 */
export async function ensureNightly() {
  try {
    if (!(await hasNightly())) {
      say("installing Rust nightly (for panics that end one request only)");
      await run("rustup", ["toolchain", "install", "nightly", "--profile", "minimal"], { what: "rustup toolchain install nightly" });
    }
    const installed = (await ask("rustup", ["component", "list", "--installed", "--toolchain", "nightly"])) ?? "";
    if (!/^rust-src$/m.test(installed)) {
      say("adding rust-src to Rust nightly");
      await run("rustup", ["component", "add", "rust-src", "--toolchain", "nightly"], { what: "rustup component add rust-src" });
    }
    if (!installed.includes(`rust-std-${WASM}`)) {
      say(`adding the target ${WASM} to Rust nightly`);
      await run("rustup", ["target", "add", WASM, "--toolchain", "nightly"], { what: `rustup target add ${WASM}` });
    }
    return true;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    warn(`${error.message}`);
    warn(
      "Building WITHOUT --panic-unwind instead: it runs, but a panic resets every object in its isolate. Do not deploy such a build.",
    );
    return false;
  }
}

function isOlder(rustc, oldest) {
  const [have, want] = [/(\d+)\.(\d+)/.exec(rustc), /(\d+)\.(\d+)/.exec(oldest)].map((found) => found.slice(1).map(Number));
  return have[0] < want[0] || (have[0] === want[0] && have[1] < want[1]);
}

/** The paths of worker-build and wasm-bindgen at the versions that Cargo.lock asks for, installed if they are not there. */
export async function ensureBuildTools() {
  return {
    wasmBindgen: await ensureTool({
      crate: "wasm-bindgen-cli",
      program: "wasm-bindgen",
      version: lockedVersion("wasm-bindgen"),
      // Half the compile time of the defaults, and still quick enough on a large module.
      env: { CARGO_PROFILE_RELEASE_OPT_LEVEL: "1", CARGO_PROFILE_RELEASE_LTO: "off", CARGO_PROFILE_RELEASE_CODEGEN_UNITS: "16" },
    }),
    workerBuild: await ensureTool({
      crate: "worker-build",
      program: "worker-build",
      // Released together with the library, under the same number.
      version: lockedVersion("worker"),
      options: ["--debug"],
      env: { CARGO_PROFILE_DEV_DEBUG: "0" },
    }),
  };
}

async function ensureTool({ crate, program, version, options = [], env }) {
  const home = join(CACHE, `${crate}-${version}`);
  const binary = join(home, "bin", process.platform === "win32" ? `${program}.exe` : program);
  if (existsSync(binary)) return binary;

  heading(`Installing ${crate} ${version} (once for each user, about 3 minutes on two cores)`);
  const since = Date.now();
  mkdirSync(CACHE, { recursive: true });
  removeAbandoned();
  const staging = join(CACHE, `.installing-${process.pid}-${crate}`);
  try {
    // Not `--locked`: wasm-bindgen-cli's own lock file names a version that registries have since withdrawn.
    await run("cargo", ["install", crate, "--version", `=${version}`, "--root", staging, "--target-dir", join(staging, "target"), ...options], {
      cwd: CACHE,
      env,
      what: `cargo install ${crate}`,
    });
    rmSync(join(staging, "target"), { recursive: true, force: true });
    // Two clones may install at the same time: the last one wins, and both have a whole folder.
    rmSync(home, { recursive: true, force: true });
    renameSync(staging, home);
  } catch (error) {
    if (!existsSync(binary)) throw error;
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
  say(`installed in ${elapsed(since)}`);
  return binary;
}

function removeAbandoned() {
  for (const name of readdirSync(CACHE)) {
    const pid = /^\.installing-(\d+)-/.exec(name)?.[1];
    if (pid && !isAlive(Number(pid))) rmSync(join(CACHE, name), { recursive: true, force: true });
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}
