// Pauses and decisions: what waits, who may decide, what happens then, and after a crash.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { approve, decide, decline, devToken, openSession, shownPause, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "4000" } });
});
after(() => gateway.stop());

// Each test has an organization, and so an inventory, of its own.
let organizations = 0;
async function scene(options = {}) {
  const organization = `org${++organizations}`;
  const token = devToken({ organization });
  const session = await openSession(gateway, { token, ...options });
  return {
    organization,
    token,
    session,
    approver: { token: devToken({ organization, roles: ["approver"] }) },
    execute: async (code) => (await session.tool("execute", { code })).structuredContent,
    resume: async (pause, more = {}) => (await session.tool("resume", { executionId: pause.executionId, ...more })).structuredContent,
    deletes: async () => (await (await gateway.fetch("/demo/calls", { headers: { authorization: `Bearer ${token}` } })).json()).deleteItem,
  };
}

const DELETE_ONE = "return await tools.demo.deleteItem({ id: 'item-3' })";
const DELETE_THREE = "return await Promise.all(['item-1', 'item-2', 'item-3'].map((id) => tools.demo.deleteItem({ id })))";

test("a risky call waits, is shown whole, and runs once after approval", async () => {
  const { execute, resume, deletes, approver } = await scene();
  const pause = await execute(`const listed = await tools.demo.listItems({});\n${DELETE_ONE}`);
  assert.equal(pause.status, "user_approval_required");
  assert.match(pause.executionId, /^exec_/);
  assert.match(pause.approvalUrl, /^http:\/\/[^/]+\/resume\/exec_[\w-]+\?mcp_session_id=[0-9a-f]{64}$/);
  assert.ok(Date.parse(pause.expiresAt) > Date.now());
  assert.deepEqual(pause.pending, [{ call: 1, address: "demo.deleteItem", args: { id: "item-3" }, line: 2 }]);
  assert.equal(await deletes(), 0);

  const shown = await shownPause(gateway, pause, approver);
  assert.equal(shown.status, "ok");
  const [item] = shown.structured.items;
  assert.deepEqual([item.method, item.address, item.arguments], ["DELETE", "demo.deleteItem", '{"id":"item-3"}']);
  assert.equal(item.url, new URL("/demo/items/item-3", gateway.url).href);
  assert.match(shown.structured.program, /deleteItem/);
  assert.equal(shown.structured.others.length, 1);

  const decided = await approve(gateway, pause, approver);
  assert.equal(decided.status, 200);
  assert.deepEqual(decided.body.structured, { status: "approved", executionId: pause.executionId });
  assert.equal(decided.body.isError, false);
  const outcome = await resume(pause);
  assert.deepEqual([outcome.status, outcome.result.ok], ["completed", true]);
  assert.equal(await deletes(), 1);
  assert.deepEqual(await resume(pause), outcome, "a repeated resume replays the outcome");
  assert.equal(await deletes(), 1);
});

test("a declined call is never sent, and the program is told why", async () => {
  const { execute, resume, deletes, approver } = await scene();
  const pause = await execute(DELETE_ONE);
  const decided = await decline(gateway, pause, "not today", approver);
  assert.equal(decided.body.structured.status, "denied");
  const outcome = await resume(pause);
  assert.deepEqual(outcome.result.error.code, "declined");
  assert.deepEqual(outcome.result.error.reason, "not today");
  assert.equal(await deletes(), 0);
});

test("cancel ends the program and sends nothing", async () => {
  const { execute, resume, deletes, approver } = await scene();
  const pause = await execute(DELETE_THREE);
  const { digest } = await shownPause(gateway, pause, approver);
  const decided = await decide(gateway, pause, { action: "cancel", digest }, approver);
  assert.equal(decided.body.structured.status, "canceled");
  const outcome = await resume(pause);
  assert.deepEqual([outcome.status, outcome.error.code], ["error", "cancelled"]);
  assert.equal(await deletes(), 0);
});

