// The request ladder and the lifecycle of a session, as protocol.md says, seen from outside.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { decline, devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { DEV_REQUIRE_TOKEN: "true", ALLOWED_ORIGINS: "https://app.example" } });
});
after(() => gateway.stop());

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
};
const AUTHORIZED = { authorization: `Bearer ${devToken()}` };
const JSON_HEADERS = { ...AUTHORIZED, "content-type": "application/json", accept: "application/json, text/event-stream" };

const post = (body, headers = {}, path = "/mcp") =>
  gateway.fetch(path, { method: "POST", headers: { ...JSON_HEADERS, ...headers }, body: typeof body === "string" ? body : JSON.stringify(body) });

async function expectError(response, status, code, message) {
  assert.equal(response.status, status);
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.equal(response.headers.get("access-control-allow-origin"), "*");
  const body = await response.json();
  assert.equal(body.jsonrpc, "2.0");
  assert.ok("id" in body);
  assert.equal(body.error.code, code);
  if (message) assert.match(body.error.message, message);
  return body;
}

test("a preflight is answered before authentication", async () => {
  const response = await gateway.fetch("/mcp", {
    method: "OPTIONS",
    headers: { origin: "https://elsewhere.example", "access-control-request-headers": "mcp-param-region, x-other" },
  });
  assert.equal(response.status, 204);
  assert.equal(response.headers.get("access-control-allow-methods"), "GET, POST, DELETE, OPTIONS");
  const allowed = response.headers.get("access-control-allow-headers");
  assert.match(allowed, /mcp-session-id/);
  assert.match(allowed, /mcp-param-region/);
  assert.doesNotMatch(allowed, /x-other/);
  assert.equal(response.headers.get("access-control-max-age"), "86400");
});

test("other methods are refused before authentication", async () => {
  for (const method of ["PUT", "PATCH"]) {
    const response = await gateway.fetch("/mcp", { method });
    assert.equal(response.headers.get("allow"), "GET, POST, DELETE, OPTIONS");
    await expectError(response, 405, -32001, /Method not allowed/);
  }
});

test("foreign pages are refused, allowed ones are not", async () => {
  for (const origin of ["https://evil.example", "null", "http://localhost.evil.example"]) {
    await expectError(await post(INITIALIZE, { origin }), 403, -32000);
  }
  for (const origin of ["https://app.example", "http://localhost:5173", gateway.url.replace(/\/$/, "")]) {
    assert.equal((await post(INITIALIZE, { origin })).status, 200, origin);
  }
});

test("no bearer and a bad bearer are challenged differently", async () => {
  const none = await gateway.fetch("/mcp", { method: "POST", body: "{}" });
  assert.match(none.headers.get("www-authenticate"), /^Bearer resource_metadata="http:\/\/[^"]+\/\.well-known\/oauth-protected-resource\/mcp"$/);
  await expectError(none, 401, -32001, /^Unauthorized$/);
  const bad = await post(INITIALIZE, { authorization: "Bearer something-else" });
  assert.match(bad.headers.get("www-authenticate"), /error="invalid_token"/);
  await expectError(bad, 401, -32001);
  await expectError(await post(INITIALIZE, { authorization: "Bearer dev:ada@acme:approver" }), 403, -32001);
});

test("requests without a session get what the table says", async () => {
  const remove = await gateway.fetch("/mcp", { method: "DELETE", headers: AUTHORIZED });
  assert.equal(remove.status, 200);
  assert.equal(await remove.text(), "");
  await expectError(await gateway.fetch("/mcp", { headers: { ...AUTHORIZED, accept: "text/event-stream" } }), 400, -32000, /required for SSE/);
  const body = await expectError(await post({ jsonrpc: "2.0", id: "x", method: "ping" }), 400, -32000, /Mcp-Session-Id header is required/);
  assert.equal(body.id, "x");
});

test("unknown and foreign session ids write nothing", async () => {
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
  for (const id of ["x", "../../etc", "f".repeat(64), "0".repeat(64), "A".repeat(5000)]) {
    await expectError(await post(ping, { "mcp-session-id": id }), 404, -32001, /^Session not found$/);
  }
  const session = await openSession(gateway);
  const objects = (await gateway.objects("SessionDurableObject")).length;
  // An id of the platform's own form that was never opened: made by changing the part that is random.
  await expectError(await post(ping, { "mcp-session-id": session.id.replace(/^./, (c) => (c === "0" ? "1" : "0")) }), 404, -32001, /^Session not found$/);
  assert.equal((await gateway.objects("SessionDurableObject")).length, objects);
});

