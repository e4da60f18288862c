// SIGKILL at random moments between the pause and the outcome: the delete ran exactly once, every time.
// `KILLS=50 npm test -- kill` does it fifty times; KILL_SEED repeats a run.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { approve, devToken, openSession, seeded, shownPause, startGateway, waitFor } from "./harness/index.mjs";

const KILLS = Number(process.env.KILLS ?? 6);
const seed = Number(process.env.KILL_SEED ?? randomInt(1 << 30));

test(`${KILLS} kills between pause and outcome (KILL_SEED=${seed})`, { timeout: KILLS * 30_000 + 60_000 }, async (t) => {
  const random = seeded(seed);
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

const ORGANIZATION = "OrganizationDurableObject";

/** Takes the demo API's promise away that a request which carries a key is carried out once. */
async function forgetIdempotency(gateway) {
  const { DatabaseSync } = await import("node:sqlite");
  const files = readdirSync(gateway.stateDir, { recursive: true }).filter((path) => path.includes(`-${ORGANIZATION}`) && path.endsWith(".sqlite") && !path.includes("metadata"));
  let changed = 0;
  for (const file of files) {
    const database = new DatabaseSync(join(gateway.stateDir, file));
    try {
      if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'source'").all().length === 0) continue;
      const rows = database.prepare("SELECT slug, json FROM source").all();
      for (const { slug, json } of rows) {
        const source = JSON.parse(json);
        const key = Object.keys(source).find((name) => /idempotency/i.test(name));
        source[key] = false;
        changed += database.prepare("UPDATE source SET json = ? WHERE slug = ?").run(JSON.stringify(source), slug).changes;
      }
    } finally {
      database.close();
    }
  }
  if (changed === 0) throw new Error("there was no source to change");
}

test(`${KILLS} kills of programs that mix reads and writes which must not be repeated: none lost, none doubled (KILL_SEED=${seed})`, { timeout: KILLS * 40_000 + 60_000 }, async (t) => {
  const random = seeded(seed + 1);
  const stateDir = mkdtempSync(join(tmpdir(), "countersign-kill-"));
  const gateway = await startGateway({ stateDir, vars: { RESUME_WAIT_MS: "2000", EXECUTION_RECOVERY_MS: "500" } });
  t.after(async () => {
    await gateway.stop();
    rmSync(stateDir, { recursive: true, force: true });
  });
  const token = devToken({ organization: "killmix" });
  const approver = { token: devToken({ organization: "killmix", roles: ["approver"] }) };
  const first = await openSession(gateway, { token });
  await first.tool("execute", { code: "return await tools.search({ query: 'item' })" });
  await gateway.kill();
  await forgetIdempotency(gateway);
  await gateway.start();
  const count = async () => (await gateway.fetch("/demo/calls", { headers: { authorization: `Bearer ${token}` } })).json();
  const code = `const made: string[] = [];
    const note = (name: string, r: any) => { made.push(name + ":" + (r.ok ? "ok" : r.error.code)); return r; };
    await tools.demo.listItems({});
    const [a, b] = await Promise.all([tools.demo.createItem({ name: "a", quantity: 1 }), tools.demo.createItem({ name: "b", quantity: 1 }), tools.demo.getItem({ id: "item-1" })]);
    note("create", a); note("create", b);
    await sleep(5);
    note("update", await tools.demo.updateItem({ id: "item-1", quantity: 3 }));
    await tools.demo.listItems({});
    note("create", await tools.demo.createItem({ name: "c", quantity: 1 }));
    return made;`;
  let unknown = 0;
  for (let round = 0; round < KILLS; round++) {
    const before = await count();
    const session = await openSession(gateway, { token });
    let answer = (await session.tool("execute", { code })).structuredContent;
    assert.equal(answer.status, "user_approval_required", JSON.stringify(answer));
    const killIn = Math.floor(random() * 2);
    const moment = random() * 80;
    let pauses = 0, killed = false;
    const deadline = Date.now() + 30_000;
    while (!["completed", "error"].includes(answer.status)) {
      assert.ok(Date.now() < deadline, `round ${round}: ${JSON.stringify(answer)}`);
      const { structured } = await shownPause(gateway, answer, approver);
      const waits = structured.state === "waiting";
      const decision = waits ? approve(gateway, answer, approver).catch((error) => error) : undefined;
      if (waits && !killed && pauses++ === killIn) {
        killed = true;
        await new Promise((resolve) => globalThis.setTimeout(resolve, moment)); // the random moment is what is tested
        await gateway.kill();
        await decision;
        await gateway.start();
        continue;
      }
      await decision;
      const { executionId, approvalUrl } = answer;
      const later = await openSession(gateway, { token });
      answer = { approvalUrl, ...(await later.tool("resume", { executionId })).structuredContent };
    }
    const what = `round ${round}, killed at pause ${killIn} after ${moment.toFixed(1)} ms: ${JSON.stringify(answer)}`;
    assert.ok(killed, what);
    assert.equal(answer.status, "completed", what);
    const after = await count();
    for (const [name, counted] of [["create", "createItem"], ["update", "updateItem"]]) {
      const mine = answer.result.filter((one) => one.startsWith(name));
      const [done, lost] = [mine.filter((one) => one.endsWith(":ok")).length, mine.filter((one) => one.endsWith(":outcome_unknown")).length];
      assert.equal(done + lost, mine.length, what);
      const times = after[counted] - before[counted];
      assert.ok(times >= done && times <= done + lost, `${counted} ran ${times} times. ${what}`);
      unknown += lost;
    }
  }
  t.diagnostic(`${unknown} outcomes were unknown, and told as such`);
});
