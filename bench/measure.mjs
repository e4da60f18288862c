// The timed part: opens more and more sessions on each server, and at each level measures round by round.

import { Failure } from "../scripts/lib/report.mjs";
import { median, percentile } from "./statistics.mjs";

/** Operations other than tools/call say little about many sessions; they are measured with so many. */
const ORDINARY_LEVEL = 100;
/** The level from which on the other implementation may fail without ending the run. */
const HARD_LEVEL = 1_000;
/** V8 needs some seconds of load before its optimised code is in place. */
const FIRST_WARM_UP_SECONDS = 2;
const WARM_UP_SHARE = 0.25;

/**
 * What is measured at which level: `[{sessions, operations}]`. New sessions come last, because they stay open and would
 * take part in everything after them.
 */
export function planStages({ levels, operations }) {
  const ordinary = levels.includes(ORDINARY_LEVEL) ? ORDINARY_LEVEL : levels[0];
  const spread = operations.filter((operation) => operation !== "initialize");
  const stages = levels.map((sessions) => ({
    sessions,
    operations: spread.filter((operation) => operation === "tools/call" || sessions === ordinary),
  }));
  if (operations.includes("initialize")) stages.push({ sessions: levels.at(-1), operations: ["initialize"] });
  return stages.filter((stage) => stage.operations.length > 0);
}

/**
 * Runs all stages. Resolves with `{cells, memory, gaveUp}`: a cell for each operation and level, the memory of each server in
 * bytes, and what is known of an implementation that did not survive.
 */
export async function measure({ clients, stages, rounds, seconds, say }) {
  const cells = [];
  const gaveUp = {};
  const memory = Object.fromEntries(clients.map((client) => [client.name, { started: client.server.memory(), stages: [] }]));
  let running = clients;

  /** Does `work` with one client; false when the client is out from here on. */
  const survives = async (client, sessions, work) => {
    try {
      await work();
      return true;
    } catch (error) {
      if (client.name === "countersign" || client.name === "bare" || sessions <= HARD_LEVEL) throw withOutput(client, error);
      gaveUp[client.name] = `with ${sessions} sessions: ${error.message}`;
      say(`${client.name} gave up ${gaveUp[client.name]}`);
      running = running.filter((other) => other !== client);
      return false;
    }
  };

  for (const { sessions, operations } of stages) {
    for (const client of running) {
      const before = client.sessionCount;
      const began = performance.now();
      await survives(client, sessions, async () => {
        await client.open(sessions);
        for (const operation of operations) await client.load(operation, { seconds: Math.min(FIRST_WARM_UP_SECONDS, seconds) });
        memory[client.name].stages.push({ sessions, opened: client.server.memory() });
      });
      const took = (performance.now() - began) / 1000;
      if (sessions > before) say(`${client.name}: ${sessions} sessions open (${took.toFixed(1)} s)`);
    }
    for (const operation of operations) {
      const cell = { operation, sessions, results: {} };
      cells.push(cell);
      for (let round = 0; round < rounds; round += 1) {
        for (const client of running) {
          await survives(client, sessions, async () => {
            await client.load(operation, { seconds: seconds * WARM_UP_SHARE });
            (cell.results[client.name] ??= []).push(await measureOnce(client, operation, seconds));
          });
        }
      }
      say(describe(cell));
    }
    for (const client of running) {
      const entry = memory[client.name].stages.at(-1);
      entry.loaded = client.server.memory();
      entry.operations = operations;
    }
  }
  for (const cell of cells) cell.results = Object.fromEntries(Object.entries(cell.results).map(([name, each]) => [name, summary(each)]));
  return { cells, memory, gaveUp };
}

async function measureOnce(client, operation, limit) {
  const cpu = client.server.cpuSeconds();
  const { requests, seconds, latencies, clientSeconds } = await client.load(operation, { seconds: limit });
  const used = client.server.cpuSeconds() - cpu;
  if (requests === 0) throw new Failure(`${client.name} answered nothing within ${limit} s.`);
  return { throughput: requests / seconds, cpuMicros: (used / requests) * 1e6, busy: used / seconds, clientBusy: clientSeconds / seconds, latencies };
}

/** Medians over rounds; percentiles over all answers of all rounds. */
function summary(each) {
  const latencies = each.flatMap((one) => one.latencies).sort((a, b) => a - b);
  const latency = Object.fromEntries([50, 95, 99].map((part) => [`p${part}`, percentile(latencies, part / 100)]));
  const of = (what) => median(each.map((one) => one[what]));
  return {
    rounds: each.map((one) => one.throughput),
    cpuRounds: each.map((one) => one.cpuMicros),
    throughput: of("throughput"),
    cpuMicros: of("cpuMicros"),
    busy: of("busy"),
    clientBusy: of("clientBusy"),
    latency,
    requests: latencies.length,
  };
}

function describe({ operation, sessions, results }) {
  const parts = Object.entries(results).map(([name, each]) => `${name} ${median(each.map((one) => one.throughput)).toFixed(0)}/s`);
  return `${operation}, ${sessions} ${sessions === 1 ? "session" : "sessions"}: ${parts.join(", ")}`;
}

function withOutput(client, error) {
  const output = client.server.output().trim();
  if (output) error.message += `\n--- the runtime of ${client.name} said:\n${output.slice(-4_000)}`;
  return error;
}
