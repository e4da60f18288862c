// What a session leaves behind: while it lives, when it has ended, and when a later release opens its storage.
// `SESSIONS=1000 npm test -- lifecycle` opens more of them.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { approve, decide, decline, devToken, eventsOf, openSession, shownPause, startGateway, waitFor } from "./harness/index.mjs";

const SESSIONS = Number(process.env.SESSIONS ?? 200);
/** How many of them are in use at the same time. */
const AT_ONCE = 8;

const SESSION = "SessionDurableObject";
const DELETE_ITEM = "return (await tools.demo.deleteItem({ id: 'item-1' })).ok";
const call = (code, id) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "execute", arguments: { code } } });

/** Rows of every table of an object that the gateway wrote: `{table: count}`. Empty when it holds nothing. */
async function contents(gateway, id) {
  // Tables of SQLite and of the platform are not the gateway's.
  const tables =
    (await gateway.sql(SESSION, id, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*' AND name NOT GLOB '_cf_*'")) ??
    [];
  const counts = {};
  for (const { name } of tables) counts[name] = (await gateway.sql(SESSION, id, `SELECT COUNT(*) AS n FROM "${name}"`))[0].n;
  return counts;
}

/** Whether the object holds its session and nothing that happened in it. */
async function hasOnlyMeta(gateway, id) {
  const { meta, ...others } = await contents(gateway, id);
  return meta > 0 && Object.values(others).every((count) => count === 0);
}

const isWiped = async (gateway, id) => Object.keys(await contents(gateway, id)).length === 0;
const storedMeta = async (gateway, id) => JSON.parse((await gateway.sql(SESSION, id, "SELECT value FROM meta WHERE key = 'session-meta'"))[0].value);

/** Sends a program, reads only the stream's first event, and drops the connection. Gives that event's id. */
async function callAndHangUp(session, code, id) {
  const hangUp = new AbortController();
  const response = await session.send(call(code, id), { signal: hangUp.signal });
  const { value } = await eventsOf(response.body).next();
  hangUp.abort();
  return value.id;
}

/** The messages that a stream still has after an event. */
async function readAgain(session, lastEventId) {
  const messages = [];
  for await (const { data } of session.stream({ lastEventId })) if (data !== "") messages.push(JSON.parse(data));
  return messages;
}

/** Runs `work` for 0 … count - 1, a few at a time. */
async function inTurns(count, work) {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, count) }, worker));
}

/** What is done with them before they are deleted; the last two have a pause then that nobody has decided. */
const USES = ["runs", "reads again", "is approved", "is declined", "is approved later", "expires"];

