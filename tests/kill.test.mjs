// SIGKILL at random moments between the pause and the outcome: the delete ran exactly once, every time.
// `KILLS=50 npm test -- kill` does it fifty times; KILL_SEED repeats a run.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { test } from "node:test";

import { approve, devToken, openSession, shownPause, startGateway, waitFor } from "./harness/index.mjs";

const KILLS = Number(process.env.KILLS ?? 6);
const seed = Number(process.env.KILL_SEED ?? randomInt(1 << 30));

/** mulberry32: enough to choose moments, and repeatable. */
function generator(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

test(`${KILLS} kills between pause and outcome (KILL_SEED=${seed})`, { timeout: KILLS * 30_000 + 60_000 }, async (t) => {
  const random = generator(seed);
  const gateway = await startGateway({ vars: { RESUME_WAIT_MS: "2000", EXECUTION_RECOVERY_MS: "500" } });
  t.after(() => gateway.stop());
  for (let round = 0; round < KILLS; round++) {
    const organization = `kill${round}`;
    const token = devToken({ organization });
    const approver = { token: devToken({ organization, roles: ["approver"] }) };
    const session = await openSession(gateway, { token });
    const code = "const before = (await tools.demo.listItems({})).data.total;\nconst gone = await tools.demo.deleteItem({ id: 'item-2' });\nconst after = (await tools.demo.listItems({})).data.total;\nreturn { gone, before, after };";
    const pause = (await session.tool("execute", { code })).structuredContent;
    assert.equal(pause.status, "user_approval_required");

    // The decision and the kill race; what was lost is asked again, as a person would.
    const moment = random() * 60;
    const decision = approve(gateway, pause, approver).catch((error) => error);
    await new Promise((resolve) => globalThis.setTimeout(resolve, moment)); // the random moment is what is tested
    await gateway.kill();
    await decision;
    await gateway.start();
    await waitFor(
      async () => {
        const { structured } = await shownPause(gateway, pause, approver);
        if (structured.state === "waiting") await approve(gateway, pause, approver);
        return structured.state !== "waiting";
      },
      { what: "the decision is stored" },
    );
    const later = await openSession(gateway, { token });
    const outcome = await waitFor(
      async () => {
        const answer = (await later.tool("resume", { executionId: pause.executionId })).structuredContent;
        return answer.status !== "user_approval_required" && answer;
      },
      { timeout: 20_000, what: "the program has an outcome" },
    );
    assert.equal(outcome.status, "completed", `round ${round}, after ${moment.toFixed(1)} ms: ${JSON.stringify(outcome)}`);
    assert.equal(outcome.result.gone.ok, true, JSON.stringify(outcome));
    assert.equal(outcome.result.after, outcome.result.before - 1);
    const calls = await (await gateway.fetch("/demo/calls", { headers: { authorization: `Bearer ${token}` } })).json();
    assert.equal(calls.deleteItem, 1, `round ${round}, after ${moment.toFixed(1)} ms`);
  }
});
