// elicitation_mode=native: the client is asked; and the stream of GET, which belongs to no request.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { approve, devToken, eventsOf, messageOf, openSession, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "4000", EXECUTION_RECOVERY_MS: "500", FORM_DECISIONS: "allow" } });
});
after(() => gateway.stop());

let organizations = 0;
const next = () => `ask${organizations += 1}`;
const open = (organization, capabilities, query = {}) =>
  openSession(gateway, { token: devToken({ organization }), query: { elicitation_mode: "native", ...query }, capabilities });
const DELETE = { name: "execute", arguments: { code: "const gone = await tools.demo.deleteItem({ id: 'item-1' }); return [gone.ok, gone.error?.code, gone.error?.reason]" } };
const isQuestion = ({ method }) => method === "elicitation/create";
const approver = (organization) => ({ token: devToken({ organization, roles: ["approver"] }) });
const pauseOf = ({ params: { url } }) => ({ approvalUrl: url, executionId: new URL(url).pathname.split("/").at(-1) });

test("a client that shows pages is asked to open one, and its accept decides nothing", async () => {
  const organization = next();
  const session = await open(organization, { elicitation: { url: {}, form: {} } });
  const { result, messages } = await session.call("tools/call", DELETE, {
    onMessage: async (message) => {
      if (!isQuestion(message)) return;
      assert.equal(message.params.mode, "url");
      assert.match(message.id, /^[0-9a-f]{32}$/);
      assert.equal((await session.answer(message.id, { action: "accept" })).status, 202);
      assert.equal((await approve(gateway, pauseOf(message), approver(organization))).status, 200);
    },
  });
  assert.deepEqual(result.structuredContent.result, [true, null, null]);
  const question = messages.find(isQuestion);
  assert.deepEqual(messages.filter(({ method }) => method === "notifications/elicitation/complete").map(({ params }) => params.elicitationId), [question.params.elicitationId]);
});

test("a page that the person does not want to open gives the browser's pause, and the call still waits", async () => {
  const session = await open(next(), { elicitation: { url: {} } });
  const { result } = await session.call("tools/call", DELETE, { onMessage: (message) => isQuestion(message) && session.answer(message.id, { action: "decline" }) });
  assert.equal(result.structuredContent.status, "user_approval_required");
});

test("a question that nobody answers is withdrawn, and the call answers with the pause", async () => {
  const session = await open(next(), { elicitation: { url: {} } });
  const { result, messages } = await session.call("tools/call", DELETE);
  assert.equal(result.structuredContent.status, "user_approval_required");
  const question = messages.find(isQuestion);
  assert.deepEqual(messages.filter(({ method }) => method === "notifications/cancelled").map(({ params }) => params.requestId), [question.id]);
  assert.equal((await session.answer(question.id, { action: "accept" })).status, 202, "too late, and no harm");
});

test("a form decides where the organization allows it", async () => {
  for (const [answer, expected] of [
    [{ action: "accept", content: { decision: "approve" } }, [true, null, null]],
    [{ action: "accept", content: { decision: "decline", reason: "not now" } }, [false, "declined", "not now"]],
    [{ action: "decline" }, [false, "declined", null]],
  ]) {
    const session = await open(next(), { elicitation: {} });
    const { result, messages } = await session.call("tools/call", DELETE, { onMessage: (message) => isQuestion(message) && session.answer(message.id, answer) });
    assert.deepEqual(result.structuredContent.result, expected);
    const { params } = messages.find(isQuestion);
    assert.equal(params.mode, undefined);
    assert.match(params.message, /demo\.deleteItem.*item-1/s);
  }
  const session = await open(next(), { elicitation: {} });
  const { result } = await session.call("tools/call", DELETE, { onMessage: (message) => isQuestion(message) && session.answer(message.id, { action: "cancel" }) });
  assert.equal(result.structuredContent.status, "user_approval_required");
});

test("nobody else's answer counts, and an error of the client is no decision", async () => {
  const organization = next();
  const session = await open(organization, { elicitation: {} });
  const other = await open(organization, { elicitation: {} });
  const { result } = await session.call("tools/call", DELETE, {
    onMessage: async (message) => {
      if (!isQuestion(message)) return;
      await other.answer(message.id, { action: "accept", content: { decision: "approve" } });
      await session.answer("0".repeat(32), { action: "accept", content: { decision: "approve" } });
      await session.send({ jsonrpc: "2.0", id: message.id, error: { code: -32000, message: "no" } });
    },
  });
  assert.equal(result.structuredContent.status, "user_approval_required");
});