test("a program that sleeps or runs is cancelled without a digest, by a pause or by its own id", async () => {
  const { session, execute, resume, approver, deletes } = await scene();
  const asleep = await execute("await sleep(3_600_000); return await tools.demo.deleteItem({ id: 'item-1' })");
  assert.equal(asleep.status, "sleeping");
  const pause = { ...asleep, sessionId: session.id };
  const decided = await decide(gateway, pause, { action: "cancel", reason: "enough" }, approver);
  assert.deepEqual([decided.status, decided.body.structured.status], [200, "canceled"]);
  assert.equal((await resume(asleep)).error.code, "cancelled");
  assert.equal((await shownPause(gateway, pause, approver)).structured.stopped.reason, "enough");
  assert.equal((await decide(gateway, pause, { action: "cancel" }, approver)).status, 409);

  const history = async () => (await (await gateway.fetch(`/api/mcp-sessions/${session.id}/executions`, { headers: { authorization: `Bearer ${approver.token}` } })).json()).structured.executions;
  const running = execute("for (;;) await sleep(100)");
  const { id } = await waitFor(async () => (await history()).find(({ endedAt }) => endedAt === null));
  const own = { executionId: id, sessionId: session.id };
  assert.equal((await decide(gateway, own, { action: "accept", digest: "0".repeat(64) }, approver)).status, 400);
  assert.equal((await decide(gateway, own, { action: "cancel" }, { token: devToken({ account: "eve", organization: "elsewhere", roles: ["approver"] }) })).status, 403);
  assert.equal((await decide(gateway, own, { action: "cancel" }, approver)).status, 200);
  assert.equal((await running).error.code, "cancelled");
  assert.equal((await decide(gateway, own, { action: "cancel" }, approver)).status, 409);
  const [stopped] = await history();
  assert.deepEqual([stopped.status, stopped.stopped.by], ["cancelled", "ada"]);
  assert.equal(await deletes(), 0);
});

test("three gated calls are one pause, decided one by one in any order", async () => {
  const { execute, resume, deletes, approver } = await scene();
  const pause = await execute(DELETE_THREE);
  assert.deepEqual(pause.pending.map(({ call, args }) => [call, args.id]), [[0, "item-1"], [1, "item-2"], [2, "item-3"]]);
  const { structured } = await shownPause(gateway, pause, approver);
  const one = (call, action, extra = {}) =>
    decide(gateway, pause, { decisions: [{ call, digest: structured.items[call].digest, action, ...extra }] }, approver);
  assert.equal((await one(2, "accept")).body.executionStatus, "paused");
  await waitFor(async () => (await deletes()) === 1);
  assert.equal((await one(0, "decline", { reason: "keep it" })).body.executionStatus, "paused");
  assert.equal((await resume(pause)).status, "user_approval_required", "still the same pause");
  assert.equal((await one(1, "accept")).body.executionStatus, "completed");
  const outcome = await resume(pause);
  assert.deepEqual(outcome.result.map((r) => (r.ok ? "ok" : r.error.reason)), ["keep it", "ok", "ok"]);
  assert.equal(await deletes(), 2);
});

test("twenty approvals at once have one winner", async () => {
  const { execute, resume, deletes, approver } = await scene();
  const pause = await execute(DELETE_ONE);
  const { digest } = await shownPause(gateway, pause, approver);
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => decide(gateway, pause, { action: i % 3 ? "accept" : "decline", digest }, approver)));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(19).fill(409)]);
  const refused = answers.find(({ status }) => status === 409).body;
  assert.match(refused.error.message, /already.*(approved|denied) by ada/i);
  const outcome = await resume(pause);
  assert.equal(await deletes(), outcome.result.ok ? 1 : 0);
});

