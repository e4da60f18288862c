// Builds the Worker's bundle (index.js and index_bg.wasm), only when something that goes into it has changed.

import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

import { run } from "./command.mjs";
import { bundleFolder, ROOT } from "./paths.mjs";
import { bold, elapsed, Failure, heading, say, warn } from "./report.mjs";
import { ensureBuildTools, ensureNightly, ensureRust, hasNightly } from "./rust.mjs";

/** The promise is 1.5 MB for what is uploaded, gzipped. */
const LIMIT_BYTES = 1_500_000;
const PARTS = ["index.js", "index_bg.wasm"];
/** All that decides what comes out, apart from the toolchain. */
const INPUTS = ["Cargo.toml", "Cargo.lock", "build.rs", "askama.toml", ".cargo", "src", "templates", "package-lock.json"];
const OWN_INPUTS = ["scripts/lib/bundle.mjs"];

/**
 * Makes sure that the bundle for these cargo features is up to date. Resolves with `{folder, gzipped, unwinds, built}`:
 * the folder relative to the root, the bundle's gzipped bytes, whether panics unwind, and whether it was built just now.
 */
export async function ensureBundle({ features = [] } = {}) {
  const folder = bundleFolder(features);
  const inputs = hashOf([...INPUTS, ...OWN_INPUTS], features);
  const known = readStamp(folder);
  // A build without unwinding is only kept for as long as nothing better can be had.
  const current = known?.inputs === inputs && (known.unwinds || !(await hasNightly()));
  if (current) {
    if (!known.unwinds) warn(`${folder}/ was built without --panic-unwind, because there is no Rust nightly`);
    return checkSize({ ...known, folder, built: false }, features);
  }

  heading(`Building the Worker into ${folder}/ (several minutes the first time)`);
  if (!existsSync(join(ROOT, "Cargo.toml"))) throw new Failure("There is no Cargo.toml: nothing to build.");
  const since = Date.now();
  await ensureRust();
  const unwinds = await ensureNightly();
  const tools = await ensureBuildTools();
  rmSync(stampPath(folder), { force: true });
  await run(
    tools.workerBuild,
    [
      "--release",
      "--no-opt",
      ...(unwinds ? ["--panic-unwind"] : []),
      ...["--out-dir", folder],
      ...(features.length > 0 ? ["--features", features.join(",")] : []),
    ],
    {
      cwd: ROOT,
      what: "worker-build",
      show: "problems",
      env: {
        // worker-build would otherwise download these two from a code host.
        WASM_BINDGEN_BIN: tools.wasmBindgen,
        ESBUILD_BIN: npmProgram("esbuild"),
        // Its own backtrace would hide the compiler's message.
        RUST_BACKTRACE: "0",
        // Of the standard library what is small, not what is fast, and no places in messages of panics: they are a tenth of the data,
        // and the lints leave next to nothing that panics.
        ...(unwinds ? SMALLER : {}),
      },
    },
  );
  await makeSmaller(folder);
  stripFunctionNames(folder);
  await makeEntryLight(folder, unwinds);
  say(`built in ${elapsed(since)}`);
  const stamp = { inputs, unwinds, sizes: gzippedSizes(folder) };
  // Sources that were edited during the build are not in it: then the stamp must not claim so.
  if (hashOf([...INPUTS, ...OWN_INPUTS], features) === inputs) writeFileSync(stampPath(folder), JSON.stringify(stamp));
  return checkSize({ ...stamp, folder, built: true }, features);
}

/** One line about a bundle's size. */
export function describeSize({ folder, sizes, gzipped }) {
  const parts = Object.entries(sizes).map(([name, bytes]) => `${name} ${megabytes(bytes)}`);
  return `${folder}/: ${bold(`${megabytes(gzipped)} gzipped`)} (${parts.join(", ")}; limit ${megabytes(LIMIT_BYTES)})`;
}

