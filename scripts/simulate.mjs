// `npm run simulate`: the engine's crash simulation with 100 000 crash points, in some minutes.
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
  // The profile that `npm test` has compiled: another one would take longer to compile than this takes to run.
  await run("cargo", ["test", "--all-features", "--lib", "simulation", "--", "--nocapture"], { cwd: ROOT, what: "the simulation", show: "problems", env });
  return 0;
});
