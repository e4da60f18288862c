// `npm run simulate`: the engine's crash simulation, 100 000 crash points in a release build.
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
  const env = { SIMULATION_CRASH_POINTS: process.env.SIMULATION_CRASH_POINTS ?? "100000" };
  await run("cargo", ["test", "--release", "--lib", "simulation", "--", "--nocapture"], { cwd: ROOT, what: "the simulation", env });
  return 0;
});
