// Failures of the platform at calls to Durable Objects: every row of the table in protocol.md, seen by the client and in the log.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { startFaultyGateway } from "./harness/faults.mjs";
import { approve, decide, devToken, openSession, shownPause, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startFaultyGateway({ vars: { RESUME_WAIT_MS: "2000" } });
});
after(() => gateway.stop());
beforeEach(() => gateway.faults.clear());

const RESTARTING = "MCP session is restarting, please retry";
const TRANSIENT = { status: 503, code: -32001, message: RESTARTING, retryAfter: "2", disposition: "transient" };
const DEAD = { status: 404, code: -32001, message: "Session timed out, please reconnect", retryAfter: null, disposition: "dead" };
const OVERLOADED = { ...TRANSIENT, retryAfter: "5", disposition: "overloaded" };

/** What the platform says, as it says it, and what becomes of it. */
const ROWS = [
  { kind: "destroyed", fault: { message: "destroyed" }, ...DEAD },
  { kind: "code_update", fault: { message: "Durable Object reset because its code was updated." }, ...TRANSIENT },
  { kind: "storage_timeout", fault: { message: "Durable Object storage operation exceeded timeout which caused object to be reset." }, ...TRANSIENT },
  { kind: "storage_internal", fault: { message: "Internal error in Durable Object storage caused object to be reset." }, ...TRANSIENT },
  {
    kind: "startup_internal_error",
    fault: { message: "Internal error while starting up Durable Object storage caused object to be reset." },
    ...TRANSIENT,
  },
  {
    kind: "concurrency_reset",
    fault: {
      message: "A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and the Durable Object was reset.",
    },
    ...TRANSIENT,
  },
  { kind: "cpu_limit", fault: { message: "Durable Object exceeded its CPU time limit and was reset." }, ...TRANSIENT },
  { kind: "internal_error", fault: { message: "internal error; reference = 0a1b2c3d4e5f" }, ...TRANSIENT },
  // Every try of a first call meets it.
  { kind: "relocated", fault: { message: "Cannot resolve Durable Object: moved to a different machine", times: 99 }, ...TRANSIENT },
  { kind: "overloaded", fault: { message: "Requests queued for too long.", overloaded: true }, ...OVERLOADED },
  { kind: "retryable", fault: { message: "Network connection lost.", retryable: true }, ...TRANSIENT },
];

