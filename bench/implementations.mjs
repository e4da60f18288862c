// What is compared: three Workers for the same runtime, in the form that miniflare's `convertV4MiniflareOptions` takes.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { loadBindings } from "../tests/harness/bindings.mjs";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const workerFile = (name) => join(FOLDER, "workers", name);

/** In the order of a round. */
export const IMPLEMENTATIONS = ["bare", "mcp-agent", "countersign"];

/** The Worker `name` (`codemode` too, which only runs programs); `bundle` is the folder with Countersign's index.js and index_bg.wasm. */
export async function workerOf(name, { bundle, counting = false, vars = {} }) {
  switch (name) {
    case "bare":
      return javaScriptWorker(name, { className: "BareDurableObject", contents: readFileSync(workerFile("bare.js"), "utf8") });
    case "mcp-agent":
      return javaScriptWorker(name, { className: "EchoAgent", contents: await bundled(workerFile("mcp-agent.js")), flags: ["nodejs_compat"] });
    case "codemode": {
      const { workerLoaders } = await loadBindings();
      return { ...(await javaScriptWorker(name, { contents: await bundled(workerFile("codemode.js")), flags: ["nodejs_compat"] })), workerLoaders };
    }
    case "countersign":
      return countersign(bundle, counting, vars);
    default:
      throw new Error(`there is no implementation ${name}`);
  }
}

async function javaScriptWorker(name, { className, contents, flags = [] }) {
  const { compatibilityDate } = await loadBindings();
  return {
    name,
    // The same date as Countersign's, so that no platform behaviour differs.
    compatibilityDate,
    compatibilityFlags: flags,
    modulesRoot: FOLDER,
    modules: [{ type: "ESModule", path: join(FOLDER, `${name}.js`), contents }],
    durableObjects: className ? keptInMemory({ SESSION: { className, useSQLite: true } }) : {},
  };
}

/** Bundled as `wrangler deploy` does it, for production. */
async function bundled(entry) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    mainFields: ["browser", "module", "main"],
    external: ["cloudflare:*", "node:*"],
    define: { "process.env.NODE_ENV": '"production"' },
    logLevel: "error",
  });
  return outputFiles[0].text;
}

async function countersign(bundle, counting, vars) {
  const options = await loadBindings();
  const durableObjects = keptInMemory(options.durableObjects);
  const own = [
    { type: "ESModule", path: join(bundle, "index.js") },
    { type: "CompiledWasm", path: join(bundle, "index_bg.wasm"), contents: readFileSync(join(bundle, "index_bg.wasm")) },
  ];
  const classes = Object.values(options.durableObjects).map(({ className }) => className);
  return {
    ...options,
    bindings: { ...options.bindings, AUTH_MODE: "dev", DEV_REQUIRE_TOKEN: "true", ...vars },
    durableObjects,
    modulesRoot: bundle,
    modules: counting ? [...countingModules(bundle, classes), ...own] : own,
  };
}

/** The wrapper of workers/counting.js around the bundle; the first module is the Worker. */
function countingModules(bundle, classes) {
  const contents = [
    `import Entry, { ${classes.join(", ")} } from "./index.js";`,
    'import { counted, countedEntry } from "./counting.js";',
    ...classes.map((name) => `const Counted${name} = counted("${name}", ${name});`),
    `export { ${classes.map((name) => `Counted${name} as ${name}`).join(", ")} };`,
    'export { SandboxLauncher } from "./index.js";',
    "export default countedEntry(Entry);",
  ].join("\n");
  return [
    { type: "ESModule", path: join(bundle, "counting-entry.js"), contents },
    { type: "ESModule", path: join(bundle, "counting.js"), contents: readFileSync(workerFile("counting.js"), "utf8") },
  ];
}

/**
 * An object that nobody asks for ten seconds leaves memory. With many sessions the slow implementation would come round to
 * one only after that, the quick ones before, and it would pay for waking up where they do not.
 */
function keptInMemory(durableObjects) {
  const kept = Object.entries(durableObjects).map(([name, options]) => [name, { ...options, unsafePreventEviction: true }]);
  return Object.fromEntries(kept);
}