function checkSize(bundle, features) {
  const gzipped = Object.values(bundle.sizes).reduce((sum, bytes) => sum + bytes, 0);
  // A bundle with features is for tests, and never deployed.
  if (gzipped > LIMIT_BYTES && features.length === 0) {
    throw new Failure(`The bundle is too large. ${describeSize({ ...bundle, gzipped })}`);
  }
  return { ...bundle, gzipped };
}

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(3)} MB`;

function gzippedSizes(folder) {
  return Object.fromEntries(
    PARTS.map((name) => [name, gzipSync(readFileSync(join(ROOT, folder, name)), { level: 9 }).length]),
  );
}

function stampPath(folder) {
  return join(ROOT, folder, ".countersign-stamp.json");
}

function readStamp(folder) {
  try {
    if (!PARTS.every((name) => existsSync(join(ROOT, folder, name)))) return undefined;
    return JSON.parse(readFileSync(stampPath(folder), "utf8"));
  } catch {
    return undefined;
  }
}

function npmProgram(name) {
  return join(ROOT, "node_modules", ".bin", name);
}

function hashOf(paths, features) {
  const hash = createHash("sha256").update(JSON.stringify([...features].sort()));
  const add = (path) => {
    const whole = join(ROOT, path);
    if (!existsSync(whole)) return;
    const entries = readDirectory(whole);
    if (entries) {
      for (const name of entries) add(`${path}/${name}`);
    } else {
      const content = readFileSync(whole);
      hash.update(`${path}\0${content.length}\0`).update(content);
    }
  };
  for (const path of paths) add(path);
  return hash.digest("hex");
}

function readDirectory(path) {
  try {
    return readdirSync(path).sort();
  } catch (error) {
    if (error.code === "ENOTDIR") return undefined;
    throw error;
  }
}

/**
 * What the upload is measured by is the gzipped size, and LLVM has optimised for it already: on this crate wasm-opt's `-Os` takes
 * twenty times as long as these passes and comes out 7 % larger after gzip (measured with binaryen 132).
 */
const WASM_OPT = [
  ...["--duplicate-function-elimination", "--remove-unused-module-elements", "--vacuum"],
  ...["--coalesce-locals", "--reorder-locals", "--reorder-functions"],
  // What rustc's default target and wasm-bindgen use, and workerd knows; not --all-features, whose encodings it may not.
  ...["mutable-globals", "sign-ext", "nontrapping-float-to-int", "bulk-memory", "multivalue", "reference-types", "exception-handling"].map(
    (feature) => `--enable-${feature}`,
  ),
  "--debuginfo",
];

/** Nightly's ways; worker-build asks cargo for what the toolchain is without naming it. */
const SMALLER = {
  RUSTUP_TOOLCHAIN: "nightly",
  CARGO_UNSTABLE_BUILD_STD_FEATURES: "panic-unwind,optimize_for_size",
  RUSTFLAGS: "-Zlocation-detail=none",
};

async function makeSmaller(folder) {
  const path = join(ROOT, folder, "index_bg.wasm");
  const smaller = join(ROOT, folder, "index_bg.smaller.wasm");
  await run(npmProgram("wasm-opt"), [path, "-o", smaller, ...WASM_OPT], { cwd: ROOT, what: "wasm-opt" });
  renameSync(smaller, path);
}

/**
 * Takes the wasm "name" section out: worker-build always keeps it, nobody needs it to run, and it is a good part of the
 * download. A copy with names stays in target/named/ for reading a stack trace.
 */
function stripFunctionNames(folder) {
  const path = join(ROOT, folder, "index_bg.wasm");
  const kept = join(ROOT, "target", "named");
  mkdirSync(kept, { recursive: true });
  copyFileSync(path, join(kept, `${folder}.wasm`));
  writeFileSync(path, withoutCustomSection(readFileSync(path), "name"));
}

/**
 * Puts src/shell/light.js around the module that worker-build made. Without unwinding only around the objects: there the entry's
 * own class makes a new instance of the module after a panic.
 */
async function makeEntryLight(folder, unwinds) {
  const path = join(ROOT, folder, "index.js");
  const bindings = join(ROOT, folder, "bindings.js");
  renameSync(path, bindings);
  const contents = [
    'import Entry, { OrganizationDurableObject as Organization, SessionDurableObject as Session } from "./bindings.js";',
    'import { lightEntry, lightObject, onTime } from "../src/shell/light.js";',
    'export { SandboxLauncher } from "../src/shell/launcher.js";',
    "export const OrganizationDurableObject = onTime(Organization);",
    "export const SessionDurableObject = lightObject(onTime(Session));",
    unwinds ? "export default lightEntry(Entry);" : "export default Entry;",
  ].join("\n");
  await build({
    stdin: { contents, resolveDir: join(ROOT, folder) },
    outfile: path,
    bundle: true,
    format: "esm",
    target: "es2024",
    minify: true,
    legalComments: "none",
    logLevel: "warning",
    external: ["cloudflare:*", "./index_bg.wasm"],
  });
  rmSync(bindings);
}

/** A wasm module without the custom sections of one name. Everything else keeps its bytes and order. */
function withoutCustomSection(wasm, unwanted) {
  const kept = [wasm.subarray(0, 8)];
  let at = 8;
  while (at < wasm.length) {
    const size = readUnsigned(wasm, at + 1);
    const end = size.next + size.value;
    const name = wasm[at] === 0 ? readUnsigned(wasm, size.next) : undefined;
    const isUnwanted = name && wasm.toString("utf8", name.next, name.next + name.value) === unwanted;
    if (!isUnwanted) kept.push(wasm.subarray(at, end));
    at = end;
  }
  return Buffer.concat(kept);
}

/** An unsigned LEB128 number and the offset behind it. */
function readUnsigned(bytes, start) {
  let value = 0;
  let next = start;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[next];
    if (byte === undefined) throw new Failure("The built wasm file is cut off.");
    next += 1;
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return { value, next };
  }
}