const INITIALIZE = {
  jsonrpc: "2.0",
  id: "open",
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "failure", version: "1" } },
};
const initialize = (headers = {}) =>
  gateway.fetch("/mcp", {
    method: "POST",
    headers: { authorization: `Bearer ${devToken()}`, "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
    body: JSON.stringify(INITIALIZE),
  });

let ids = 100;
const ping = (session, id = ids++) => session.send({ jsonrpc: "2.0", id, method: "ping" });
const fail = (fault) => gateway.faults.arm({ binding: "SESSION", from: "Worker", ...fault });
const failures = () => gateway.logs("mcp_durable_object_platform_failure");

async function expectError(response, { status, code, message, retryAfter = null }, what) {
  const text = await response.text();
  assert.equal(response.status, status, `${what}: ${text}`);
  assert.equal(response.headers.get("content-type"), "application/json", what);
  assert.equal(response.headers.get("access-control-allow-origin"), "*", what);
  assert.match(response.headers.get("access-control-expose-headers") ?? "", /mcp-session-id, www-authenticate, retry-after/, what);
  assert.equal(response.headers.get("retry-after"), retryAfter, what);
  const body = JSON.parse(text);
  assert.equal(body.jsonrpc, "2.0", what);
  assert.ok("id" in body, what);
  assert.equal(body.error.code, code, what);
  if (message instanceof RegExp) assert.match(body.error.message, message, what);
  else assert.equal(body.error.message, message, what);
  return body;
}

/** Sends, expects the error, and one line about it in the log. Gives the line. */
async function expectFailure(send, expected, what = expected.kind) {
  const known = failures().length;
  await expectError(await send(), expected, what);
  await waitFor(() => failures().length > known, { what: `${what} is in the log` });
  const [line, ...more] = failures().slice(known);
  assert.deepEqual(more, [], what);
  assert.ok(typeof line.operation === "string" && line.operation !== "", what);
  assert.equal(line.resetKind, expected.kind, what);
  if (expected.disposition) assert.equal(line.disposition, expected.disposition, what);
  return line;
}

test("every kind of failure has its answer and its log line at a request of a session, which works afterwards", async () => {
  for (const { fault, ...expected } of ROWS) {
    const session = await openSession(gateway);
    await gateway.faults.clear();
    await fail(fault);
    await expectFailure(() => ping(session), expected);
    assert.deepEqual(await gateway.faults.calls({ binding: "SESSION", thrown: false }), [], `${expected.kind} was not tried again`);
    assert.equal((await gateway.faults.calls({ binding: "SESSION", thrown: true })).length, 1, `${expected.kind} was not tried again`);
    await gateway.faults.clear();
    assert.equal((await ping(session)).status, 200, expected.kind);
  }
});

test("every kind of failure has its answer and its log line at initialize, which works afterwards", async () => {
  for (const { fault, ...expected } of ROWS) {
    await gateway.faults.clear();
    await fail(fault);
    const line = await expectFailure(() => initialize(), expected);
    assert.equal(line.operation, "initialize", expected.kind);
    const tries = (await gateway.faults.calls({ binding: "SESSION" })).length;
    assert.equal(tries, expected.kind === "relocated" ? 4 : 1, expected.kind);
    await gateway.faults.clear();
    assert.equal((await initialize()).status, 200, expected.kind);
  }
});

test("streams and DELETE fail as calls do", async () => {
  const session = await openSession(gateway);
  for (const { fault, ...expected } of ROWS) {
    await fail(fault);
    await expectFailure(
      () => session.request("GET", { headers: { accept: "text/event-stream", "last-event-id": "1-0" } }),
      expected,
      `GET, ${expected.kind}`,
    );
    await gateway.faults.clear();
    await fail(fault);
    await expectFailure(() => session.del(), expected, `DELETE, ${expected.kind}`);
    await gateway.faults.clear();
  }
  assert.equal((await ping(session)).status, 200, "nothing of that ended the session");
});

test("a failure after the object has served is reported too, and what was done is done", async () => {
  const session = await openSession(gateway);
  await fail({ message: "Network connection lost.", retryable: true, afterwards: true });
  await expectError(await session.del(), TRANSIENT);
  await expectError(await ping(session), DEAD);
});

test("the message counts in any case", async () => {
  const session = await openSession(gateway);
  for (const { fault, ...expected } of ROWS.filter(({ fault: { retryable, overloaded } }) => !retryable && !overloaded)) {
    for (const message of [fault.message.toUpperCase(), fault.message.toLowerCase()]) {
      await fail({ ...fault, message, times: 1 });
      await expectFailure(() => ping(session), expected, message);
    }
  }
});

test("only a message that is nothing but destroyed ends a session", async () => {
  const session = await openSession(gateway);
  for (const message of ["The Durable Object was destroyed.", "destroyed.", "undestroyed"]) {
    await fail({ message });
    await expectError(await ping(session), { status: 500, code: -32603, message: /^Internal server error/ }, message);
  }
});

/** An error whose cause's cause … says it, `depth` causes down. */
const buried = (depth, fault) => (depth === 0 ? fault : { message: "wrapped", cause: buried(depth - 1, fault) });

test("the cause is followed five deep and not six", async () => {
  const session = await openSession(gateway);
  const update = { message: "Durable Object reset because its code was updated." };
  for (const depth of [1, 2, 3, 4, 5]) {
    await fail(buried(depth, update));
    await expectFailure(() => ping(session), { kind: "code_update", ...TRANSIENT }, `${depth} deep`);
  }
  await fail(buried(1, { message: "destroyed" }));
  await expectFailure(() => ping(session), { kind: "destroyed", ...DEAD });
  await fail(buried(6, update));
  await expectError(await ping(session), { status: 500, code: -32603, message: /^Internal server error/ }, "6 deep");
});

test("what the message says comes before retryable and overloaded, and overloaded before retryable", async () => {
  const session = await openSession(gateway);
  const both = { retryable: true, overloaded: true };
  for (const { fault, ...expected } of ROWS.filter(({ fault: { retryable, overloaded } }) => !retryable && !overloaded)) {
    await fail({ ...fault, ...both, times: 1 });
    await expectFailure(() => ping(session), expected);
  }
  await fail({ message: "wrapped", ...both, cause: { message: "Durable Object reset because its code was updated." } });
  await expectFailure(() => ping(session), { kind: "code_update", ...TRANSIENT }, "the cause's message");
  await fail({ message: "Requests queued for too long.", ...both });
  await expectFailure(() => ping(session), { kind: "overloaded", ...OVERLOADED });
  await fail({ message: "anything", retryable: false, overloaded: false });
  await expectError(await ping(session), { status: 500, code: -32603, message: /^Internal server error/ });
});

test("the first call of a new session is repeated up to three times when its object is just moving", async () => {
  const relocated = { message: "Durable Object moved to a different machine." };
  for (const times of [1, 2, 3]) {
    await gateway.faults.clear();
    await fail({ ...relocated, times });
    const response = await initialize();
    assert.equal(response.status, 200, `after ${times}`);
    const calls = await gateway.faults.calls({ binding: "SESSION" });
    assert.equal(calls.length, times + 1);
    assert.equal(response.headers.get("mcp-session-id"), calls.at(-1).id, "the session is the object that answered");
  }
});

test("another failure in between ends the repeating", async () => {
  await fail({ message: "moved to a different machine" });
  await fail({ message: "Requests queued for too long.", overloaded: true });
  await expectFailure(() => initialize(), { kind: "overloaded", ...OVERLOADED });
  assert.equal((await gateway.faults.calls({ binding: "SESSION" })).length, 2);
});

test("an initialize that carries the id of another session fails like any", async () => {
  const session = await openSession(gateway);
  // The object of the stale session opens the new one.
  const failInside = (fault) => gateway.faults.arm({ binding: "SESSION", from: "SessionDurableObject", ...fault });
  for (const { fault, ...expected } of ROWS) {
    await failInside(fault);
    await expectFailure(() => initialize({ "mcp-session-id": session.id }), expected);
    await gateway.faults.clear();
  }
  await failInside({ message: "moved to a different machine", times: 3 });
  assert.equal((await initialize({ "mcp-session-id": session.id })).status, 200, "the first call of a new session");
});

test("a reset for memory is an internal error, and its cause is in one log line only", async () => {
  const session = await openSession(gateway);
  const message = "Durable Object's isolate exceeded its memory limit and was reset.";
  for (const [send, what] of [
    [() => ping(session), "a request"],
    [() => initialize(), "initialize"],
  ]) {
    await fail({ message });
    const { error } = await expectError(await send(), { status: 500, code: -32603, message: /^Internal server error/ }, what);
    assert.doesNotMatch(error.message, /memory/i);
    const correlation = /[0-9a-f]{8,}/.exec(error.message)?.[0];
    assert.ok(correlation, error.message);
    const line = await waitFor(() => gateway.logs("mcp_internal_error").find(({ correlationId }) => correlationId === correlation));
    assert.match(JSON.stringify(line), /exceeded its memory limit/);
  }
  const elsewhere = gateway.logs().filter((line) => line.event !== "mcp_internal_error" && /memory limit/.test(JSON.stringify(line)));
  assert.deepEqual(elsewhere, []);
  assert.equal((await ping(session)).status, 200);
});

test("a request that exceeds the CPU limit again is an internal error; any other is transient", async () => {
  const session = await openSession(gateway);
  const other = await openSession(gateway);
  const exceed = async (send, expected, what) => {
    await fail({ message: "Durable Object exceeded its CPU time limit and was reset." });
    await expectFailure(send, { kind: "cpu_limit", ...expected }, what);
  };
  const again = { status: 500, code: -32603, message: /^Internal server error/, disposition: undefined };
  await exceed(() => ping(session, 7), TRANSIENT, "the first time");
  await exceed(() => ping(session, 7), again, "the second time");
  await exceed(() => ping(session, 7), again, "the third time");
  await exceed(() => ping(session, 8), TRANSIENT, "another request");
  await exceed(() => ping(session, "7"), TRANSIENT, "an id of another type");
  await exceed(() => ping(other, 7), TRANSIENT, "the same id of another session");
  await exceed(() => ping(other, 7), again, "the second time in the other session");

  // Only that failure is counted.
  await exceed(() => ping(session, 9), TRANSIENT, "the first time");
  await fail({ message: "Durable Object reset because its code was updated." });
  await expectFailure(() => ping(session, 9), { kind: "code_update", ...TRANSIENT }, "another failure of the same request");
  assert.equal((await ping(session, 9)).status, 200);

  // Every initialize is the first call of a session of its own, and what has no id is no request that repeats.
  for (const time of ["first", "second"]) {
    await exceed(() => initialize(), TRANSIENT, `initialize, the ${time} time`);
    await exceed(
      () => session.request("GET", { headers: { accept: "text/event-stream", "last-event-id": "1-0" } }),
      TRANSIENT,
      `GET, the ${time} time`,
    );
    await exceed(() => session.notify("notifications/whatever"), TRANSIENT, `a notification, the ${time} time`);
  }
  // Large bodies, whose ids the Worker may not have read.
  for (const id of [20, 21]) {
    const message = { jsonrpc: "2.0", id, method: "ping", params: { padding: "x".repeat(200_000) } };
    await exceed(() => session.send(message), TRANSIENT, `a large request, ${id}`);
  }
});

test("the approval API answers a failure as /mcp does", async () => {
  const session = await openSession(gateway);
  const pause = (await session.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" })).structuredContent;
  const approver = devToken({ roles: ["approver"] });
  const shown = await shownPause(gateway, pause, { token: approver });
  const path = `/api/mcp-sessions/${session.id}/executions/${pause.executionId}`;
  const read = () => gateway.fetch(path, { headers: { authorization: `Bearer ${approver}` } });
  for (const { fault, ...expected } of ROWS.filter(({ kind }) => ["code_update", "overloaded"].includes(kind))) {
    await fail(fault);
    const response = await read();
    assert.deepEqual([response.status, response.headers.get("retry-after")], [expected.status, expected.retryAfter], expected.kind);
    assert.equal((await response.json()).error.message, expected.message);
    await fail(fault);
    const decided = await decide(gateway, pause, { action: "accept", digest: shown.digest }, { token: approver });
    assert.equal(decided.status, expected.status, expected.kind);
  }
  await fail({ message: "Durable Object's isolate exceeded its memory limit and was reset." });
  const response = await read();
  assert.equal(response.status, 500);
  assert.equal(response.headers.get("retry-after"), null, "a retry repeats it");
  assert.doesNotMatch(await response.text(), /memory/);
  assert.equal((await approve(gateway, pause, { token: approver })).status, 200, "no failed try has decided anything");
});

test("resume tells the model to call again when the object that holds the execution is restarting", async () => {
  const token = devToken({ organization: "holder" });
  const holder = await openSession(gateway, { token });
  const pause = (await holder.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" })).structuredContent;
  const other = await openSession(gateway, { token });
  const resume = async (fault) => {
    await gateway.faults.arm({ binding: "SESSION", from: "SessionDurableObject", session: holder.id, ...fault });
    return other.tool("resume", { executionId: pause.executionId });
  };
  for (const { fault, kind } of ROWS.filter(({ disposition }) => disposition !== "dead")) {
    const answer = await resume({ ...fault, times: 1 });
    assert.equal(answer.isError, true, kind);
    assert.match(answer.content[0].text, /call resume again/i, kind);
  }
  assert.equal((await resume({ message: "destroyed" })).structuredContent.status, "execution_not_found");
  await assert.rejects(
    resume({ message: "Durable Object's isolate exceeded its memory limit and was reset." }),
    (error) => error.code === -32603 && !/memory/.test(error.message),
  );
  await approve(gateway, pause, { token: devToken({ organization: "holder", roles: ["approver"] }) });
  assert.equal((await other.tool("resume", { executionId: pause.executionId })).structuredContent.result.ok, true);
});

const failOrganization = (fault) => gateway.faults.arm({ binding: "ORGANIZATION", from: "SessionDurableObject", times: 99, ...fault });
const DOWN = { message: "Internal error in Durable Object storage caused object to be reset." };

test("a catalog that cannot be read is an error value of the call, not a failed request", async () => {
  const session = await openSession(gateway);
  for (const [call, path] of [
    ["tools.search({ query: 'item' })", "/internal/question"],
    ["tools.describe({ address: 'demo.getItem' })", "/internal/question"],
    ["tools.sources.list({})", "/internal/question"],
    ["tools.demo.getItem({ id: 'item-1' })", "/internal/lookup"],
  ]) {
    for (const fault of [
      DOWN,
      { message: "destroyed" },
      { message: "x", overloaded: true },
      { message: "exceeded its memory limit and was reset" },
    ]) {
      await gateway.faults.clear();
      await failOrganization({ ...fault, path });
      const answer = await session.call("tools/call", { name: "execute", arguments: { code: `return await ${call}` } });
      assert.deepEqual([answer.status, answer.error], [200, undefined], call);
      assert.equal(answer.result.structuredContent.status, "completed", call);
      const { ok, error } = answer.result.structuredContent.result;
      assert.deepEqual([ok, error.code, error.retryable], [false, "catalog_unavailable", true], call);
      assert.doesNotMatch(JSON.stringify(answer.result), /destroyed|memory|storage caused/, "what the platform said stays inside");
    }
  }
  await gateway.faults.clear();
  const fine = await session.tool("execute", { code: "return await tools.search({ query: 'item' })" });
  assert.equal(fine.structuredContent.result.ok, true);
});

test("a catalog that is back at the second or third try is no error", async () => {
  const session = await openSession(gateway);
  for (const times of [1, 2]) {
    await failOrganization({ ...DOWN, times });
    const answer = await session.tool("execute", { code: "return (await tools.search({ query: 'item' })).ok" });
    assert.equal(answer.structuredContent.result, true, `after ${times}`);
  }
});

test("a failure between objects is in the log, too", async () => {
  const isLogged = (known) =>
    waitFor(
      () =>
        failures()
          .slice(known)
          .some(({ resetKind, disposition }) => resetKind === "storage_internal" && disposition === "transient"),
      { timeout: 3_000 },
    );
  const token = devToken({ organization: "between" });
  const session = await openSession(gateway, { token });
  let known = failures().length;
  await failOrganization(DOWN);
  await session.tool("execute", { code: "return await tools.search({ query: 'item' })" });
  await isLogged(known);
  await gateway.faults.clear();

  const pause = (await session.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" })).structuredContent;
  const other = await openSession(gateway, { token });
  known = failures().length;
  await gateway.faults.arm({ binding: "SESSION", from: "SessionDurableObject", ...DOWN });
  await other.tool("resume", { executionId: pause.executionId });
  await isLogged(known);
});

test("a write whose answer was lost is reported as doubtful, and was not repeated behind the program's back", async () => {
  const token = devToken({ organization: "doubt" });
  const session = await openSession(gateway, { token, query: { elicitation_mode: "model" } });
  const pause = (await session.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-2' })" })).structuredContent;
  await failOrganization({ message: "Network connection lost.", path: "/demo", times: 1, afterwards: true });
  const outcome = (await session.tool("resume", { executionId: pause.executionId, action: "accept" })).structuredContent;
  assert.equal(outcome.result.ok, false);
  assert.equal(outcome.result.error.code, "outcome_unknown");
  assert.match(outcome.result.error.message, /may or may not have been carried out/);
  const calls = await (await gateway.fetch("/demo/calls", { headers: { authorization: `Bearer ${token}` } })).json();
  assert.equal(calls.deleteItem, 1);
});

test("in direct mode a catalog that cannot be read is 503, whatever the platform says", async () => {
  const session = await openSession(gateway, { query: { tool_mode: "direct" } });
  for (const fault of [DOWN, { message: "destroyed" }, { message: "x", overloaded: true }, { message: "exceeded its memory limit and was reset" }]) {
    await gateway.faults.clear();
    await failOrganization(fault);
    const response = await session.send({ jsonrpc: "2.0", id: ids++, method: "tools/list" });
    await expectError(
      response,
      { status: 503, code: -32001, message: "Session storage temporarily unavailable - please retry", retryAfter: "2" },
      JSON.stringify(fault),
    );
  }
});