test("another account is refused and the owner does not notice", async () => {
  const session = await openSession(gateway);
  const foreign = { authorization: `Bearer ${devToken({ account: "eve" })}`, "mcp-session-id": session.id };
  await expectError(await post({ jsonrpc: "2.0", id: 1, method: "ping" }, foreign), 403, -32003, /does not belong/);
  await expectError(await gateway.fetch("/mcp", { method: "DELETE", headers: { ...JSON_HEADERS, ...foreign } }), 403, -32003);
  const otherOrganization = { authorization: `Bearer ${devToken({ organization: "other" })}`, "mcp-session-id": session.id };
  await expectError(await post({ jsonrpc: "2.0", id: 1, method: "ping" }, otherOrganization), 403, -32003);
  assert.deepEqual((await session.call("ping")).result, {});
});

test("after DELETE the session is timed out from the very next request", async () => {
  const session = await openSession(gateway);
  assert.equal((await session.del()).status, 200);
  const { status, error } = await session.call("ping");
  assert.deepEqual([status, error.code, error.message], [404, -32001, "Session timed out, please reconnect"]);
  assert.equal((await session.del()).status, 404);
});

test("an initialize that carries an id opens a new session", async () => {
  const session = await openSession(gateway);
  for (const id of [session.id, "0".repeat(64), "stale"]) {
    const response = await post(INITIALIZE, { "mcp-session-id": id });
    assert.equal(response.status, 200, id);
    assert.notEqual(response.headers.get("mcp-session-id"), id);
  }
  assert.equal((await session.call("ping")).status, 200);
});

test("versions are negotiated, and an unsupported header is named", async () => {
  for (const [asked, answered] of [["2025-06-18", "2025-06-18"], ["2024-11-05", "2024-11-05"], ["2026-07-28", "2025-11-25"], ["1", "2025-11-25"]]) {
    const session = await openSession(gateway, { protocolVersion: asked });
    assert.equal(session.initialized.protocolVersion, answered);
  }
  const session = await openSession(gateway);
  const { status, error } = await session.call("ping", {}, { headers: { "mcp-protocol-version": "1999-01-01" } });
  assert.deepEqual([status, error.code], [400, -32000]);
  assert.match(error.message, /2025-11-25.*2024-11-05/);
});

test("content negotiation takes what real clients send", async () => {
  const session = await openSession(gateway);
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
  const of = (headers) => post(ping, { "mcp-session-id": session.id, ...headers });
  for (const accept of ["application/json", "*/*", "application/json, text/event-stream", "application/*"]) {
    const response = await of({ accept });
    assert.equal(response.headers.get("content-type"), "application/json", accept);
  }
  const events = await of({ accept: "text/event-stream" });
  assert.equal(events.headers.get("content-type"), "text/event-stream");
  assert.match(await events.text(), /^event: message\ndata: \{"jsonrpc":"2.0","id":1,"result":\{\}\}\n\n$/);
  await expectError(await of({ accept: "text/html" }), 406, -32000);
  await expectError(await of({ "content-type": "text/plain" }), 415, -32000);
  assert.equal((await of({ "content-type": "Application/JSON; charset=utf-8" })).status, 200);
});

test("bad bodies get their own codes, with the id where it can be read", async () => {
  const session = await openSession(gateway);
  const of = (body) => post(body, { "mcp-session-id": session.id });
  await expectError(await of("{"), 400, -32700);
  await expectError(await of(""), 400, -32700);
  await expectError(await of("[".repeat(100_000)), 400, -32700);
  await expectError(await of("[]"), 400, -32600);
  await expectError(await of({ jsonrpc: "2.0", id: null, method: "ping" }), 400, -32600);
  await expectError(await of({ jsonrpc: "2.0", id: 1.5, method: "ping" }), 400, -32600);
  await expectError(await of({ jsonrpc: "2.0", id: "i".repeat(2_000), method: "ping" }), 400, -32600);
  assert.equal((await expectError(await of({ jsonrpc: "1.0", id: 7, method: "ping" }), 400, -32600)).id, 7);
  await expectError(await of([{ jsonrpc: "2.0", id: 1, method: "ping" }]), 400, -32600);
  await expectError(await of(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping", params: { x: "y".repeat(4 << 20) } })), 413, -32000);
});

test("a body over the limit is refused whatever its length header says", async () => {
  const session = await openSession(gateway);
  const chunk = new TextEncoder().encode(" ".repeat(1 << 20));
  let sent = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (sent++ < 6) controller.enqueue(chunk);
      else controller.close();
    },
  });
  const response = await gateway.fetch("/mcp", { method: "POST", headers: { ...JSON_HEADERS, "mcp-session-id": session.id }, body, duplex: "half" });
  await expectError(response, 413, -32000);
});

