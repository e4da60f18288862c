// The limits of a program, against a backend that counts: many calls, few at a time, a full journal, waiting for a turn.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { startBackend } from "./harness/backend.mjs";
import { devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";

/** Of the gateway: calls of one program that are on their way at once, and programs of one session that run at once. */
const IN_FLIGHT = 6;
const SANDBOXES = 8;
const TIMEOUT_MS = 8_000;
/** Longer than half the time limit, so that a program that waited for its turn is over it by the clock. */
const HELD_MS = 5_000;

let backend;
let gateway;
before(async () => {
  backend = await startBackend();
  gateway = await startCounted();
});
after(async () => {
  await gateway?.stop();
  await backend?.stop();
});

/** A gateway with the backend as its source `counter`. */
async function startCounted(vars = {}) {
  const started = await startGateway({ vars: { ALLOW_LOCAL_NETWORK: "true", RESUME_WAIT_MS: "60000", ...vars } });
  const read = (path) => ({ get: { operationId: path.slice(1), responses: { 200: { description: "ok" } } } });
  const document = {
    openapi: "3.1.0",
    info: { title: "Counter", version: "1" },
    servers: [{ url: backend.url }],
    paths: { "/count": read("/count"), "/large": read("/large"), "/slow": read("/slow") },
  };
  const response = await started.fetch("/api/sources/counter", {
    method: "PUT",
    headers: { "content-type": "application/json", authorization: `Bearer ${devToken({ roles: ["admin"] })}` },
    body: JSON.stringify({ kind: "openapi", spec: JSON.stringify(document), baseUrl: backend.url }),
  });
  assert.equal(response.status, 201, await response.text());
  return started;
}

const run = async (session, code) => (await session.tool("execute", { code })).structuredContent;

test("hundreds of calls at once arrive once each, six at a time, and come back in order", async () => {
  let open = 0;
  let most = 0;
  let number = 0;
  backend.answer = (request, response) => {
    open += 1;
    most = Math.max(most, open);
    const own = number++;
    setImmediate(() => {
      open -= 1;
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ own }));
    });
  };
  backend.take();
  const session = await openSession(gateway);
  const answer = await run(session, `
    const results = await Promise.all(Array.from({ length: 200 }, () => tools.counter.count()));
    return results.map((each) => each.data.own);`);
  assert.equal(answer.status, "completed", JSON.stringify(answer));
  assert.equal(backend.take().length, 200);
  assert.deepEqual(answer.result.toSorted((a, b) => a - b), Array.from({ length: 200 }, (_, i) => i));
  assert.ok(most <= IN_FLIGHT, `${most} at once`);
});

test("the thousand-and-first call ends the program with advice, whether it waits for the others or not", async () => {
  const session = await openSession(gateway);
  backend.take();
  const answer = await run(session, "await Promise.all(Array.from({ length: 1_001 }, () => tools.counter.count())); return 'done'");
  assert.equal(answer.status, "error");
  assert.equal(answer.error.code, "too_many_calls");
  assert.match(answer.error.message, /1000/);
  assert.ok(backend.take().length <= 1_000);
});

test("a full journal ends the program with an error of its own, and the session goes on", async () => {
  const text = JSON.stringify("x".repeat(7 << 20));
  backend.answer = (request, response) => response.writeHead(200, { "content-type": "application/json" }).end(text);
  const session = await openSession(gateway);
  const answer = await run(session, `
    const lengths = [];
    for (let i = 0; i < 6; i += 1) {
      const { ok, data, error } = await tools.counter.large();
      if (!ok) return { lengths, error };
      lengths.push(data.length);
    }
    return { lengths };`);
  const { lengths, error } = answer.result ?? {};
  assert.equal(error?.code ?? answer.error?.code, "journal_full", JSON.stringify(answer).slice(0, 500));
  if (lengths) assert.deepEqual(lengths, Array(4).fill(7 << 20));
  assert.equal((await run(session, "return 1")).result, 1);
});

test("waiting for a turn does not count as running", async (t) => {
  const gateway = await startCounted({ EXECUTION_TIMEOUT_MS: String(TIMEOUT_MS) });
  t.after(() => gateway.stop());
  const waiting = [];
  const release = () => waiting.splice(0).forEach((response) => response.writeHead(200, { "content-type": "application/json" }).end("{}"));
  let arrived = 0;
  backend.answer = (request, response) => {
    arrived += 1;
    waiting.push(response);
  };
  const session = await openSession(gateway);
  const slow = () => run(session, "const { ok } = await tools.counter.slow(); return ok;");
  const first = Array.from({ length: SANDBOXES }, slow);
  await waitFor(() => arrived === SANDBOXES, { what: "the first programs' calls" });
  const began = Date.now();
  const last = slow();
  // The one that queues must have begun to wait: its execution is listed.
  await waitFor(async () => (await executions(gateway, session)).length === SANDBOXES + 1, { what: "the program that queues" });
  await waitFor(() => Date.now() - began > HELD_MS, { what: "the time to pass" });
  assert.equal(arrived, SANDBOXES, "the ninth program has no sandbox yet");
  release();
  for (const each of await Promise.all(first)) assert.equal(each.result, true, JSON.stringify(each));
  await waitFor(() => arrived === SANDBOXES + 1, { what: "the call of the program that waited" });
  await waitFor(() => Date.now() - began > TIMEOUT_MS + 500, { what: "the time to pass" });
  release();
  const answer = await last;
  assert.equal(answer.result, true, JSON.stringify(answer));
});

async function executions(gateway, session) {
  const authorization = `Bearer ${devToken({ roles: ["approver"] })}`;
  const response = await gateway.fetch(`/api/mcp-sessions/${session.id}/executions`, { headers: { authorization } });
  assert.equal(response.status, 200);
  return (await response.json()).structured.executions;
}
