// MCP servers behind the gateway, with the conformance suite's fixtures in their place: everything that passes through a
// session while a request runs, and what is left of it after a crash.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { devToken, eventsOf, messageOf, openSession, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startGateway({ features: ["conformance"] });
});
after(() => gateway.stop());

const open = (options = {}) => openSession(gateway, { token: devToken({ organization: "servers" }), ...options });
const callOf = (name, args, id) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } });
const isQuestion = ({ method }) => method === "elicitation/create";
const text = (result) => result.content[0].text;

/** Reads a response until an event satisfies, then lets the connection go as a lost one does. */
async function lose(session, body, found) {
  const aborted = new AbortController();
  const response = await session.send(body, { signal: aborted.signal });
  for await (const event of eventsOf(response.body)) {
    if (!(await found(event))) continue;
    aborted.abort();
    return event;
  }
  throw new Error("the stream ended before it was lost");
}

const readAll = async (stream) => {
  const seen = [];
  for await (const event of stream) seen.push(event);
  return seen;
};
const crash = async () => {
  await gateway.kill();
  await gateway.start();
};

test("an answer that is there at once is JSON, one that takes a while is a stream", async () => {
  const session = await open();
  const quick = await session.call("tools/call", { name: "echo", arguments: { message: "naïve ☃ \u2028" } });
  assert.match(quick.headers.get("content-type"), /^application\/json/);
  assert.equal(text(quick.result), "naïve ☃ \u2028");
  const slow = await session.call("tools/call", { name: "test_slow", arguments: { milliseconds: 900 } });
  assert.match(slow.headers.get("content-type"), /^text\/event-stream/);
  assert.equal(text(slow.result), "slept 900 ms");
  const json = await session.call("tools/call", { name: "test_slow", arguments: { milliseconds: 900 } }, { headers: { accept: "application/json" } });
  assert.match(json.headers.get("content-type"), /^application\/json/);
  assert.equal(text(json.result), "slept 900 ms");
});

test("an echo writes no row, and asks no other object", async () => {
  const session = await open();
  await session.call("tools/list");
  const count = () => gateway.sql("SessionDurableObject", session.id, "SELECT (SELECT COUNT(*) FROM stream) + (SELECT COUNT(*) FROM event) + (SELECT COUNT(*) FROM journal) AS rows, (SELECT value FROM meta WHERE key = 'last-activity-ms') AS activity");
  const before = await count();
  for (let i = 0; i < 5; i += 1) assert.equal(text(await session.tool("echo", { message: String(i) })), String(i));
  assert.deepEqual(await count(), before);
});

test("SIGKILL in the middle of a slow call: the client that comes back gets the answer", async () => {
  const session = await open();
  const first = await lose(session, callOf("test_slow", { milliseconds: 1_500 }, "slow"), () => true);
  await crash();
  const rest = await readAll(session.stream({ lastEventId: first.id }));
  const answers = rest.map(messageOf);
  assert.deepEqual(answers.map(({ id }) => id), ["slow"]);
  assert.equal(text(answers[0].result), "slept 1500 ms");
});

test("SIGKILL during a question: the answers before it count, the late one does, and none is asked twice", async () => {
  const session = await open({ capabilities: { elicitation: {} } });
  const answer = (message, value) => session.answer(message.id, { action: "accept", content: { answer: value } });
  const asked = [];
  const lost = await lose(session, callOf("test_question", { count: 3 }, 9), async (event) => {
    const message = messageOf(event);
    if (!isQuestion(message)) return false;
    asked.push(message);
    if (asked.length === 2) return true;
    await answer(message, "one");
    return false;
  });
  await crash();
  const late = asked[1];
  const stream = session.stream({ lastEventId: lost.id });
  assert.equal((await answer(late, "two")).status, 202);
  let result;
  for await (const event of stream) {
    const message = messageOf(event);
    if (isQuestion(message)) {
      asked.push(message);
      await answer(message, "three");
    }
    if (message.id === 9) result = message.result;
  }
  assert.equal(text(result), "1:one,2:two,3:three");
  assert.equal(new Set(asked.map(({ id }) => id)).size, 3, "three questions, each once");
});

test("an answer that comes after a crash is enough: the call goes on without its reader", async () => {
  const session = await open({ capabilities: { elicitation: {} } });
  const question = await lose(session, callOf("test_question", { count: 1 }, "alone"), (event) => isQuestion(messageOf(event)));
  await crash();
  await session.answer(messageOf(question).id, { action: "accept", content: { answer: "late" } });
  await waitFor(async () => (await gateway.sql("SessionDurableObject", session.id, "SELECT 1 FROM stream WHERE ended_at IS NOT NULL")).length > 0, { what: "the answer to be stored" });
  const rest = await readAll(session.stream({ lastEventId: question.id }));
  assert.equal(text(messageOf(rest.at(-1)).result), "1:late");
});

test("a stream that is replayed when the gateway is killed is replayed again", async () => {
  const session = await open();
  const first = await lose(session, callOf("test_tool_with_logging", {}, "again"), () => true);
  const aborted = new AbortController();
  const stream = session.stream({ lastEventId: first.id, signal: aborted.signal });
  await stream.next();
  await crash();
  await stream.return?.().catch(() => {});
  const rest = await readAll(session.stream({ lastEventId: first.id }));
  assert.equal(rest.map(messageOf).filter(({ id }) => id === "again").length, 1);
});