test("whoever sends a large body that is refused unread gets to read why", async () => {
  const session = await openSession(gateway);
  const foreign = await openSession(gateway, { token: devToken({ account: "eve" }) });
  const ended = await openSession(gateway);
  assert.equal((await gateway.fetch("/mcp", { method: "DELETE", headers: { ...JSON_HEADERS, "mcp-session-id": ended.id } })).status, 200);
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping", params: { text: "x".repeat(3 << 20) } });
  for (const [headers, status, code] of [
    [{ authorization: "" }, 401, -32001],
    [{ authorization: "Bearer nobody" }, 401, -32001],
    [{ origin: "https://evil.example" }, 403, -32000],
    [{ accept: "text/html" }, 406, -32000],
    [{ "content-type": "text/plain" }, 415, -32000],
    [{ "mcp-session-id": undefined, accept: "text/html" }, 406, -32000],
    [{ "mcp-session-id": "0".repeat(64) }, 404, -32001],
    [{ "mcp-session-id": ended.id }, 404, -32001],
    [{ "mcp-session-id": foreign.id }, 403, -32003],
  ]) {
    const sent = Object.entries({ ...JSON_HEADERS, "mcp-session-id": session.id, ...headers }).filter(([, value]) => value);
    const response = await gateway.fetch("/mcp", { method: "POST", headers: Object.fromEntries(sent), body });
    await expectError(response, status, code);
  }
  const put = await gateway.fetch("/mcp", { method: "PUT", headers: JSON_HEADERS, body });
  await expectError(put, 405, -32001);
});

test("where a token is asked for, an Origin of the gateway's own is none", async () => {
  for (const method of ["GET", "PUT"]) {
    const headers = { origin: new URL(gateway.url).origin, "content-type": "application/json" };
    const body = method === "PUT" ? JSON.stringify({ kind: "openapi", spec: "{}" }) : undefined;
    assert.equal((await gateway.fetch("/api/sources/x", { method, headers, body })).status, 401, method);
  }
});

test("notifications and responses are accepted without a body", async () => {
  const session = await openSession(gateway);
  for (const message of [
    { jsonrpc: "2.0", method: "notifications/whatever" },
    { jsonrpc: "2.0", id: 5, result: {} },
    { jsonrpc: "2.0", id: 5, error: { code: 1, message: "no" } },
  ]) {
    const response = await session.send(message);
    assert.equal(response.status, 202);
    assert.equal(await response.text(), "");
  }
});

test("batches exist in 2025-03-26, and every request gets its own answer", async () => {
  const session = await openSession(gateway, { protocolVersion: "2025-03-26" });
  const response = await session.send([
    { jsonrpc: "2.0", id: 1, method: "ping" },
    { jsonrpc: "2.0", method: "notifications/initialized" },
    { jsonrpc: "2.0", id: 1, method: "nothing" },
    { jsonrpc: "2.0", id: 2, method: 5 },
  ]);
  const answers = await response.json();
  assert.deepEqual(answers.map(({ id, result, error }) => [id, result ?? error.code]), [[1, {}], [1, -32601], [2, -32600]]);
  const withInitialize = await session.send([INITIALIZE, { jsonrpc: "2.0", id: 2, method: "ping" }]);
  await expectError(withInitialize, 400, -32600);
});

test("unknown methods, tools and cursors are JSON-RPC errors", async () => {
  const session = await openSession(gateway);
  for (const [method, params, code] of [
    ["no/such", {}, -32601],
    ["tools/call", { name: "no-such" }, -32602],
    ["tools/call", {}, -32602],
    ["tools/list", { cursor: "x" }, -32602],
  ]) {
    const { status, error } = await session.call(method, params);
    assert.deepEqual([status, error.code], [200, code], method);
  }
  const bad = await session.tool("execute", { code: 7 });
  assert.equal(bad.isError, true);
});

test("the tool list is the same every time and safe for every client", async () => {
  const session = await openSession(gateway);
  const { result } = await session.call("tools/list");
  assert.deepEqual(result.tools.map(({ name }) => name), ["execute", "resume", "skills"]);
  for (const tool of result.tools) {
    assert.equal(tool.inputSchema.type, "object");
    assert.ok(tool.description.length < 1_200, tool.name);
  }
  const again = await (await openSession(gateway)).call("tools/list");
  assert.deepEqual(again.result, result);
  const guides = await session.tool("skills");
  assert.match(guides.content[0].text, /approvals/);
  assert.match((await session.tool("skills", { name: "approvals" })).content[0].text, /resume/);
  assert.equal((await session.tool("skills", { name: "none" })).isError, true);
});