test(`${SESSIONS} sessions that were used leave tombstones, and then nothing`, { timeout: 120_000 + SESSIONS * 1_000 }, async (t) => {
  const gateway = await startGateway({
    vars: { APPROVAL_WINDOW_MS: "5000", TOMBSTONE_MS: "3000", STREAM_RETENTION_MS: "60000", RESUME_WAIT_MS: "5000" },
  });
  t.after(() => gateway.stop());
  const ended = [];
  const since = performance.now();
  await inTurns(SESSIONS, async (index) => {
    // Few organizations: each has an object of its own to start.
    const organization = `org${index % 4}`;
    const approver = { token: devToken({ account: `user${index}`, organization, roles: ["approver"] }) };
    const session = await openSession(gateway, { token: devToken({ account: `user${index}`, organization }) });

    const use = USES[index % USES.length];
    let pause;
    if (use === "runs") {
      const answer = await session.tool("execute", { code: "return (await tools.demo.getItem({ id: 'item-2' })).data.id" });
      assert.equal(answer.structuredContent.result, "item-2");
    } else if (use === "reads again") {
      const event = await callAndHangUp(session, "return (await tools.demo.getItem({ id: 'item-2' })).data.id", "lost");
      const [answer, ...more] = await readAgain(session, event);
      assert.deepEqual([answer.id, answer.result.structuredContent.result, more], ["lost", "item-2", []]);
    } else {
      pause = (await session.tool("execute", { code: DELETE_ITEM })).structuredContent;
      assert.equal(pause.status, "user_approval_required");
    }
    if (use === "is approved") await approve(gateway, pause, approver);
    if (use === "is declined") await decline(gateway, pause, "no", approver);
    if (use === "is approved" || use === "is declined") {
      const outcome = (await session.tool("resume", { executionId: pause.executionId })).structuredContent;
      assert.deepEqual([outcome.status, typeof outcome.result], ["completed", "boolean"]);
    }
    assert.equal((await session.del()).status, 200);

    // What a person decides, or has decided, is kept for a while; all else until the organization was told (ARCHITECTURE.md).
    const kept = pause ? 1 : 0;
    await waitFor(async () => (await contents(gateway, session.id)).execution === kept, { what: `${use}: what nobody decides on to be forgotten` });
    const { meta, execution, pause: pauses, journal, ...others } = await contents(gateway, session.id);
    const what = `${use}: ${JSON.stringify({ execution, pauses, journal, ...others })}`;
    assert.deepEqual([meta > 0, execution, pauses, journal > 0], [true, kept, kept, kept > 0], what);
    assert.ok(
      Object.values(others).every((count) => count === 0),
      what,
    );
    assert.equal((await storedMeta(gateway, session.id)).terminated.reason, "deleted");
    if (use === "is approved later") await approve(gateway, pause, approver);
    ended.push({ session, pause, use, approver });
  });
  t.diagnostic(`${SESSIONS} sessions in ${Math.round(performance.now() - since)} ms`);

  for (const { session, use } of ended)
    await waitFor(() => isWiped(gateway, session.id), { timeout: 30_000, interval: 100, what: `the session that ${use} is wiped` });
  // Nor will anything wake them.
  assert.deepEqual(await gateway.sql(SESSION, "metadata", "SELECT actor_id FROM _cf_ALARM"), []);
  for (const { session, pause, use, approver } of ended.slice(0, USES.length * 2)) {
    const { status, error } = await session.call("ping");
    assert.deepEqual([status, error.message], [404, "Session not found"], use);
    if (pause) {
      await assert.rejects(shownPause(gateway, pause, approver), (error) => error.status === 404, use);
      assert.equal((await decide(gateway, pause, { action: "accept", digest: "0".repeat(64) }, approver)).status, 404, use);
    }
    assert.ok(await isWiped(gateway, session.id), "asking has stored nothing");
  }
  assert.deepEqual(gateway.logs("mcp_internal_error"), []);
  assert.deepEqual(gateway.logs("mcp_session_unaddressable_alarm_cleanup"), []);
  const reasons = Map.groupBy(gateway.logs("mcp_session_terminated"), ({ reason }) => reason);
  assert.deepEqual([...reasons.keys()], ["deleted"]);
  assert.equal(reasons.get("deleted").length, SESSIONS);
});

test("sessions that nobody deletes end the same way", async (t) => {
  const gateway = await startGateway({ vars: { SESSION_IDLE_TIMEOUT_MS: "4000", APPROVAL_WINDOW_MS: "3000", TOMBSTONE_MS: "1000" } });
  t.after(() => gateway.stop());
  const sessions = await Promise.all(
    Array.from({ length: 10 }, (_, index) => openSession(gateway, { token: devToken({ account: `user${index}` }) })),
  );
  // The first, before it is idle for too long on a machine that is busy.
  await callAndHangUp(sessions[9], "return 1", "lost");
  await Promise.all(sessions.slice(0, 5).map((session) => session.tool("execute", { code: DELETE_ITEM })));
  for (const { id } of sessions) await waitFor(() => isWiped(gateway, id), { timeout: 30_000, interval: 100, what: "the object is wiped" });
  assert.deepEqual(await gateway.sql(SESSION, "metadata", "SELECT actor_id FROM _cf_ALARM"), []);
  assert.ok(gateway.logs("mcp_session_terminated").every(({ reason }) => reason === "idle"));
});

