// The timed part: opens more and more sessions on each server, and at each level measures round by round.

import { Failure } from "../scripts/lib/report.mjs";
import { median, percentile } from "./statistics.mjs";

/** What other operations than tools/call say does not depend on the number of sessions; they are measured with so many. */
const ORDINARY_LEVEL = 100;
/** Above so many sessions McpAgent may fail without ending the run. */
const HARD_LEVEL = 1_000;
/** V8 needs some load before its optimised code is in place. */
const FIRST_WARM_UP_SECONDS = 2;
const WARM_UP_SHARE = 0.25;

/** New sessions are opened by number and not by time: an object that is kept in memory holds files open, of which there are 20 000. */
const NEW_SESSIONS = { warmUp: 500, warmUpAgain: 60, round: 250 };

/**
 * What is measured with how many open sessions: lists of `{sessions, operations}`, each for servers of its own. New sessions
 * come last, because they stay open and would take part in everything after them.
 */
export function planStages({ levels, operations }) {
  const ordinary = levels.includes(ORDINARY_LEVEL) ? ORDINARY_LEVEL : levels[0];
  const stages = levels
    .map((sessions) => ({
      sessions,
      operations: operations.filter((name) => name === "tools/call" || (name !== "initialize" && sessions === ordinary)),
    }))
    .filter((stage) => stage.operations.length > 0);
  const opening = operations.includes("initialize") ? [{ sessions: 1, operations: ["initialize"] }] : [];
  return [stages, opening].filter((part) => part.length > 0);
}

/**
 * Runs all stages. Resolves with `{cells, memory, gaveUp}`: a cell for each operation and level, the memory of each server in
 * bytes, and what is known of an implementation that did not survive.
 */
export async function measure({ clients, stages, rounds, seconds, say }) {
  const run = new Run(clients, seconds, say);
  const cells = [];
  for (const { sessions, operations } of stages) {
    for (const client of run.clients) await run.prepare(client, sessions, operations);
    for (const operation of operations) cells.push(await run.measureCell(operation, sessions, rounds));
    if (!operations.includes("initialize")) for (const client of run.clients) run.noteMemory(client, sessions, "loaded");
  }
  return { cells, memory: run.memory, gaveUp: run.gaveUp };
}

class Run {
  #seconds;
  #say;
  gaveUp = {};

  constructor(clients, seconds, say) {
    this.clients = clients;
    this.#seconds = seconds;
    this.#say = say;
    this.memory = Object.fromEntries(clients.map((client) => [client.name, { started: client.server.memory(), stages: [] }]));
  }

  /** Opens the sessions of a stage and lets the server warm up. */
  async prepare(client, sessions, operations) {
    const began = performance.now();
    const opens = sessions > client.sessionCount;
    await this.#withCare(client, sessions, async () => {
      await client.open(sessions);
      for (const operation of operations) {
        await client.load(operation, limitOf(operation, Math.min(FIRST_WARM_UP_SECONDS, this.#seconds), NEW_SESSIONS.warmUp));
      }
      // In the stage that opens new sessions all the time a number of sessions means nothing.
      if (!operations.includes("initialize")) this.noteMemory(client, sessions, "opened");
      if (opens) this.#say(`${client.name}: ${sessions} sessions open after ${((performance.now() - began) / 1000).toFixed(1)} s`);
    });
  }

  async measureCell(operation, sessions, rounds) {
    const results = {};
    for (let round = 0; round < rounds; round += 1) {
      for (const client of this.clients) {
        await this.#withCare(client, sessions, async () => {
          await client.load(operation, limitOf(operation, this.#seconds * WARM_UP_SHARE, NEW_SESSIONS.warmUpAgain));
          const limit = limitOf(operation, this.#seconds, NEW_SESSIONS.round);
          (results[client.name] ??= []).push(await measureOnce(client, operation, limit));
        });
      }
    }
    for (const name of Object.keys(results)) results[name] = summary(results[name]);
    const cell = { operation, sessions, results };
    this.#say(describe(cell));
    return cell;
  }

  /** `when` is "opened", which is after the warm-up, or "loaded". */
  noteMemory(client, sessions, when) {
    const { stages } = this.memory[client.name];
    if (stages.at(-1)?.sessions !== sessions) stages.push({ sessions });
    stages.at(-1)[when] = client.server.memory();
  }

  /** An exception of `work` ends the run, or the part that McpAgent takes in it. */
  async #withCare(client, sessions, work) {
    try {
      await work();
    } catch (error) {
      const output = client.server.output().trim();
      const what = output ? `${error.message}\n--- the runtime of ${client.name} said:\n${output.slice(-4_000)}` : error.message;
      if (client.name !== "mcp-agent" || sessions <= HARD_LEVEL) throw new Failure(what, { cause: error });
      this.gaveUp[client.name] = `with ${sessions} sessions: ${error.message}`;
      this.#say(`${client.name} gave up ${this.gaveUp[client.name]}`);
      this.clients = this.clients.filter((other) => other !== client);
    }
  }
}

/** How long, or how often, something is asked. */
const limitOf = (operation, seconds, count) => (operation === "initialize" ? { count } : { seconds });

async function measureOnce(client, operation, limit) {
  const cpu = client.server.cpuSeconds();
  const { requests, seconds, latencies, clientSeconds } = await client.load(operation, limit);
  const used = client.server.cpuSeconds() - cpu;
  if (requests === 0) throw new Failure(`${client.name} answered nothing.`);
  const cpuMicros = (used / requests) * 1e6;
  return { throughput: requests / seconds, cpuMicros, busy: used / seconds, clientBusy: clientSeconds / seconds, latencies };
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
  const parts = Object.entries(results).map(([name, { throughput }]) => `${name} ${throughput.toFixed(0)}/s`);
  return `${operation}, ${sessions} ${sessions === 1 ? "session" : "sessions"}: ${parts.join(", ")}`;
}
