// Ratios, and the goals that they are held against.

import { median } from "./statistics.mjs";

/** `least` must be reached, `aim` is what is wanted. */
const AGAINST_MCP_AGENT = { least: 3, aim: 4.5 };
const AGAINST_BARE = { least: 0.6, aim: 0.85 };
const OBJECT_REQUESTS = 1;
const ROWS_WRITTEN = 0;
/** What a request may cost more with the most sessions than with one. */
const GROWTH = 1.3;

/** Adds to each cell its `ratios`: Countersign's throughput by that of another, round by round, and the median of it. */
export function addRatios(cells) {
  for (const cell of cells) {
    const own = cell.results.countersign.rounds;
    cell.ratios = {};
    for (const [name, { rounds }] of Object.entries(cell.results)) {
      if (name === "countersign") continue;
      const each = rounds.map((other, round) => own[round] / other);
      cell.ratios[name] = { rounds: each, median: median(each) };
    }
  }
}

/**
 * How the processor time for a tools/call grows from the fewest to the most sessions, by implementation:
 * `{from, to, factors}`; undefined when there are not two levels. Processor time, because the two were measured minutes
 * apart, and it depends less than throughput on what else the machine did meanwhile.
 */
export function growth(cells) {
  const calls = cells.filter(({ operation }) => operation === "tools/call");
  const [first, last] = [calls.at(0), calls.at(-1)];
  if (calls.length < 2) return undefined;
  const names = Object.keys(first.results).filter((name) => last.results[name]);
  const factors = Object.fromEntries(names.map((name) => [name, last.results[name].cpuMicros / first.results[name].cpuMicros]));
  return { from: first.sessions, to: last.sessions, factors };
}

/** The goals as `[{goal, measured, met, aim}]`; `met` is undefined for what was not measured, `aim` is whether it is as wanted. */
export function judge({ cells, counts }) {
  const calls = cells.filter(({ operation }) => operation === "tools/call");
  const slowest = (name) => calls.map(({ ratios }) => ratios[name]?.median).filter(Boolean).toSorted((a, b) => a - b)[0];
  const grown = growth(cells);
  const factor = grown?.factors.countersign;
  const counted = Object.entries(counts?.operations ?? {}).filter(([name]) => name === "tools/list" || name === "tools/call");
  return [
    atLeast("tools/call by McpAgent, at the level where it is lowest", slowest("mcp-agent"), AGAINST_MCP_AGENT),
    atLeast("tools/call by the bare object, at the level where it is lowest", slowest("bare"), AGAINST_BARE),
    atMost(grown ? `cost of a tools/call with ${grown.to} sessions by that with ${grown.from}` : "cost of a tools/call with many sessions", factor, GROWTH),
    ...counted.flatMap(([name, { objectRequests, rowsWritten }]) => [
      atMost(`Durable Object requests for a ${name}`, objectRequests, OBJECT_REQUESTS),
      atMost(`rows written by a ${name}`, rowsWritten, ROWS_WRITTEN),
    ]),
  ];
}

function atLeast(what, measured, { least, aim }) {
  const known = measured !== undefined;
  return { goal: `${what}: at least ${least}, wanted ${aim}`, measured, met: known ? measured >= least : undefined, aim: known ? measured >= aim : undefined };
}

function atMost(what, measured, most) {
  return { goal: `${what}: at most ${most}`, measured, met: measured === undefined ? undefined : measured <= most };
}
