// `npm run clean [-- --all]`: removes what was built and what local servers stored; with --all the npm packages too.
// The tools in the per-user cache stay.

import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "./lib/paths.mjs";

const built = readdirSync(ROOT).filter((name) => name === "build" || name.startsWith("build-"));
const folders = [...built, "target", ".state", ".wrangler", ...(process.argv.includes("--all") ? ["node_modules", "bench/node_modules", "conformance/node_modules"] : [])];
for (const folder of folders) rmSync(join(ROOT, folder), { recursive: true, force: true });
console.log(`removed ${folders.join(", ")}`);