test("a decision needs the digest of what was shown", async () => {
  const { execute, deletes, approver } = await scene();
  const pause = await execute(DELETE_THREE);
  const { digest, structured } = await shownPause(gateway, pause, approver);
  const send = (decision) => decide(gateway, pause, decision, approver);
  assert.equal((await send({ action: "accept" })).status, 400);
  assert.equal((await send({ action: "accept", digest: "f".repeat(64) })).status, 409);
  assert.equal((await send({ action: "approve", digest })).status, 400);
  assert.equal((await send({ decisions: [] })).status, 400);
  assert.equal((await send({ decisions: [{ call: 9, digest, action: "accept" }] })).status, 400);
  assert.equal((await send({ decisions: [{ call: 0, digest: structured.items[1].digest, action: "accept" }] })).status, 409);
  assert.equal((await send([])).status, 400);
  assert.equal(await deletes(), 0);
  // After one was decided, the digest of all three is stale.
  assert.equal((await send({ decisions: [{ call: 0, digest: structured.items[0].digest, action: "accept" }] })).status, 200);
  assert.equal((await send({ action: "accept", digest })).status, 409);
});

test("only the owner's approver decides; the agent's bearer never does", async () => {
  const { execute, deletes, token, approver, organization } = await scene();
  const pause = await execute(DELETE_ONE);
  const { digest } = await shownPause(gateway, pause, approver);
  const decision = { action: "accept", digest };
  for (const [who, status] of [
    [token, 403],
    [devToken({ organization, roles: ["admin"] }), 403],
    [devToken({ account: "eve", organization, roles: ["approver"] }), 403],
    [devToken({ organization: "elsewhere", roles: ["approver"] }), 403],
    ["nonsense", 401],
  ]) {
    assert.equal((await decide(gateway, pause, decision, { token: who })).status, status, who);
    await assert.rejects(shownPause(gateway, pause, { token: who }), (error) => error.status === status, who);
  }
  // Without any credential the request could be the agent's own.
  const path = new URL(pause.approvalUrl);
  const api = `/api/mcp-sessions/${path.searchParams.get("mcp_session_id")}/executions/${pause.executionId}/resume`;
  const bare = await gateway.fetch(api, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(decision) });
  assert.equal(bare.status, 403);
  for (const [session, execution] of [["0".repeat(64), pause.executionId], [path.searchParams.get("mcp_session_id"), `exec_${"A".repeat(59)}`], ["x", "y"]]) {
    const answer = await decide(gateway, { sessionId: session, executionId: execution }, decision, approver);
    assert.equal(answer.status, 404);
  }
  assert.equal(await deletes(), 0);
});

test("resume waits, then says that nobody decided, and works again", async () => {
  const { execute, resume, approver } = await scene();
  const pause = await execute(DELETE_ONE);
  const waiting = await resume(pause);
  assert.deepEqual(waiting, pause);
  const together = Promise.all([resume(pause), resume(pause)]);
  await approve(gateway, pause, approver);
  const [first, second] = await together;
  assert.equal(first.status, "completed");
  assert.deepEqual(first, second);
});

test("unknown, foreign and broken ids are one and the same", async () => {
  const { execute, session } = await scene();
  const pause = await execute(DELETE_ONE);
  const stranger = await scene();
  for (const [who, executionId] of [[session, "x"], [session, `exec_${"A".repeat(59)}`], [stranger.session, pause.executionId]]) {
    const answer = await who.tool("resume", { executionId });
    assert.equal(answer.isError, true);
    assert.equal(answer.structuredContent.status, "execution_not_found");
    assert.match(answer.content[0].text, /Run execute again/);
  }
  assert.equal((await session.tool("resume", {})).isError, true);
  const model = await session.tool("resume", { executionId: pause.executionId, action: "accept" });
  assert.equal(model.isError, true, "the model may not decide in browser mode");
});

test("a program that pauses twice leads from one pause to the next", async () => {
  const { execute, resume, deletes, approver } = await scene();
  const first = await execute("await tools.demo.deleteItem({ id: 'item-1' }); await tools.demo.deleteItem({ id: 'item-2' }); return 'end'");
  await approve(gateway, first, approver);
  const second = await resume(first);
  assert.equal(second.status, "user_approval_required");
  assert.notEqual(second.executionId, first.executionId);
  assert.equal(await deletes(), 1);
  await approve(gateway, second, approver);
  assert.equal((await resume(second)).result, "end");
  assert.deepEqual(await resume(first), second, "the first id still leads to the second pause");
  assert.equal(await deletes(), 2);
});

