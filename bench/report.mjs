// What a run is shown as on the terminal, and kept as in latest.json.

import { bold, dim, green, red, yellow } from "../scripts/lib/report.mjs";
import { growth } from "./goals.mjs";
import { rounded } from "./statistics.mjs";

/** Above this share of a processor core the load generator holds the server back, and the ratios come out too close to 1. */
const CLIENT_LIMIT = 0.85;
/** Below this share of a core something else had the processor: the server is kept busy all the time. */
const LEAST_BUSY = 0.9;
const MANY_SESSIONS = 500;

export function print({ cells, memory, counts, programs, goals, gaveUp }) {
  for (const cell of cells) printCell(cell);
  printDisturbance(cells);
  printGrowth(growth(cells));
  printMemory(memory);
  if (programs) printPrograms(programs);
  if (counts) printCounts(counts);
  for (const [name, why] of Object.entries(gaveUp)) console.log(`\n${yellow(`${name} gave up ${why}`)}`);
  console.log(`\n${bold("Goals")}`);
  for (const { goal, measured, met, aim } of goals) {
    const verdict = met === undefined ? yellow("not measured") : met ? green("met") : red("not met");
    const wanted = met && aim === false ? dim(" (not yet as wanted)") : "";
    console.log(`   ${goal}: ${measured === undefined ? "" : `${rounded(measured)} `}${verdict}${wanted}`);
  }
}

function printCell({ operation, sessions, results, ratios }) {
  console.log(`\n${bold(operation)}, ${sessions} ${sessions === 1 ? "session" : "sessions"}`);
  console.log(dim(`   ${"".padEnd(12)}  requests/s   p50 ms   p95 ms   p99 ms   CPU µs/request   CPU busy   requests/s by round`));
  for (const [name, { throughput, latency, cpuMicros, busy, rounds, clientBusy }] of Object.entries(results)) {
    const ms = ["p50", "p95", "p99"].map((part) => latency[part].toFixed(2).padStart(9)).join("");
    const numbers = `${whole(throughput).padStart(12)}${ms}${whole(cpuMicros).padStart(17)}${`${whole(busy * 100)} %`.padStart(11)}`;
    const note = clientBusy > CLIENT_LIMIT ? yellow("  the load generator was at its limit") : "";
    console.log(`   ${name.padEnd(12)}${numbers}   ${dim(rounds.map(whole).join(" "))}${note}`);
  }
  for (const [name, { median, rounds, cpu }] of Object.entries(ratios)) {
    const byRound = rounds.map((each) => each.toFixed(2)).join(" ");
    console.log(`   countersign / ${name.padEnd(10)} ${bold(median.toFixed(2))}  ${dim(`by round ${byRound}; by CPU time ${cpu.toFixed(2)}`)}`);
  }
}

function printDisturbance(cells) {
  // New sessions wait for the disk as well.
  const busy = cells.filter(({ operation }) => operation !== "initialize").map(({ results }) => results.countersign.busy);
  const least = Math.min(...busy);
  if (least >= LEAST_BUSY || busy.length === 0) return;
  console.log(yellow(`\nSomething else kept the machine busy: workerd got as little as ${whole(least * 100)} % of a core. Trust the ratios by CPU time.`));
}

function printGrowth(grown) {
  if (!grown) return;
  const parts = Object.entries(grown.factors).map(([name, factor]) => `${name} ${factor.toFixed(2)}`);
  console.log(`\n${bold("CPU time of a tools/call")} with ${grown.to} sessions by that with ${grown.from}: ${parts.join(", ")}`);
}

function printMemory(memory) {
  console.log(`\n${bold("Memory of workerd")} (MB)`);
  for (const [name, { started, stages, perSession }] of Object.entries(memory)) {
    const parts = stages.map(({ sessions, opened, loaded }) => {
      const after = loaded ? `, after load ${megabytes(loaded)}` : "";
      return `${sessions} open ${megabytes(opened)}${after}`;
    });
    const each = perSession === undefined ? "" : `   ${(perSession / 1000).toFixed(1)} kB a session`;
    console.log(`   ${name.padEnd(12)} started ${megabytes(started)}; ${parts.join("; ")}${each}`);
  }
}

function printCounts({ method, operations }) {
  console.log(`\n${bold("What one request costs Countersign")} ${dim(`(counted by ${method})`)}`);
  for (const [name, { objectRequests, rowsWritten, statements }] of Object.entries(operations)) {
    console.log(`   ${name.padEnd(12)} ${objectRequests} requests to Durable Objects, ${rowsWritten} rows written, ${statements} SQL statements`);
  }
}

function printPrograms({ codemode, countersign, cold, replay, approved, settled, ratios }) {
  console.log(`\n${bold("Programs")} ${dim("(ms, each in an isolate of its own)")}`);
  const line = (what, { median, p95 }) => console.log(`   ${what.padEnd(36)} p50 ${median.toFixed(1).padStart(7)}   p95 ${p95.toFixed(1).padStart(7)}`);
  line("codemode, one call", codemode);
  line("countersign, one call", countersign);
  line("countersign, no call", cold);
  line(`countersign, replay of ${settled} calls`, replay);
  line("countersign, decision to result of that", approved);
  console.log(`   countersign / codemode ${bold(ratios.execute.toFixed(2))}, replay / no call ${bold(ratios.replay.toFixed(2))}`);
}

const whole = (value) => value.toFixed(0);
const megabytes = (bytes) => (bytes / 1e6).toFixed(0);

/**
 * Adds `perSession` to each server's memory: what the sessions beyond the first stage's took. Against the end of the first
 * stage and not the start, because by then code is compiled and the heap has grown under load.
 */
export function addBytesPerSession(memory) {
  for (const server of Object.values(memory)) {
    const [first, last] = [server.stages.at(0), server.stages.findLast(({ opened }) => opened)];
    const sessions = (last?.sessions ?? 0) - (first?.sessions ?? 0);
    // What the heap grows and shrinks by itself is more than a few sessions.
    if (sessions >= MANY_SESSIONS) server.perSession = (last.opened - first.loaded) / sessions;
  }
}

/** The run for latest.json: no paths, no names of machines, and no more digits than mean something. */
export function toJson({ run, versions, cells, memory, counts, programs, goals, gaveUp, bytes }) {
  return {
    date: new Date().toISOString().slice(0, 10),
    run,
    versions,
    answerBytes: bytes,
    cells: cells.map((cell) => ({ ...cell, ratios: neat(cell.ratios), results: neat(cell.results) })),
    growth: neat(growth(cells)),
    memoryBytes: neat(memory, 4),
    counts,
    programs: neat(programs),
    goals: goals.map(({ goal, measured, met, aim }) => ({ goal, measured: rounded(measured), met, aim })),
    gaveUp,
  };
}

function neat(value, digits = 3) {
  if (typeof value === "number") return Number.isInteger(value) && value < 100_000 ? value : rounded(value, digits);
  if (Array.isArray(value)) return value.map((each) => neat(each, digits));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, neat(each, digits)]));
}
