// `npm run simulate`: the engine's crash simulation, 100 000 crash points in an optimised build.
//
// SIMULATION_CRASH_POINTS sets the number, SIMULATION_SEED where to start; a failure prints its seed.

import { ROOT } from "./lib/paths.mjs";
import { runScript } from "./lib/report.mjs";
import { ensureNode } from "./lib/node.mjs";

await runScript(async () => {
  await ensureNode();
  const { run } = await import("./lib/command.mjs");
  const { ensureRust } = await import("./lib/rust.mjs");
  await ensureRust({});
  const env = {
    SIMULATION_CRASH_POINTS: process.env.SIMULATION_CRASH_POINTS ?? "100000",
    // The release profile is for a small bundle: it takes ten times as long to compile.
    CARGO_PROFILE_RELEASE_LTO: "off",
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS: "16",
    CARGO_PROFILE_RELEASE_OPT_LEVEL: "1",
  };
  await run("cargo", ["test", "--release", "--lib", "simulation", "--", "--nocapture"], { cwd: ROOT, what: "the simulation", show: "problems", env });
  return 0;
});
