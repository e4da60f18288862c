// Programs: a cold `execute` with one call against the executor of `@cloudflare/codemode`, and what a replay costs.
//
// One program at a time, each in an isolate that was never there before: what is measured is time, not throughput.

import { Failure } from "../scripts/lib/report.mjs";
import { approve, devToken, openSession } from "../tests/harness/index.mjs";
import { workerOf } from "./implementations.mjs";
import { startServer } from "./server.mjs";
import { median, percentile } from "./statistics.mjs";

/** Settled calls that a replay is given. */
const SETTLED = 100;
/** How long a program that waits stays in memory here, in milliseconds: it has to be replayed. */
const SUSPEND_AFTER_MS = 1;
/** How long a program sleeps before it is replayed, in milliseconds: until then the end of the one before it was told. */
const SLEEP_MS = 1_500;

/**
 * Resolves with `{rounds, settled, codemode, countersign, cold, replay, approved, ratios}`: of each kind the milliseconds of every
 * round, their median and `p95`; and `ratios`, Countersign's by codemode's, and a replay's by a cold start's.
 */
export async function measurePrograms({ bundle, rounds, say }) {
  const codemode = await startServer(await workerOf("codemode", {}));
  const vars = { SUSPEND_AFTER_MS: String(SUSPEND_AFTER_MS), RESUME_WAIT_MS: "30000" };
  const own = await startServer(await workerOf("countersign", { bundle, vars })).catch(async (error) => {
    await codemode.stop();
    throw error;
  });
  try {
    const gateway = { url: own.url };
    const session = await openSession(gateway, { token: devToken({ account: "programs", organization: "bench" }), query: { tool_mode: "code" } });
    const approver = { token: devToken({ account: "programs", organization: "bench", roles: ["approver"] }) };
    const kinds = {
      codemode: () => timed(() => runInCodemode(codemode.url)),
      countersign: () => timed(() => run(session, "const { data } = await tools.sources.list(); return data !== undefined", true)),
      cold: () => timed(() => run(session, "return true", true)),
      replay: () => replayed(gateway, session, approver),
      approved: () => approved(gateway, session, approver),
    };
    const times = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
    // The first round warms up what both servers keep, and does not count.
    for (let round = 0; round <= rounds; round += 1) {
      for (const [kind, once] of Object.entries(kinds)) {
        const time = await once();
        if (round > 0) times[kind].push(time);
      }
    }
    const { codemode: theirs, countersign, cold, replay, approved: decided } = Object.fromEntries(Object.entries(times).map(([kind, each]) => [kind, summary(each)]));
    const ratios = { execute: countersign.median / theirs.median, replay: replay.median / cold.median };
    say(`a program with one call: codemode ${theirs.median.toFixed(1)} ms, countersign ${countersign.median.toFixed(1)} ms`);
    say(`without calls ${cold.median.toFixed(1)} ms, a replay of ${SETTLED} settled calls ${replay.median.toFixed(1)} ms`);
    say(`the same with a decision and the call that was decided on ${decided.median.toFixed(1)} ms`);
    return { rounds, settled: SETTLED, codemode: theirs, countersign, cold, replay, approved: decided, ratios };
  } finally {
    await Promise.all([codemode.stop(), own.stop()]);
  }
}

async function timed(work) {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

async function runInCodemode(url) {
  const code = "async () => { const { message } = await codemode.echo({ message: 'x' }); return message === 'x'; }";
  const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code }) });
  const { result, error } = await response.json();
  if (result !== true) throw new Failure(`codemode: the program gave ${JSON.stringify({ result, error })}`);
}

async function run(session, code, expected) {
  const { structuredContent } = await session.tool("execute", { code });
  if (structuredContent.result !== expected) throw new Failure(`countersign: the program gave ${JSON.stringify(structuredContent)}`);
}

/**
 * From the moment at which a program wakes whose sandbox was dropped to its result: new sandbox, all results, the end, the answer. The
 * program's clock shows that moment after its sleep, and it is this machine's.
 */
async function replayed(gateway, session, approver) {
  const code = `
    for (let i = 0; i < ${SETTLED}; i += 1) await tools.sources.list();
    await sleep(${SLEEP_MS});
    return Date.now();`;
  const { structuredContent } = await session.tool("execute", { code });
  const ended = Date.now();
  const history = await fetch(new URL(`/api/mcp-sessions/${session.id}/executions`, gateway.url), { headers: { authorization: `Bearer ${approver.token}` } });
  const [{ replays }] = (await history.json()).structured.executions;
  if (replays !== 1) throw new Failure(`countersign: the program was replayed ${replays} times, not once`);
  if (typeof structuredContent.result !== "number") throw new Failure(`countersign: the program gave ${JSON.stringify(structuredContent)}`);
  return ended - structuredContent.result;
}

/** From the decision on a program whose sandbox was dropped to its result: two requests of the person's, a replay, the call, the end. */
async function approved(gateway, session, approver) {
  const code = `
    for (let i = 0; i < ${SETTLED}; i += 1) await tools.sources.list();
    return (await tools.demo.updateItem({ id: "item-1", quantity: 1 })).ok !== undefined;`;
  const { structuredContent: pause } = await session.tool("execute", { code });
  if (pause.status !== "user_approval_required") throw new Failure(`countersign: the program did not wait: ${JSON.stringify(pause)}`);
  // A request to the object lets it look at the time; the sandbox goes then at the latest.
  await session.call("ping");
  const began = performance.now();
  const { status } = await approve(gateway, pause, approver);
  if (status !== 200) throw new Failure(`countersign: the approval answered ${status}`);
  const { structuredContent } = await session.tool("resume", { executionId: pause.executionId });
  if (structuredContent.result !== true) throw new Failure(`countersign: the program gave ${JSON.stringify(structuredContent)}`);
  return performance.now() - began;
}

function summary(times) {
  const sorted = times.toSorted((a, b) => a - b);
  return { times, median: median(times), p95: percentile(sorted, 0.95) };
}