test("modes that do not exist are refused with what there is", async () => {
  await expectError(await post(INITIALIZE, {}, "/mcp?elicitation_mode=telepathy"), 400, -32000, /browser, native, model/);
  await expectError(await post(INITIALIZE, {}, "/mcp?tool_mode=none"), 400, -32000, /tool_mode/);
  assert.equal((await post(INITIALIZE, {}, "/mcp/?elicitation_mode=model")).status, 200);
});

test("internal headers from outside are not believed", async () => {
  const session = await openSession(gateway);
  const forged = Buffer.from(JSON.stringify({ version: 2, asked: {}, principal: { account: "ada", organization: "acme", admin: true, purpose: "mcp" }, resource: "default", public_origin: "x", operation: { name: "mcp" } })).toString("base64");
  const response = await post(
    { jsonrpc: "2.0", id: 1, method: "ping" },
    { authorization: `Bearer ${devToken({ account: "eve" })}`, "mcp-session-id": session.id, "x-countersign-context": forged },
  );
  await expectError(response, 403, -32003);
});

test("development mode serves loopback names only and nothing from the platform's edge", async () => {
  await assertForbidden({ "cf-ray": "abc" });
  assert.equal((await gateway.fetch("/health")).status, 200);

  async function assertForbidden(headers) {
    const response = await gateway.fetch("/mcp", { method: "POST", headers: { ...JSON_HEADERS, ...headers }, body: JSON.stringify(INITIALIZE) });
    assert.equal(response.status, 403);
  }
});

test("resource metadata names exactly the endpoint", async () => {
  for (const path of ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]) {
    const body = await (await gateway.fetch(path)).json();
    assert.equal(body.resource, new URL("/mcp", gateway.url).href);
  }
  const none = await gateway.fetch("/no/such/path");
  assert.equal(none.status, 404);
  assert.equal(none.headers.get("content-type"), "application/json");
});

test("a session survives its object and the whole runtime", async () => {
  const own = await startGateway();
  try {
    const session = await openSession(own);
    await own.evict("SessionDurableObject", session.id);
    assert.equal((await session.call("ping")).status, 200);
    await own.kill();
    await own.start();
    assert.equal((await session.call("ping")).status, 200);
  } finally {
    await own.stop();
  }
});

test("a session ends when it is idle, is wiped after its time, and its id is unknown then", async () => {
  const quick = await startGateway({ vars: { SESSION_IDLE_TIMEOUT_MS: "700", TOMBSTONE_MS: "1500" } });
  try {
    const tables = (session) => quick.sql("SessionDurableObject", session.id, "SELECT name FROM sqlite_master WHERE name = 'meta'");
    const idle = await openSession(quick);
    const deleted = await openSession(quick);
    await deleted.tool("execute", { code: "return 1" });
    await deleted.del();
    const waiting = await openSession(quick);
    const pause = (await waiting.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" })).structuredContent;
    await waitFor(() => quick.logs("mcp_session_terminated").some((line) => line.sessionId === idle.id && line.reason === "idle"));
    assert.equal((await idle.call("ping")).error.message, "Session timed out, please reconnect");
    for (const session of [idle, deleted]) await waitFor(async () => ((await tables(session)) ?? []).length === 0);
    for (const session of [idle, deleted]) {
      const { status, error } = await session.call("ping");
      assert.deepEqual([status, error.message], [404, "Session not found"]);
    }
    // What waits for a person keeps its session, although nobody uses it.
    assert.equal((await waiting.call("ping")).status, 200);
    await decline(quick, pause, "no");
    const later = await openSession(quick);
    const outcome = await later.tool("resume", { executionId: pause.executionId });
    assert.equal(outcome.structuredContent.result.error.reason, "no");
  } finally {
    await quick.stop();
  }
});

test("a setting that makes no sense is named in every answer", async () => {
  const broken = await startGateway({ vars: { RESUME_WAIT_MS: "soon" } }).catch((error) => error);
  if (broken instanceof Error) {
    assert.match(String(broken.message) + String(broken.cause ?? ""), /RESUME_WAIT_MS/);
    return;
  }
  try {
    const response = await broken.fetch("/health");
    assert.equal(response.status, 500);
    assert.match(await response.text(), /RESUME_WAIT_MS/);
  } finally {
    await broken.stop();
  }
});
