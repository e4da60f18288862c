// Streams of slow requests: event ids, reading again, cancelling, restarts.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { devToken, eventsOf, openSession, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "3000", EXECUTION_RECOVERY_MS: "500" } });
});
after(() => gateway.stop());

const SLOW = "let n = 0; for (let i = 0; i < 40; i++) n += (await tools.demo.getItem({ id: 'item-1' })).ok ? 1 : 0; return n";
const call = (code, id = 1, name = "execute", args = { code }) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } });

/** Reads events until the stream ends or `until` is satisfied. */
async function events(response, until = () => false) {
  const found = [];
  for await (const event of eventsOf(response.body)) {
    found.push(event);
    if (until(event)) break;
  }
  return found;
}
const again = (session, lastEventId) => session.request("GET", { headers: { accept: "text/event-stream", "last-event-id": lastEventId } });

test("a stream of a newest client starts with an id and no data, and its answer has an id", async () => {
  const session = await openSession(gateway);
  const [first, answer, ...rest] = await events(await session.send(call("return 7")));
  assert.deepEqual(rest, []);
  assert.equal(first.data, "");
  assert.match(first.id, /^\d+-0$/);
  assert.equal(answer.id, first.id.replace(/0$/, "1"));
  assert.equal(JSON.parse(answer.data).result.structuredContent.result, 7);
  const older = await openSession(gateway, { protocolVersion: "2025-06-18" });
  const [only, none] = await events(await older.send(call("return 7")));
  assert.equal(none, undefined);
  assert.equal(JSON.parse(only.data).result.structuredContent.result, 7);
});

test("a client that lost its stream gets the answer by GET, once, and then the stream closes", async () => {
  const session = await openSession(gateway);
  const [first] = await events(await session.send(call(SLOW, "lost")), () => true);
  const [answer, ...rest] = await events(await again(session, first.id));
  assert.deepEqual(rest, []);
  const message = JSON.parse(answer.data);
  assert.deepEqual([message.id, message.result.structuredContent.result], ["lost", 40]);
  assert.deepEqual(await events(await again(session, answer.id)), [], "nothing comes after the answer");
  const [same] = await events(await again(session, first.id));
  assert.deepEqual(same, answer, "until its retention is over it can be had again");
});

test("the answer is there although it was produced while nobody was connected, after SIGKILL too", async () => {
  const own = await startGateway({ vars: { EXECUTION_RECOVERY_MS: "500" } });
  try {
    const session = await openSession(own);
    const [first] = await events(await session.send(call(SLOW, "killed")), () => true);
    await own.kill();
    await own.start();
    const [answer] = await events(await again(session, first.id));
    const message = JSON.parse(answer.data);
    assert.deepEqual([message.id, message.result.structuredContent.result], ["killed", 40]);
  } finally {
    await own.stop();
  }
});

test("broken and unknown event ids are refused, and so are those of another session", async () => {
  const session = await openSession(gateway);
  const [first] = await events(await session.send(call("return 1")));
  for (const id of ["x", "1", `${first.id}-1`, "999-0", "1-9", "-1-0"]) {
    const response = await again(session, id);
    assert.equal(response.status, 400, id);
    assert.equal((await response.json()).error.code, -32000);
  }
  const stranger = await openSession(gateway, { token: devToken({ account: "eve" }) });
  assert.equal((await again(stranger, first.id)).status, 400);
  assert.equal((await session.request("GET", { headers: { accept: "application/json" } })).status, 406);
});

test("the same id on two live requests gives each its own answer on its own stream", async () => {
  const session = await openSession(gateway);
  const streams = await Promise.all([session.send(call("return (await tools.demo.getItem({ id: 'item-1' })).data.id", 5)), session.send(call("return (await tools.demo.getItem({ id: 'item-2' })).data.id", 5))]);
  const results = await Promise.all(streams.map(async (response) => JSON.parse((await events(response)).at(-1).data).result.structuredContent.result));
  assert.deepEqual(results, ["item-1", "item-2"]);
});

test("a cancelled program stops, its stream ends, and nothing of it is left", async () => {
  const token = devToken({ organization: "cancel" });
  const session = await openSession(gateway, { token });
  const rows = (table) => gateway.sql("SessionDurableObject", session.id, `SELECT COUNT(*) AS n FROM ${table}`);
  const response = await session.send(call("for (;;) await tools.demo.getItem({ id: 'item-1' })", "endless"));
  await waitFor(() => gateway.logs("mcp_tool_call").length > 0);
  await session.notify("notifications/cancelled", { requestId: "endless" });
  const received = await events(response);
  assert.deepEqual(received.filter(({ data }) => data !== ""), [], "no answer to a cancelled request");
  await waitFor(async () => (await Promise.all(["execution", "journal", "pause", "stream", "response"].map(rows))).every((found) => found[0].n === 0));
  assert.equal((await session.tool("execute", { code: "return 1" })).structuredContent.result, 1);
});

test("cancelling a resume ends only the waiting", async () => {
  const token = devToken({ organization: "wait" });
  const session = await openSession(gateway, { token });
  const pause = (await session.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" })).structuredContent;
  const response = await session.send(call(undefined, "waiting", "resume", { executionId: pause.executionId }));
  await session.notify("notifications/cancelled", { requestId: "waiting" });
  assert.deepEqual((await events(response)).filter(({ data }) => data !== ""), []);
  const still = (await session.tool("resume", { executionId: pause.executionId })).structuredContent;
  assert.equal(still.status, "user_approval_required");
});
