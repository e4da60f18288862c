// One whole run: starts the servers, measures, counts, judges.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

import { ROOT } from "../scripts/lib/paths.mjs";
import { Failure, heading, say } from "../scripts/lib/report.mjs";
import { Client } from "./client.mjs";
import { countCosts } from "./counts.mjs";
import { addRatios, judge } from "./goals.mjs";
import { IMPLEMENTATIONS, workerOf } from "./implementations.mjs";
import { IN_FLIGHT } from "./load.mjs";
import { measure, planStages } from "./measure.mjs";
import { measurePrograms } from "./programs.mjs";
import { addBytesPerSession } from "./report.mjs";
import { startServer } from "./server.mjs";

/** What a bundle is made of. */
const SOURCES = ["src", "Cargo.toml", "Cargo.lock"];

/** Runs everything. Resolves with what report.mjs prints and writes. */
export async function runBenchmark({ bundle, rounds, seconds, levels, operations, query, tool, throughEntry, complete }) {
  const clients = [];
  const stop = async () => {
    for (const client of clients.splice(0)) {
      await client.close();
      await client.server.stop();
    }
  };
  const bytes = {};
  const start = async () => {
    heading("Starting one workerd for each implementation");
    for (const name of IMPLEMENTATIONS) {
      const server = await startServer(await workerOf(name, { bundle }), { throughEntry });
      const client = new Client(name, server, name === "countersign" ? { query, tool } : {});
      clients.push(client);
      bytes[name] = await client.inspect(operations).catch((error) => {
        const advice = name === "countersign" ? " Was this bundle built with the cargo feature conformance?" : "";
        throw new Failure(`${error.message}${advice}`, { cause: error });
      });
      say(`${name}: ${(server.memory() / 1e6).toFixed(0)} MB, answers in bytes: ${JSON.stringify(bytes[name])}`);
    }
  };
  try {
    const measured = { cells: [], memory: {}, gaveUp: {} };
    for (const stages of planStages({ levels, operations })) {
      await start();
      heading(`Measuring: ${rounds} rounds of ${seconds} s, ${IN_FLIGHT} requests in flight`);
      const part = await measure({ clients, stages, rounds, seconds, say });
      measured.cells.push(...part.cells);
      measured.memory = { ...part.memory, ...measured.memory };
      Object.assign(measured.gaveUp, part.gaveUp);
      await stop();
    }
    addRatios(measured.cells);
    addBytesPerSession(measured.memory);

    heading(`Running programs: ${rounds} rounds`);
    const programs = await measurePrograms({ bundle, rounds, say });

    heading("Counting what a request costs");
    const counts = await countCosts({ bundle, operations, query, tool });
    return {
      ...measured,
      counts,
      programs,
      bytes,
      goals: judge({ cells: measured.cells, counts, programs }),
      run: { complete, rounds, seconds, inFlight: IN_FLIGHT, levels, operations, query, tool, throughEntry, processors: availableParallelism() },
      versions: versions(bundle),
    };
  } finally {
    await stop();
  }
}

function versions(bundle) {
  const version = (...path) => JSON.parse(readFileSync(join(ROOT, ...path, "package.json"), "utf8")).version;
  const installed = (name) => version("node_modules", name);
  const compared = (...name) => version("bench", "node_modules", ...name);
  return {
    countersign: version(),
    commit: commit(),
    // A bundle that somebody names need not be of that commit.
    bundle: createHash("sha256").update(readFileSync(join(bundle, "index_bg.wasm"))).digest("hex").slice(0, 16),
    agents: compared("agents"),
    "@cloudflare/codemode": compared("@cloudflare", "codemode"),
    "@modelcontextprotocol/sdk": compared("@modelcontextprotocol/sdk"),
    workerd: installed("workerd"),
    miniflare: installed("miniflare"),
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
  };
}

/** The commit, with a `+` when the sources differ from it; null outside of git. */
function commit() {
  try {
    const git = (...args) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
    return git("rev-parse", "HEAD") + (git("status", "--porcelain", "--", ...SOURCES) === "" ? "" : "+");
  } catch {
    return null;
  }
}