test("a large result arrives whole, live and when it is asked for again", async () => {
  const session = await open();
  assert.equal(text(await session.tool("test_large", { bytes: 2_300_000 })).length, 2_300_000);
  const first = await lose(session, callOf("test_slow", { milliseconds: 700 }, "a"), () => true);
  const rest = await readAll(session.stream({ lastEventId: first.id }));
  assert.equal(rest.length, 1);
});

test("a cancelled call ends: its stream closes and nothing of it is left", async () => {
  const session = await open();
  const response = await session.send(callOf("test_slow", { milliseconds: 30_000 }, "long"));
  const stream = eventsOf(response.body);
  assert.equal((await stream.next()).value.data, "");
  assert.equal((await session.notify("notifications/cancelled", { requestId: "long", reason: "enough" })).status, 202);
  assert.equal((await stream.next()).done, true);
  assert.deepEqual(await gateway.sql("SessionDurableObject", session.id, "SELECT id FROM stream"), []);
  let json;
  const request = session.send(callOf("test_slow", { milliseconds: 30_000 }, "json"), { headers: { accept: "application/json" } });
  void request.then((answer) => (json = answer));
  await waitFor(() => json ?? session.notify("notifications/cancelled", { requestId: "json" }).then(() => false), { what: "the JSON request to end" });
  assert.equal((await json.json()).error.code, -32000);
});

test("a session that ends answers what is running", async () => {
  const session = await open();
  const response = await session.send(callOf("test_slow", { milliseconds: 30_000 }, 1));
  const stream = eventsOf(response.body);
  await stream.next();
  assert.equal((await session.del()).status, 200);
  assert.equal(messageOf((await stream.next()).value).error.code, -32001);
  assert.equal((await stream.next()).done, true);
});

test("a panic ends its own request at once, and nobody else's", async () => {
  const [neighbour, session] = [await open(), await open()];
  const running = neighbour.call("tools/call", { name: "test_slow", arguments: { milliseconds: 1_000 } });
  for (const accept of ["application/json, text/event-stream", "application/json"]) {
    const { status, error } = await session.call("tools/call", { name: "test_panic", arguments: {} }, { headers: { accept } });
    assert.deepEqual([status, error.code], [500, -32603]);
    const [, reference] = /reference ([0-9a-f]+)/.exec(error.message);
    await waitFor(() => gateway.logs("mcp_internal_error").some(({ correlationId }) => correlationId === reference), { what: "the log line" });
  }
  assert.equal(text(await session.tool("echo", { message: "still here" })), "still here");
  assert.equal(text((await running).result), "slept 1000 ms");
  assert.equal(gateway.logs("mcp_session_object_started").filter(({ sessionId }) => sessionId === neighbour.id).length, 1, "the neighbour was not reset");
});

test("a change is told on the stream of GET, also by an object that was evicted meanwhile", async () => {
  const session = await open();
  const stream = session.stream();
  const next = stream.next();
  await waitFor(() => gateway.evict("SessionDurableObject", session.id).then(() => true, () => false), { what: "the object to be idle" });
  assert.equal(text(await session.tool("test_changed", { what: "tools" })), "changed: tools");
  assert.deepEqual(messageOf((await next).value), { jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  assert.equal(gateway.logs("mcp_session_object_started").filter(({ sessionId }) => sessionId === session.id).length, 2);
  await stream.return();
});

test("log messages come from the level on that the client set", async () => {
  const session = await open();
  const messages = async () => (await session.call("tools/call", { name: "test_tool_with_logging", arguments: {} })).messages.map(({ params }) => params.level);
  await session.call("logging/setLevel", { level: "info" });
  assert.deepEqual(await messages(), ["info", "info", "info"]);
  await session.call("logging/setLevel", { level: "warning" });
  await gateway.evict("SessionDurableObject", session.id);
  assert.deepEqual(await messages(), []);
});

test("a client that cannot be asked is not asked, and the model is told", async () => {
  const session = await open();
  for (const [name, args] of [["test_question", { count: 1 }], ["test_url_question", { url: "https://example.com" }], ["test_roots", {}], ["test_sampling", { prompt: "hi" }]]) {
    const { result, messages } = await session.call("tools/call", { name, arguments: args });
    assert.deepEqual([result.isError, messages], [true, []], name);
  }
  const json = await open({ capabilities: { elicitation: {}, sampling: {}, roots: {} } });
  assert.equal((await json.call("tools/call", { name: "test_roots", arguments: {} }, { headers: { accept: "application/json" } })).result.isError, true);
  const { result } = await json.call("tools/call", { name: "test_roots", arguments: {} }, {
    onMessage: (message) => message.method === "roots/list" && json.answer(message.id, { roots: [{ uri: "file:///a" }] }),
  });
  assert.match(text(result), /file:\/\/\/a/);
});

test("resources, prompts and completion pass through with their errors", async () => {
  const session = await open();
  const { capabilities } = session.initialized;
  assert.deepEqual([capabilities.resources.subscribe, typeof capabilities.prompts, typeof capabilities.completions], [true, "object", "object"]);
  assert.ok((await session.call("resources/list")).result.resources.length > 0);
  assert.equal((await session.call("resources/read", { uri: "test://none" })).error.code, -32002);
  assert.equal((await session.call("prompts/get", { name: "none" })).error.code, -32602);
  assert.equal((await session.call("prompts/list", { cursor: "x" })).error.code, -32602);
  assert.equal((await session.call("tasks/list")).error.code, -32601);
  const code = await open({ query: { tool_mode: "code" } });
  assert.equal((await code.call("prompts/list")).error.code, -32601, "not in code mode");
});
