// Ratios, and the goals that they are held against.

import { median } from "./statistics.mjs";

/** `least` must be reached, `aim` is what is wanted. */
const AGAINST_MCP_AGENT = { least: 3, aim: 4.5 };
const AGAINST_BARE = { least: 0.6, aim: 0.85 };
const AGAINST_CODEMODE = 1;
const REPLAY = 2;
const OBJECT_REQUESTS = 1;
const ROWS_WRITTEN = 0;
/** What a request may cost more with the most sessions than with one. */
const GROWTH = 1.3;

/**
 * Adds to each cell its `ratios` by implementation: Countersign's throughput by the other's, round by round, and the median of it;
 * and `cpu`, the same by processor time for a request, which other programs on the machine disturb less.
 */
export function addRatios(cells) {
  for (const cell of cells) {
    const own = cell.results.countersign;
    cell.ratios = {};
    for (const [name, other] of Object.entries(cell.results)) {
      if (name === "countersign") continue;
      const rounds = other.rounds.map((throughput, round) => own.rounds[round] / throughput);
      const cpu = median(other.cpuRounds.map((micros, round) => micros / own.cpuRounds[round]));
      cell.ratios[name] = { rounds, median: median(rounds), cpu };
    }
  }
}

/**
 * How the processor time for a tools/call grows from the fewest to the most sessions, by implementation:
 * `{from, to, factors}`; undefined when there are not two levels. The two were measured minutes apart, so of each the least
 * disturbed round counts: what else the machine does can only add.
 */
export function growth(cells) {
  const calls = cells.filter(({ operation }) => operation === "tools/call");
  const [first, last] = [calls.at(0), calls.at(-1)];
  if (calls.length < 2) return undefined;
  const names = Object.keys(first.results).filter((name) => last.results[name]);
  const factors = Object.fromEntries(names.map((name) => [name, leastCpu(last.results[name]) / leastCpu(first.results[name])]));
  return { from: first.sessions, to: last.sessions, factors };
}

const leastCpu = ({ cpuRounds }) => Math.min(...cpuRounds);

/** The goals as `[{goal, measured, met, aim}]`; `met` is undefined for what was not measured, `aim` is whether it is as wanted. */
export function judge({ cells, counts, programs }) {
  const calls = cells.filter(({ operation }) => operation === "tools/call");
  // By throughput and by processor time: on a machine that is busy with other things the first may flatter.
  const lowest = (name) => {
    const ratios = calls.flatMap((call) => (call.ratios[name] ? [call.ratios[name].median, call.ratios[name].cpu] : []));
    return ratios.length > 0 ? Math.min(...ratios) : undefined;
  };
  const grown = growth(cells);
  const factor = grown?.factors.countersign;
  const counted = Object.entries(counts?.operations ?? {}).filter(([name]) => name === "tools/list" || name === "tools/call");
  return [
    atLeast("tools/call by McpAgent, where it is lowest", lowest("mcp-agent"), AGAINST_MCP_AGENT),
    atLeast("tools/call by the bare object, where it is lowest", lowest("bare"), AGAINST_BARE),
    atMost(`cost of a tools/call with ${grown?.to ?? "many"} sessions by that with ${grown?.from ?? "one"}`, factor, GROWTH),
    atMost("time of a program with one call by that of codemode's executor", programs?.ratios.execute, AGAINST_CODEMODE),
    atMost("time of a replay of 100 settled calls by that of a program without calls", programs?.ratios.replay, REPLAY),
    ...counted.flatMap(([name, { objectRequests, rowsWritten }]) => [
      atMost(`Durable Object requests for a ${name}`, objectRequests, OBJECT_REQUESTS),
      atMost(`rows written by a ${name}`, rowsWritten, ROWS_WRITTEN),
    ]),
  ];
}

function atLeast(what, measured, { least, aim }) {
  const reaches = (value) => (measured === undefined ? undefined : measured >= value);
  return { goal: `${what}: at least ${least}, wanted ${aim}`, measured, met: reaches(least), aim: reaches(aim) };
}

function atMost(what, measured, most) {
  return { goal: `${what}: at most ${most}`, measured, met: measured === undefined ? undefined : measured <= most };
}