test("while a session lives, what ended is forgotten after its time", async (t) => {
  const gateway = await startGateway({ vars: { EXECUTION_RETENTION_MS: "1200", STREAM_RETENTION_MS: "800" } });
  t.after(() => gateway.stop());
  const session = await openSession(gateway);
  const event = await callAndHangUp(session, "return (await tools.demo.getItem({ id: 'item-1' })).ok", "lost");
  await readAgain(session, event);
  const waiting = (await session.tool("execute", { code: DELETE_ITEM })).structuredContent;
  await waitFor(async () => {
    const { meta, execution, pause, journal, ...others } = await contents(gateway, session.id);
    return meta > 0 && execution === 1 && pause === 1 && journal > 0 && Object.values(others).every((count) => count === 0);
  });
  await assert.rejects(readAgain(session, event), (error) => error.status === 400);
  const approver = { token: devToken({ roles: ["approver"] }) };
  await approve(gateway, waiting, approver);
  await waitFor(() => hasOnlyMeta(gateway, session.id));
  assert.equal((await session.call("ping")).status, 200);
  assert.equal((await session.tool("resume", { executionId: waiting.executionId })).structuredContent.status, "execution_not_found");
});

/**
 * A module in front of the bundle that has its hand on the alarms of sessions. Of the code given, `before` stands at its top, `onSet`
 * runs where one is set (`this` is the storage, `at` the time, `set()` sets it), and `onAlarm` is the method that is called.
 */
const aroundAlarms = ({ before, onSet, onAlarm = "" }) => `
  import worker, * as all from "./index.js";
  export * from "./index.js";
  export default worker;
  ${before}
  let prototype;
  export class SessionDurableObject extends all.SessionDurableObject {
    constructor(state, env) {
      if (prototype === undefined) {
        prototype = Object.getPrototypeOf(state.storage);
        const { setAlarm } = prototype;
        prototype.setAlarm = function (at, options) {
          const set = () => setAlarm.call(this, at, options);
          ${onSet}
        };
      }
      super(state, env);
      this.storage = state.storage;
    }
    ${onAlarm}
  }`;

/**
 * The clock reads, when an alarm rings, what it was set to, or that much less: the machine that rings it may be ahead. Notes every
 * alarm that is set meanwhile, relative to the one that rings.
 */
const withSlowClock = (behind) =>
  aroundAlarms({
    before: `
      const { Date: Real } = globalThis;
      let slow = 0;
      globalThis.Date = class extends Real {
        constructor(...values) {
          super(...(values.length === 0 ? [Real.now() - slow] : values));
        }
        static now() {
          return Real.now() - slow;
        }
      };
      const ringing = new Map();`,
    onSet: `
      const rings = ringing.get(this);
      if (rings !== undefined) console.log(JSON.stringify({ event: "test_alarm_set", later: Number(at) - rings }));
      return set();`,
    onAlarm: `
      async alarm(info) {
        slow = Real.now() - info.scheduledTime + ${behind};
        ringing.set(this.storage, info.scheduledTime);
        try {
          return await super.alarm(info);
        } finally {
          ringing.delete(this.storage);
        }
      }`,
  });

for (const behind of [0, 40])
  test(`while an alarm rings it is set to a later time, also by a clock that is ${behind} ms behind`, async (t) => {
    const vars = { EXECUTION_RETENTION_MS: "600", STREAM_RETENTION_MS: "400", APPROVAL_WINDOW_MS: "1500" };
    const own = await startGateway({ wrapper: withSlowClock(behind), vars });
    t.after(() => own.stop());
    const session = await openSession(own);
    await readAgain(session, await callAndHangUp(session, "return (await tools.demo.getItem({ id: 'item-1' })).ok", "lost"));
    await session.tool("execute", { code: DELETE_ITEM });
    await waitFor(() => hasOnlyMeta(own, session.id));
    const set = own.logs("test_alarm_set").map(({ later }) => later);
    assert.ok(set.length > 1, "alarms were set while one rang");
    assert.ok(Math.min(...set) > 0, `set to what is lost: ${set}`);
  });

