// What a run is shown as on the terminal, and kept as in latest.json.

import { bold, dim, green, red, yellow } from "../scripts/lib/report.mjs";
import { growth } from "./goals.mjs";
import { rounded } from "./statistics.mjs";

/** Above this share of a processor core the load generator holds the server back, and the ratios come out too close to 1. */
const CLIENT_LIMIT = 0.85;

export function print({ cells, memory, counts, goals, gaveUp }) {
  for (const cell of cells) printCell(cell);
  printGrowth(growth(cells));
  printMemory(memory);
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
  console.log(dim(`   ${"".padEnd(12)}  requests/s   p50 ms   p95 ms   p99 ms   CPU µs/request   requests/s by round`));
  for (const [name, { throughput, latency, cpuMicros, rounds, clientBusy }] of Object.entries(results)) {
    const ms = ["p50", "p95", "p99"].map((part) => latency[part].toFixed(2).padStart(9)).join("");
    const numbers = `${whole(throughput).padStart(12)}${ms}${whole(cpuMicros).padStart(17)}`;
    const note = clientBusy > CLIENT_LIMIT ? yellow("  the load generator was at its limit") : "";
    console.log(`   ${name.padEnd(12)}${numbers}   ${dim(rounds.map(whole).join(" "))}${note}`);
  }
  for (const [name, { median, rounds }] of Object.entries(ratios)) {
    console.log(`   countersign / ${name.padEnd(10)} ${bold(median.toFixed(2))}  ${dim(rounds.map((each) => each.toFixed(2)).join(" "))}`);
  }
}

function printGrowth(grown) {
  if (!grown) return;
  const parts = Object.entries(grown.factors).map(([name, factor]) => `${name} ${factor.toFixed(2)}`);
  console.log(`\n${bold("CPU time of a tools/call")} with ${grown.to} sessions by that with ${grown.from}: ${parts.join(", ")}`);
}

function printMemory(memory) {
  console.log(`\n${bold("Memory of workerd")} (MB)`);
  for (const [name, { started, stages, perSession }] of Object.entries(memory)) {
    const parts = stages.map(({ sessions, opened, loaded }) => `${sessions} open ${megabytes(opened)}${loaded ? ` → after load ${megabytes(loaded)}` : ""}`);
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

const whole = (value) => value.toFixed(0);
const megabytes = (bytes) => (bytes / 1e6).toFixed(0);

/**
 * Adds `perSession` to each server's memory: what the sessions beyond the first stage's took. Against the end of the first
 * stage and not the start, because by then code is compiled and the heap has grown under load.
 */
export function addBytesPerSession(memory) {
  for (const server of Object.values(memory)) {
    const first = server.stages.at(0);
    const last = server.stages.findLast(({ sessions }) => sessions > first?.sessions);
    // The last stage may be the one that opens sessions itself; the first that reached this level has the clean number.
    const reached = last && server.stages.find(({ sessions }) => sessions === last.sessions);
    if (reached && first.loaded) server.perSession = (reached.opened - first.loaded) / (reached.sessions - first.sessions);
  }
}

/** The run for latest.json: no paths, no names of machines, and no more digits than mean something. */
export function toJson({ run, versions, cells, memory, counts, goals, gaveUp, bytes }) {
  return {
    date: new Date().toISOString().slice(0, 10),
    run,
    versions,
    answerBytes: bytes,
    cells: cells.map(({ operation, sessions, results, ratios }) => ({ operation, sessions, ratios: neat(ratios), results: neat(results) })),
    growth: neat(growth(cells)),
    memoryBytes: neat(memory, 4),
    counts,
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