test("the program goes on by itself after the decision, without any client", async () => {
  const { execute, deletes, approver } = await scene();
  const pause = await execute(DELETE_ONE);
  await approve(gateway, pause, approver);
  await waitFor(async () => (await deletes()) === 1);
  await waitFor(async () => (await shownPause(gateway, pause, approver)).structured.executionStatus === "completed");
});

test("a call that is not awaited still waits for a person", async () => {
  const { execute, resume, deletes, approver } = await scene();
  const pause = await execute("tools.demo.deleteItem({ id: 'item-1' }); return 'early'");
  assert.equal(pause.status, "user_approval_required");
  await approve(gateway, pause, approver);
  assert.equal((await resume(pause)).result, "early");
  assert.equal(await deletes(), 1);
});

test("wrong arguments are refused before anybody is asked", async () => {
  const { execute } = await scene();
  const answer = await execute("return await tools.demo.createItem({ name: '', colour: 'red' })");
  assert.equal(answer.status, "completed");
  assert.equal(answer.result.error.code, "invalid_tool_arguments");
});

test("another session of the same account resumes, one of the deleted session too", async () => {
  const { session, execute, token, deletes, approver } = await scene();
  const pause = await execute(DELETE_ONE);
  assert.equal((await session.del()).status, 200);
  const later = await openSession(gateway, { token });
  await approve(gateway, pause, approver);
  const outcome = await later.tool("resume", { executionId: pause.executionId });
  assert.equal(outcome.structuredContent.result.ok, true);
  assert.equal(await deletes(), 1);
});

test("in model mode the model relays the answer", async () => {
  const { execute, resume, deletes } = await scene({ query: { elicitation_mode: "model" } });
  const pause = await execute(DELETE_ONE);
  assert.equal(pause.status, "waiting_for_interaction");
  assert.deepEqual([pause.interaction.kind, pause.interaction.address, pause.interaction.args], ["approval", "demo.deleteItem", { id: "item-3" }]);
  assert.match(pause.interaction.instructions, /Do not answer yourself/);
  const declined = await resume(pause, { action: "decline", content: { reason: "the user said no" } });
  assert.equal(declined.result.error.reason, "the user said no");
  const again = await execute(DELETE_ONE);
  assert.equal((await resume(again, { action: "accept" })).result.ok, true);
  assert.equal(await deletes(), 1);
  assert.ok(gateway.logs("mcp_approval").some((line) => line.route === "model"));
});

test("what is too long to be shown cannot be accepted by the model", async () => {
  const { execute, session, resume, deletes } = await scene({ query: { elicitation_mode: "model" } });
  const pause = await execute("return await tools.demo.deleteItem({ id: 'x'.repeat(3000) + 'item-3' })");
  const refused = await session.tool("resume", { executionId: pause.executionId, action: "accept" });
  assert.equal(refused.isError, true);
  assert.match(refused.content[0].text, /too long/);
  assert.equal(await deletes(), 0);
  assert.equal((await resume(pause, { action: "decline" })).result.error.code, "declined");
});

test("model mode can be forbidden", async () => {
  const strict = await startGateway({ vars: { MODEL_DECISIONS: "deny" } });
  try {
    await assert.rejects(openSession(strict, { query: { elicitation_mode: "model" } }), /MODEL_DECISIONS/);
  } finally {
    await strict.stop();
  }
});

test("the window ends by itself with approval_timeout", async () => {
  const quick = await startGateway({ vars: { APPROVAL_WINDOW_MS: "1500", RESUME_WAIT_MS: "20000" } });
  try {
    const session = await openSession(quick);
    const pause = (await session.tool("execute", { code: DELETE_ONE })).structuredContent;
    const outcome = (await session.tool("resume", { executionId: pause.executionId })).structuredContent;
    assert.deepEqual([outcome.result.error.code, outcome.result.error.reason], ["declined", "approval_timeout"]);
    const shown = await shownPause(quick, pause);
    assert.equal(shown.structured.state, "expired");
    const late = await decide(quick, pause, { action: "accept", digest: "0".repeat(64) });
    assert.equal(late.status, 409);
  } finally {
    await quick.stop();
  }
});

