// What programs leave behind: content for the user, long results, logs while they run, the history of a session.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { approve, decline, devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";

const approver = { token: devToken({ roles: ["approver"] }) };

let gateway;
let session;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "3000" } });
  session = await openSession(gateway);
});
after(() => gateway.stop());

const run = async (code, own = session) => (await own.tool("execute", { code })).structuredContent;

test("what is emitted comes as content blocks by MIME type, for the user", async () => {
  const answer = await session.tool("execute", {
    code: `emit('a text'); emit({ a: 1 });
      emit({ name: 'dot.png', mimeType: 'image/png', encoding: 'base64', data: btoa('png') });
      emit({ mimeType: 'audio/wav', encoding: 'base64', data: btoa('wav') });
      emit({ name: 'list.csv', mimeType: 'text/csv', encoding: 'base64', data: btoa('a,b') });
      emit({ uri: 'https://example.com/report', name: 'The report' });
      return 'done';`,
  });
  assert.deepEqual(answer.content.map((block) => block.type), ["text", "text", "text", "image", "audio", "resource", "resource_link"]);
  assert.ok(answer.content.slice(1).every((block) => block.annotations.audience[0] === "user"));
  assert.equal(answer.content[3].data, btoa("png"));
  assert.equal(answer.content[5].resource.blob, btoa("a,b"));
  assert.deepEqual(answer.structuredContent.emitted.slice(2, 3), [{ name: "dot.png", mimeType: "image/png", bytes: 3 }]);
});

test("the rest of a long result is read by another program, as the note says", async () => {
  const answer = await session.tool("execute", { code: "return 'é'.repeat(50_000) + 'x'.repeat(250_000) + 'end'" });
  const note = answer.content[0].text.slice(-250);
  const [, expression] = /let a program read the rest: (.*)$/.exec(note);
  const rest = await run(`const first = ${expression}; const id = ${JSON.stringify(answer.structuredContent.resultId)}; const last = await tools.results.read({ id, offset: 260_000 }); return [first.length, first.slice(0, 2), last.data.text.slice(-3), last.data.nextOffset, last.data.totalCharacters]`);
  assert.deepEqual(rest.result, [50_000, "éé", "end", null, 300_003], JSON.stringify(rest));
  assert.equal((await run("return (await tools.results.read({ id: 'none' })).error.code")).result, "result_not_found");
  assert.equal((await run("return (await tools.results.read({})).error.code")).result, "invalid_tool_arguments");
  // Another session of the same person has results of its own.
  const other = await openSession(gateway);
  assert.equal((await run(`return (await tools.results.read({ id: ${JSON.stringify(answer.structuredContent.resultId)} })).error.code`, other)).result, "result_not_found");
});

test("parts of a result count for the journal of who reads them", async () => {
  const answer = await session.tool("execute", { code: "return '\\u0001'.repeat(600_000)" });
  const id = JSON.stringify(answer.structuredContent.resultId);
  const { result } = await run(`const codes = {}; for (let i = 0; i < 200; i += 1) { const part = await tools.results.read({ id: ${id} }); codes[part.error?.code ?? 'ok'] = (codes[part.error?.code ?? 'ok'] ?? 0) + 1; if (!part.ok) break; } return codes`);
  assert.equal(result.journal_full, 1, JSON.stringify(result));
  assert.ok(result.ok > 10);
});

test("console lines are streamed while the program runs, from the level that the client set", async () => {
  const own = await openSession(gateway);
  const code = "console.debug('details'); console.log('one'); await sleep(20); console.warn('two'); return 1";
  const call = () => own.call("tools/call", { name: "execute", arguments: { code } });
  const silent = await call();
  assert.deepEqual(silent.messages, []);
  await own.call("logging/setLevel", { level: "info" });
  const told = (await call()).messages.filter((message) => message.method === "notifications/message");
  assert.deepEqual(told.map(({ params }) => [params.level, params.data]), [["info", "one"], ["warning", "two"]]);
});

test("progress tells calls made, what waits, and the end", async () => {
  const own = await openSession(gateway);
  const { messages } = await own.call("tools/call", { name: "execute", arguments: { code: "for (let i = 0; i < 3; i++) await tools.demo.getItem({ id: 'item-1' }); return 1" }, _meta: { progressToken: "tok" } });
  const told = messages.filter((message) => message.method === "notifications/progress").map((message) => message.params);
  assert.ok(told.length >= 2 && told.every((params) => params.progressToken === "tok"));
  assert.ok(told.every((params, index) => index === 0 || params.progress > told[index - 1].progress), JSON.stringify(told));
  assert.match(told.at(-1).message, /finished after 3 calls/);
});

test("logs so far come with a program that never settles, or that a person cancelled after it was dropped", async () => {
  const never = await run("console.log('so far'); await tools.demo.getItem({ id: 'item-1' }); emit('kept'); await new Promise(() => {})");
  assert.deepEqual([never.error.code, never.logs[0].text, never.emitted], ["never_settles", "so far", ["kept"]]);
});

test("more programs than sandboxes run, one after the other", async () => {
  const own = await openSession(gateway);
  const answers = await Promise.all(Array.from({ length: 14 }, (_, i) => run(`await sleep(30); await tools.demo.getItem({ id: 'item-1' }); return ${i}`, own)));
  assert.deepEqual(answers.map((answer) => answer.result), Array.from({ length: 14 }, (_, i) => i), JSON.stringify(answers));
});

test("the history of a session is paged, newest first, and only its owner's", async () => {
  const own = await openSession(gateway);
  for (let i = 0; i < 22; i++) await run(`return ${i}`, own);
  await run("throw new Error('told')", own);
  const pause = await run("return (await tools.demo.deleteItem({ id: 'none' })).error?.reason", own);
  await decline(gateway, pause, "not today", approver);
  await waitFor(async () => (await own.tool("resume", { executionId: pause.executionId })).structuredContent.status === "completed", { what: "the end" });
  const read = (query = "", token = approver.token) => gateway.fetch(`/api/mcp-sessions/${own.id}/executions${query}`, { headers: { authorization: `Bearer ${token}` } });
  const first = (await (await read()).json()).structured;
  assert.equal(first.executions.length, 20);
  const [newest, failed] = first.executions;
  assert.deepEqual([newest.status, newest.callCount, newest.executionIds], ["completed", 1, [pause.executionId]]);
  const { at, ...decision } = newest.decisions[0];
  assert.ok(Date.parse(at) > 0);
  assert.deepEqual(decision, { call: 0, address: "demo.deleteItem", status: "denied", by: "ada", route: "api", reason: "not today" });
  assert.deepEqual([newest.calls[0].state, newest.calls[0].address], ["declined", "demo.deleteItem"]);
  assert.deepEqual([failed.status, failed.error.code], ["failed", "exception"]);
  const second = (await (await read(`?after=${first.next}`)).json()).structured;
  assert.deepEqual([second.executions.length, second.next], [4, null]);
  assert.equal(new Set([...first.executions, ...second.executions].map(({ id }) => id)).size, 24);
  assert.equal((await read("?after=nonsense")).status, 400);
  assert.equal((await read("", devToken({ account: "eve", roles: ["approver"] }))).status, 403);
  assert.equal((await read("", devToken())).status, 403, "the agent's own bearer does not see it");
});