test("a client without elicitation, one that takes JSON only, and one of direct mode", async () => {
  const plain = await open(next(), {});
  assert.equal((await plain.tool("execute", DELETE.arguments)).structuredContent.status, "user_approval_required");
  const json = await open(next(), { elicitation: { url: {} } });
  const { result, messages } = await json.call("tools/call", DELETE, { headers: { accept: "application/json" } });
  assert.deepEqual([result.structuredContent.status, messages], ["user_approval_required", []]);
  const direct = await open(next(), { elicitation: {} }, { tool_mode: "direct" });
  const answered = await direct.call("tools/call", { name: "demo__deleteItem", arguments: { id: "item-1" } }, {
    onMessage: (message) => isQuestion(message) && direct.answer(message.id, { action: "accept", content: { decision: "approve" } }),
  });
  assert.equal(answered.result.isError, false);
  assert.equal((await direct.tool("demo__getItem", { id: "item-1" })).isError, true);
});

/** Reads events until one satisfies, then lets go. */
async function readUntil(stream, found) {
  const seen = [];
  for await (const event of stream) {
    seen.push(event);
    if (found(event)) return seen;
  }
  return seen;
}

test("an answer that comes after SIGKILL still counts, and the call is answered", async () => {
  const session = await open(next(), { elicitation: {} });
  const aborted = new AbortController();
  const response = await session.send({ jsonrpc: "2.0", id: 77, method: "tools/call", params: DELETE }, { signal: aborted.signal });
  const question = (await readUntil(eventsOf(response.body), (event) => isQuestion(messageOf(event)))).at(-1);
  aborted.abort();
  await gateway.kill();
  await gateway.start();
  const again = readUntil(session.stream({ lastEventId: question.id }), (event) => messageOf(event).id === 77);
  assert.equal((await session.answer(messageOf(question).id, { action: "accept", content: { decision: "approve" } })).status, 202);
  const events = await again;
  assert.deepEqual(messageOf(events.at(-1)).result.structuredContent.result, [true, null, null]);
  assert.equal(events.filter((event) => isQuestion(messageOf(event))).length, 0, "the question was not asked twice");
});

test("progress comes with exactly the client's token, and only when it gave one", async () => {
  const session = await open(next(), {}, { elicitation_mode: "browser" });
  const code = "for (let i = 0; i < 3; i++) await tools.demo.getItem({ id: 'item-1' }); return 1";
  for (const token of ["täken", 12]) {
    const { messages } = await session.call("tools/call", { name: "execute", arguments: { code }, _meta: { progressToken: token } });
    assert.ok(messages.length > 0);
    assert.ok(messages.every(({ method, params }) => method === "notifications/progress" && params.progressToken === token), JSON.stringify(messages));
    const values = messages.map(({ params }) => params.progress);
    assert.deepEqual(values, [...new Set(values)].sort((a, b) => a - b), "each value is larger than the one before");
  }
  const { messages } = await session.call("tools/call", { name: "execute", arguments: { code } });
  assert.deepEqual(messages, []);
});

test("logging/setLevel takes the eight levels and keeps them", async () => {
  const session = await open(next(), {});
  assert.deepEqual(session.initialized.capabilities.logging, {});
  for (const level of ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]) {
    assert.deepEqual((await session.call("logging/setLevel", { level })).result, {});
  }
  for (const level of ["loud", "", 3, undefined]) assert.equal((await session.call("logging/setLevel", { level })).error.code, -32602);
  const [{ value }] = await gateway.sql("SessionDurableObject", session.id, "SELECT value FROM meta WHERE key = 'session-meta'");
  assert.equal(JSON.parse(value).logLevel, "emergency");
});

test("the stream of GET is held open, a second one replaces it, and it ends with the session", async () => {
  const session = await open(next(), {});
  const ended = async (stream) => {
    for await (const event of stream) assert.fail(`nothing was to come: ${JSON.stringify(event)}`);
    return true;
  };
  const opened = () => gateway.logs("mcp_stream_closed").filter(({ kind }) => kind === "standalone").length;
  const before = opened();
  const first = await session.request("GET", { headers: { accept: "text/event-stream" } });
  assert.deepEqual([first.status, first.headers.get("content-type"), first.headers.get("access-control-allow-origin")], [200, "text/event-stream", "*"]);
  const second = ended(session.stream());
  await first.text();
  assert.equal(opened(), before + 1, "the first one was replaced");
  assert.equal((await session.del()).status, 200);
  assert.equal(await second, true);
  assert.equal((await session.request("GET", { headers: { accept: "text/event-stream" } })).status, 404);
});