test("a waiting program is dropped, its object leaves memory, and approval still works", async () => {
  const quick = await startGateway({ vars: { SUSPEND_AFTER_MS: "200" } });
  try {
    const session = await openSession(quick);
    const pause = (await session.tool("execute", { code: `console.log(Math.random(), Date.now());\n${DELETE_ONE}` })).structuredContent;
    await quick.evict("SessionDurableObject", session.id);
    await approve(quick, pause);
    const outcome = (await session.tool("resume", { executionId: pause.executionId })).structuredContent;
    assert.equal(outcome.result.ok, true);
    assert.ok(quick.logs("mcp_execution").some((line) => line.status === "completed" && line.replays >= 1));
  } finally {
    await quick.stop();
  }
});

test("clock and randomness are the same when a program is replayed", async () => {
  const quick = await startGateway();
  try {
    const session = await openSession(quick);
    const code = `
      const before = [Date.now(), new Date().toISOString(), Math.random(), crypto.randomUUID(), performance.now()];
      await tools.demo.getItem({ id: 'item-1' });
      emit(JSON.stringify(before));
      const key = String(before[3]);
      const made = await tools.demo.createItem({ name: key });
      return { name: made.data.name, key, before };`;
    const pause = (await session.tool("execute", { code })).structuredContent;
    const [asked] = pause.pending;
    await quick.kill();
    await quick.start();
    await approve(quick, pause);
    const later = await openSession(quick);
    const outcome = (await later.tool("resume", { executionId: pause.executionId })).structuredContent;
    assert.equal(outcome.status, "completed", JSON.stringify(outcome));
    assert.equal(outcome.result.name, asked.args.name);
    assert.equal(outcome.result.key, asked.args.name);
    assert.deepEqual(JSON.parse(outcome.emitted[0]), outcome.result.before);
  } finally {
    await quick.stop();
  }
});

test("another session in model mode is no way around the person", async () => {
  const { execute, deletes, token, approver, resume } = await scene();
  const pause = await execute(DELETE_ONE);
  const model = await openSession(gateway, { token, query: { elicitation_mode: "model" } });
  const answer = await model.tool("resume", { executionId: pause.executionId, action: "accept" });
  assert.equal(answer.isError, true);
  assert.equal((await shownPause(gateway, pause, approver)).structured.state, "waiting");
  assert.equal(await deletes(), 0);
  await decline(gateway, pause, "no", approver);
  assert.equal((await resume(pause)).result.ok, false);
});

test("a call that begins to wait while others wait is reported with them", async () => {
  const { execute, resume, approver, deletes } = await scene();
  const first = await execute(`
    const one = tools.demo.deleteItem({ id: 'item-1' }).then(() => tools.demo.deleteItem({ id: 'item-2' }));
    const other = tools.demo.deleteItem({ id: 'item-3' });
    return (await Promise.all([one, other])).map((r) => r.ok);`);
  const { structured } = await shownPause(gateway, first, approver);
  await decide(gateway, first, { decisions: [{ call: 0, digest: structured.items[0].digest, action: "accept" }] }, approver);
  const second = await resume(first);
  assert.deepEqual(second.pending.map(({ args }) => args.id), ["item-3", "item-2"]);
  await approve(gateway, second, approver);
  assert.deepEqual((await resume(second)).result, [true, true]);
  assert.equal(await deletes(), 3);
});

test("an approved program goes on after a ping to an object that was just loaded", async () => {
  const quick = await startGateway({ vars: { SUSPEND_AFTER_MS: "100", SESSION_IDLE_TIMEOUT_MS: "20000" } });
  try {
    const session = await openSession(quick);
    const pause = (await session.tool("execute", { code: DELETE_ONE })).structuredContent;
    const approved = approve(quick, pause);
    await approved;
    await quick.kill();
    await quick.start();
    await session.call("ping");
    await waitFor(async () => (await shownPause(quick, pause)).structured.executionStatus === "completed");
  } finally {
    await quick.stop();
  }
});
