// tool_mode=direct: every tool by itself, with the same pauses; and what a plain MCP client sees of it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { approve, decline, devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "3000", EXECUTION_RECOVERY_MS: "500", SUSPEND_AFTER_MS: "300" } });
});
after(() => gateway.stop());

let organizations = 0;
const open = (options = {}) => openSession(gateway, { token: devToken({ organization: `direct${organizations += 1}` }), query: { tool_mode: "direct" }, ...options });
const tokens = (number) => ({ token: devToken({ organization: `direct${number}`, roles: ["approver"] }) });

test("the list has every tool under a name that clients take, in an order that stays", async () => {
  const session = await open();
  const { result, headers } = await session.call("tools/list");
  assert.match(headers.get("content-type"), /^application\/json/);
  const names = result.tools.map((tool) => tool.name);
  assert.equal(names[0], "resume");
  assert.deepEqual(names.slice(1), [...names.slice(1)].sort());
  assert.ok(names.includes("demo__listItems") && names.includes("demo__deleteItem"), names.join());
  assert.ok(!names.includes("execute"));
  for (const tool of result.tools) {
    assert.match(tool.name, /^[A-Za-z0-9_-]{1,64}$/);
    assert.equal(tool.inputSchema.type, "object");
    assert.equal(tool.outputSchema, undefined, "clients would hold real answers against it");
  }
  assert.match(result.tools.find((tool) => tool.name === "demo__deleteItem").description, /approve/);
  gateway.evict && (await gateway.evict("SessionDurableObject", session.id));
  assert.deepEqual((await session.call("tools/list")).result, result);
  for (const cursor of ["x", "!", 7, Buffer.from("no dot").toString("base64url")]) {
    assert.equal((await session.call("tools/list", { cursor })).error.code, -32602, String(cursor));
  }
  assert.deepEqual((await session.call("tools/list", { cursor: Buffer.from("zzz.z").toString("base64url") })).result.tools, []);
});

test("a tool that only reads answers at once, and writes nothing", async () => {
  const session = await open();
  const rows = () => gateway.sql("SessionDurableObject", session.id, "SELECT (SELECT COUNT(*) FROM journal) AS journal, (SELECT COUNT(*) FROM stream) AS streams, (SELECT COUNT(*) FROM event) AS events");
  const answered = await session.call("tools/call", { name: "demo__getItem", arguments: { id: "item-1" } });
  assert.match(answered.headers.get("content-type"), /^application\/json/);
  assert.equal(answered.result.isError, false);
  assert.equal(answered.result.structuredContent.id, "item-1");
  assert.equal(JSON.parse(answered.result.content[0].text).id, "item-1");
  assert.deepEqual(await rows(), [{ journal: 0, streams: 0, events: 0 }]);
});

test("what is wrong with a call comes as a result that a model can correct", async () => {
  const session = await open();
  const wrong = await session.tool("demo__getItem", { id: 5, more: true });
  assert.equal(wrong.isError, true);
  assert.match(wrong.content[0].text, /id/);
  const missing = await session.tool("demo__getItem", { id: "item-none" });
  assert.equal(missing.isError, true);
  assert.match(missing.content[0].text, /404/);
  assert.equal((await session.call("tools/call", { name: "demo__getItem", arguments: [] })).result.isError, true);
  assert.equal((await session.call("tools/call", { name: "demo__nothing" })).error.code, -32602);
  assert.equal((await session.call("tools/call", { name: "execute", arguments: { code: "1" } })).error.code, -32602);
  assert.equal((await session.call("tools/call", { name: "demo.getItem", arguments: { id: "item-1" } })).error.code, -32602);
  assert.equal((await session.call("resources/list")).error.code, -32601);
});

test("a risky tool waits, runs once when it is approved, and resume gives its own result", async () => {
  const session = await open();
  const number = organizations;
  const paused = await session.tool("demo__deleteItem", { id: "item-1" });
  assert.equal(paused.structuredContent.status, "user_approval_required");
  assert.deepEqual(paused.structuredContent.pending.map(({ address, args }) => [address, args]), [["demo.deleteItem", { id: "item-1" }]]);
  assert.equal((await session.tool("demo__getItem", { id: "item-1" })).isError, false, "not before somebody decided");
  await gateway.kill();
  await gateway.start();
  const decided = await approve(gateway, paused.structuredContent, tokens(number));
  assert.equal(decided.status, 200, JSON.stringify(decided.body));
  const done = await session.tool("resume", { executionId: paused.structuredContent.executionId });
  assert.equal(done.isError, false);
  assert.equal(done.structuredContent?.status, undefined, "the tool's own result, not a program's");
  assert.equal((await session.tool("demo__getItem", { id: "item-1" })).isError, true);
  assert.deepEqual(await session.tool("resume", { executionId: paused.structuredContent.executionId }), done, "a retry replays it");
});

test("a risky tool that is declined says so", async () => {
  const session = await open();
  const number = organizations;
  const paused = await session.tool("demo__deleteItem", { id: "item-2" });
  await decline(gateway, paused.structuredContent, "not this one", tokens(number));
  const done = await session.tool("resume", { executionId: paused.structuredContent.executionId });
  assert.equal(done.isError, true);
  assert.equal(done.structuredContent.error.code, "declined");
  assert.match(JSON.stringify(done), /not this one/);
  assert.equal((await session.tool("demo__getItem", { id: "item-2" })).isError, false);
});

test("a client that takes JSON only gets the same pause", async () => {
  const session = await open();
  const { status, headers, result } = await session.call("tools/call", { name: "demo__deleteItem", arguments: { id: "item-3" } }, { headers: { accept: "application/json" } });
  assert.equal(status, 200);
  assert.match(headers.get("content-type"), /^application\/json/);
  assert.equal(result.structuredContent.status, "user_approval_required");
});

test("a client that cancels a call which waits for a person ends only its own waiting", async () => {
  const session = await open({ query: { tool_mode: "direct", elicitation_mode: "browser" } });
  const number = organizations;
  const paused = await session.tool("demo__deleteItem", { id: "item-3" });
  const waiting = session.call("tools/call", { name: "resume", arguments: { executionId: paused.structuredContent.executionId } }, { id: "waits" });
  await waitFor(async () => (await gateway.sql("SessionDurableObject", session.id, "SELECT json FROM stream WHERE ended_at IS NULL")).some(({ json }) => json.includes("waits")), { what: "the request to be open" });
  assert.equal((await session.notify("notifications/cancelled", { requestId: "waits" })).status, 202);
  const ended = await waiting;
  assert.equal(ended.result, undefined);
  assert.equal((await approve(gateway, paused.structuredContent, tokens(number))).status, 200);
  assert.equal((await session.tool("resume", { executionId: paused.structuredContent.executionId })).isError, false);
});