test("an alarm that the platform loses is set again by the next step, ten seconds late", async (t) => {
  const wrapper = aroundAlarms({
    before: "let lost = false;",
    onSet: `
      if (lost || Number(at) - Date.now() > 1000) return set();
      lost = true;
      console.log(JSON.stringify({ event: "test_alarm_lost" }));
      return this.deleteAlarm();`,
  });
  const own = await startGateway({ wrapper, vars: { STREAM_RETENTION_MS: "800" } });
  t.after(() => own.stop());
  const session = await openSession(own);
  await readAgain(session, await callAndHangUp(session, "return 1", "lost"));
  await waitFor(() => own.logs("test_alarm_lost").length === 1);
  const streams = async () => (await contents(own, session.id)).stream;
  assert.ok((await streams()) > 0);
  // As JSON, because the answer that goes on a stream is kept.
  const step = () => session.tool("execute", { code: "return 1" }, { headers: { accept: "application/json" } });
  await waitFor(async () => (await streams()) === 0 || ((await step()), false), { timeout: 30_000, interval: 500, what: "the stream is forgotten" });
});

// ---- who a session belongs to, and what is no session ---------------------------------------------------------------------

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "3000" } });
});
after(() => gateway.stop());

/** Every file below the state folder with what it holds; not the shared memory of those that have them open. */
function snapshot(one) {
  const files = readdirSync(one.stateDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && !entry.name.endsWith("-shm"));
  const paths = files.map((entry) => join(entry.parentPath, entry.name)).sort();
  return paths.map((path) => [path, createHash("sha256").update(readFileSync(path)).digest("hex")]);
}

test("probing unknown ids writes nothing, by whatever door", async (t) => {
  const own = await startGateway({ vars: { TOMBSTONE_MS: "300" } });
  t.after(() => own.stop());
  const session = await openSession(own);
  await session.tool("execute", { code: "return await tools.search({ query: 'item' })" });
  // The organization is told of the program a second later.
  const told = "SELECT 1 FROM meta WHERE key = 'told-programs'";
  await waitFor(async () => (await own.sql(SESSION, session.id, told)).length === 1, { what: "the program to be told" });
  const wiped = await openSession(own);
  await wiped.del();
  await waitFor(() => isWiped(own, wiped.id));
  const [organization] = await own.objects("OrganizationDurableObject");
  const ids = [
    "x",
    "0".repeat(64),
    "f".repeat(64),
    session.id.toUpperCase(),
    session.id.replace(/.$/, (digit) => (digit === "0" ? "1" : "0")),
    organization,
    wiped.id,
  ];
  const known = await own.objects(SESSION);
  const before = snapshot(own);

  const headers = (id) => ({ authorization: `Bearer ${devToken()}`, "mcp-session-id": id, "content-type": "application/json" });
  const approver = { authorization: `Bearer ${devToken({ roles: ["approver"] })}`, "content-type": "application/json" };
  for (const id of ids) {
    const execution = /^[0-9a-f]{64}$/.test(id)
      ? `exec_${Buffer.concat([Buffer.from(id, "hex"), Buffer.alloc(12)]).toString("base64url")}`
      : "exec_x";
    const api = `/api/mcp-sessions/${id}/executions/${execution}`;
    for (const [path, init] of [
      ["/mcp", { method: "POST", headers: headers(id), body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }) }],
      ["/mcp", { method: "POST", headers: headers(id), body: JSON.stringify(call("return 1", 1)) }],
      ["/mcp", { method: "POST", headers: headers(id), body: JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }) }],
      ["/mcp", { method: "GET", headers: { ...headers(id), accept: "text/event-stream" } }],
      ["/mcp", { method: "GET", headers: { ...headers(id), accept: "text/event-stream", "last-event-id": "1-0" } }],
      ["/mcp", { method: "DELETE", headers: headers(id) }],
      [api, { headers: approver }],
      [`${api}/resume`, { method: "POST", headers: approver, body: JSON.stringify({ action: "accept", digest: "0".repeat(64) }) }],
      [`/resume/${execution}?mcp_session_id=${id}`, {}],
    ]) {
      const response = await own.fetch(path, init);
      const text = await response.text();
      assert.equal(response.status, 404, `${init.method} ${path} with ${id}: ${text}`);
      if (path === "/mcp") assert.equal(JSON.parse(text).error.message, "Session not found");
    }
    // As JSON, because the answer that goes on a stream is kept.
    const resumed = await session.tool("resume", { executionId: execution }, { headers: { accept: "application/json" } });
    assert.equal(resumed.structuredContent.status, "execution_not_found", id);
  }
  assert.deepEqual(await own.objects(SESSION), known);
  assert.deepEqual(snapshot(own), before, "not a byte");
  assert.equal((await session.call("ping")).status, 200);
});

test("the same account keeps its session whatever form its token has", async () => {
  const session = await openSession(gateway);
  const ping = (authorization) => session.send({ jsonrpc: "2.0", id: 1, method: "ping" }, { headers: { authorization } });
  for (const authorization of ["Bearer dev:ada@acme:admin", "bearer dev:ada@acme", "BEARER   dev:ada@acme"]) {
    assert.equal((await ping(authorization)).status, 200, authorization);
  }
  for (const authorization of ["Bearer dev:ada@acme:approver", "Bearer dev:eve@acme", "Bearer dev:ada@other", "Bearer dev:Ada@acme"]) {
    assert.equal((await ping(authorization)).status, 403, authorization);
  }
  assert.equal((await ping("Bearer dev:ada@acme:owner")).status, 401);
  assert.equal((await ping("Bearer dev:ada@acme:admin")).status, 200, "those who were refused changed nothing");
  const deleted = await session.request("DELETE", { headers: { authorization: "Bearer dev:ada@acme:admin" } });
  assert.equal(deleted.status, 200);
  assert.equal((await ping("Bearer dev:ada@acme")).status, 404);
});

test("DELETE ends the session although its client goes away at once", async () => {
  const { hostname, port, host } = new URL(gateway.url);
  const sessions = await Promise.all(Array.from({ length: 20 }, () => openSession(gateway)));
  const deleteAndHangUp = (session) =>
    new Promise((done, failed) => {
      const request = `DELETE /mcp HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${devToken()}\r\nMcp-Session-Id: ${session.id}\r\n\r\n`;
      const socket = connect(Number(port), hostname, () => socket.write(request, () => socket.destroy()));
      socket.once("close", done).once("error", failed);
    });
  await Promise.all(sessions.map(deleteAndHangUp));
  // The file is looked at, because a request would wake what has to happen by itself.
  for (const session of sessions)
    await waitFor(async () => (await storedMeta(gateway, session.id)).terminated?.reason === "deleted", { what: "the session is torn down" });
  for (const session of sessions) assert.equal((await session.call("ping")).error.message, "Session timed out, please reconnect");
});

// ---- storage of other releases --------------------------------------------------------------------------------------------

const FIXTURE = new URL("./fixtures/session-v1.sql", import.meta.url);

const wireId = (session, pause) => `exec_${Buffer.concat([Buffer.from(session, "hex"), Buffer.from(pause, "base64url")]).toString("base64url")}`;

/** The file that holds an object's storage. */
const fileOf = (one, id) =>
  join(
    one.stateDir,
    readdirSync(one.stateDir, { recursive: true }).find((path) => path.endsWith(join(`-${SESSION}`, `${id}.sqlite`))),
  );

async function editStorage(one, id, edit) {
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(fileOf(one, id));
  try {
    return edit(database);
  } finally {
    // Brings what is in the log into the file and removes the log.
    database.close();
  }
}

/** A gateway on a state folder that outlives its stops. */
async function startOnOwnState(t, vars) {
  const stateDir = mkdtempSync(join(tmpdir(), "countersign-state-"));
  const own = await startGateway({ stateDir, vars });
  t.after(async () => {
    await own.stop();
    rmSync(stateDir, { recursive: true, force: true });
  });
  return own;
}

/** A session whose storage is a dump's, as if it had been written a moment ago. Gives it and its pause's id on the wire. */
async function openDump(own, dump) {
  // An id has to be one that the platform made for this namespace, so that of a session which was opened just now.
  const session = await openSession(own);
  await own.stop();
  const text = readFileSync(dump, "utf8");
  const takenAt = Number(/^-- Taken at (\d+)/m.exec(text)[1]);
  const [, id] = /session was\s+-- ([0-9a-f]{64})/.exec(text);
  const [, pause] = /^INSERT INTO pause VALUES \('([\w-]+)'/m.exec(text);
  const shift = Date.now() - takenAt;
  const isTime = (time) => Math.abs(time - takenAt) < 2 * 86_400_000;
  const sql = text
    .replaceAll(/\b\d{13}\b/g, (digits) => (isTime(Number(digits)) ? String(Number(digits) + shift) : digits))
    .replaceAll(wireId(id, pause), wireId(session.id, pause))
    .replaceAll(id, session.id);
  const file = fileOf(own, session.id);
  for (const end of ["", "-wal", "-shm"]) rmSync(`${file}${end}`, { force: true });
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(file);
  database.exec(sql);
  database.close();
  await own.start();
  return { session, executionId: wireId(session.id, pause) };
}

test("storage of layout 1 opens: the session works, its approval is decided, its streams are read again", async (t) => {
  const own = await startOnOwnState(t, { RESUME_WAIT_MS: "5000", EXECUTION_RECOVERY_MS: "500" });
  const { session, executionId } = await openDump(own, FIXTURE);
  const pause = { executionId, sessionId: session.id };
  const approver = { token: devToken({ roles: ["approver"] }) };

  assert.deepEqual(
    (await session.call("tools/list")).result.tools.map(({ name }) => name),
    ["execute", "resume", "skills"],
  );
  assert.equal((await session.call("ping", {}, { headers: { authorization: `Bearer ${devToken({ account: "eve" })}` } })).status, 403);

  // Streams that were answered.
  const [answer, ...more] = await readAgain(session, "1-0");
  assert.deepEqual(more, []);
  assert.deepEqual([answer.id, answer.result.structuredContent.result], [2, "demo.deleteItem"]);
  const [asked] = await readAgain(session, "2-0");
  assert.deepEqual([asked.id, asked.result.structuredContent.executionId], [3, executionId]);
  assert.deepEqual(await readAgain(session, "2-1"), []);
  await assert.rejects(readAgain(session, "4-0"), (error) => error.status === 400);

  // What waits.
  const shown = await shownPause(own, pause, approver);
  assert.equal(shown.structured.state, "waiting");
  assert.match(shown.structured.program, /deleteItem/);
  const [item] = shown.structured.items;
  assert.deepEqual([item.address, item.arguments], ["demo.deleteItem", '{"id":"item-3"}']);
  // The resume that was open when the object went away is still to be answered.
  const late = readAgain(session, "3-0");
  assert.equal((await approve(own, pause, approver)).status, 200);
  const outcome = (await session.tool("resume", { executionId })).structuredContent;
  assert.deepEqual([outcome.status, outcome.result], ["completed", { name: "Broken keyboard", gone: true }]);
  assert.deepEqual(await late.then(([message]) => [message.id, message.result.structuredContent]), ["waits", outcome]);
  const calls = await (await own.fetch("/demo/calls", { headers: { authorization: `Bearer ${devToken()}` } })).json();
  assert.equal(calls.deleteItem, 1);
  assert.equal(calls.getItem ?? 0, 0, "what was settled is not called again");

  // New work, on streams with numbers that were never used.
  const event = await callAndHangUp(session, "return 'new'", "new");
  assert.ok(Number(event.split("-")[0]) > 3, event);
  assert.equal((await readAgain(session, event))[0].result.structuredContent.result, "new");
  await own.kill();
  await own.start();
  assert.deepEqual((await session.tool("resume", { executionId })).structuredContent, outcome, "also after a restart");
  assert.equal((await session.del()).status, 200);
  assert.equal((await session.call("ping")).error.message, "Session timed out, please reconnect");
  assert.deepEqual(own.logs("mcp_internal_error"), []);
});

test("storage of layout 2 opens: a question that the client was asked is answered, and the call is made once", async (t) => {
  const own = await startOnOwnState(t, { RESUME_WAIT_MS: "5000", EXECUTION_RECOVERY_MS: "500", FORM_DECISIONS: "allow" });
  const { session, executionId } = await openDump(own, new URL("./fixtures/session-v2.sql", import.meta.url));
  const [answer] = await readAgain(session, "1-0");
  assert.deepEqual([answer.id, answer.result.structuredContent.result], [2, "demo.deleteItem"]);

  // The question comes again with the stream, then what its answer led to.
  const messages = readAgain(session, "2-0");
  const question = "5f0d8a1c3b7e42968d1f0a6c2e94b7d3";
  assert.equal((await session.answer(question, { action: "accept", content: { decision: "approve" } })).status, 202);
  const [asked, done] = await messages;
  assert.deepEqual([asked.id, asked.method], [question, "elicitation/create"]);
  assert.deepEqual([done.id, done.result.structuredContent.result], [3, { name: "Broken keyboard", gone: true }]);
  const calls = await (await own.fetch("/demo/calls", { headers: { authorization: `Bearer ${devToken()}` } })).json();
  assert.deepEqual([calls.deleteItem, calls.getItem ?? 0], [1, 0]);
  assert.equal((await session.tool("resume", { executionId })).structuredContent.status, "completed");

  // What this layout has and that one had not.
  const [{ value }] = await own.sql(SESSION, session.id, "SELECT value FROM meta WHERE key = 'schema-version'");
  assert.equal(value, "4");
  const asleep = (await session.tool("execute", { code: "await sleep(3_600_000)" })).structuredContent;
  assert.equal(asleep.status, "sleeping");
  assert.deepEqual(own.logs("mcp_internal_error"), []);
});

test("storage of layout 3 opens: what waited is decided, and from then on it is layout 4", async (t) => {
  // Layout 4 has no new table, and rows without anything of it are rows of layout 3.
  const own = await startOnOwnState(t, { RESUME_WAIT_MS: "4000" });
  const session = await openSession(own);
  const pause = (await session.tool("execute", { code: DELETE_ITEM })).structuredContent;
  await own.stop();
  const journal = await own.sql(SESSION, session.id, "SELECT json FROM journal");
  assert.ok(journal.every(({ json }) => !/"(standing|edited|grant|gives|approvers)"/.test(json)), "an older release reads it");
  await editStorage(own, session.id, (database) => database.prepare("UPDATE meta SET value = '3' WHERE key = 'schema-version'").run());
  await own.start();
  const approver = { token: devToken({ roles: ["approver"] }) };
  const { digest } = await shownPause(own, pause, approver);
  assert.equal((await decide(own, pause, { action: "accept", digest }, approver)).status, 200);
  assert.equal((await session.tool("resume", { executionId: pause.executionId })).structuredContent.status, "completed");
  assert.equal((await own.sql(SESSION, session.id, "SELECT value FROM meta WHERE key = 'schema-version'"))[0].value, "4");
});

test("reading storage of layout 1 changes nothing in it that could not be read by the release that wrote it", async (t) => {
  const own = await startOnOwnState(t);
  const { session } = await openDump(own, FIXTURE);
  const [answer] = await readAgain(session, "1-0");
  assert.equal(answer.id, 2);
  await own.stop();
  // Whatever was added: tables and rows of layout 1 are there still, with the same columns.
  const text = readFileSync(FIXTURE, "utf8");
  const statements = [...text.matchAll(/^CREATE TABLE (\w+) .*;$/gm)];
  assert.ok(statements.length > 0);
  await editStorage(own, session.id, (database) => {
    for (const [statement, table] of statements) {
      const [{ sql }] = database.prepare("SELECT sql FROM sqlite_master WHERE name = ?").all(table);
      assert.equal(`${sql};`, statement);
      const rows = [...text.matchAll(new RegExp(`^INSERT INTO ${table} VALUES`, "gm"))].length;
      assert.ok(database.prepare(`SELECT COUNT(*) AS n FROM ${table}`).get().n >= rows, table);
    }
  });
});

test("storage of a layout from the future is answered 503 and left as it is", async (t) => {
  const own = await startOnOwnState(t, { RESUME_WAIT_MS: "500" });
  const session = await openSession(own);
  await session.tool("execute", { code: "return 1" });
  const pause = (await session.tool("execute", { code: DELETE_ITEM })).structuredContent;
  await own.stop();
  const putVersion = (version) =>
    editStorage(own, session.id, (database) => database.prepare("UPDATE meta SET value = ? WHERE key = 'schema-version'").run(version));
  const [{ value: version }] = await own.sql(SESSION, session.id, "SELECT value FROM meta WHERE key = 'schema-version'");
  await putVersion("99");
  const file = fileOf(own, session.id);
  const before = readFileSync(file);
  await own.start();

  const approver = { authorization: `Bearer ${devToken({ roles: ["approver"] })}`, "content-type": "application/json" };
  const api = `/api/mcp-sessions/${session.id}/executions/${pause.executionId}`;
  for (const [what, response] of [
    ["ping", await session.send({ jsonrpc: "2.0", id: 1, method: "ping" })],
    ["execute", await session.send(call("return 1", 2))],
    ["a notification", await session.notify("notifications/initialized")],
    ["the standalone stream", await session.request("GET", { headers: { accept: "text/event-stream" } })],
    ["a stream", await session.request("GET", { headers: { accept: "text/event-stream", "last-event-id": "1-0" } })],
    ["DELETE", await session.del()],
    [
      "a stranger",
      await session.send({ jsonrpc: "2.0", id: 3, method: "ping" }, { headers: { authorization: `Bearer ${devToken({ account: "eve" })}` } }),
    ],
    ["the approval API", await own.fetch(api, { headers: approver })],
    [
      "a decision",
      await own.fetch(`${api}/resume`, { method: "POST", headers: approver, body: JSON.stringify({ action: "accept", digest: "0".repeat(64) }) }),
    ],
  ]) {
    assert.equal(response.status, 503, `${what}: ${await response.clone().text()}`);
    assert.equal(response.headers.get("retry-after"), "2", what);
    const { error } = await response.json();
    assert.deepEqual([error.code, error.message], [-32001, "MCP session is restarting, please retry"], what);
  }
  // Other sessions work, and so does an initialize that carries the stale id.
  const initialize = {
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
  };
  const opened = await session.send(initialize);
  assert.equal(opened.status, 200);
  assert.notEqual(opened.headers.get("mcp-session-id"), session.id);
  const asked = await (await openSession(own)).tool("resume", { executionId: pause.executionId });
  assert.equal(asked.isError, true);
  assert.match(asked.content[0].text, /call resume again/);

  await own.stop();
  assert.ok(readFileSync(file).equals(before), "the file is as it was");
  assert.ok(
    own.logs().some((line) => JSON.stringify(line).includes("99") && /schema/.test(line.event)),
    "and the log says why",
  );

  await putVersion(version);
  await own.start();
  assert.equal((await shownPause(own, pause)).structured.state, "waiting", "the release that can read it finds everything");
});
