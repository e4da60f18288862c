// Timers: short ones go on within the request, long ones are asked for again, and none costs memory or is lost.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { approve, devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";

const approver = { token: devToken({ roles: ["approver"] }) };
const SESSION = "SessionDurableObject";

let gateway;
let session;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "1500", SUSPEND_AFTER_MS: "400", APPROVAL_WINDOW_MS: "60000" } });
  session = await openSession(gateway);
});
after(() => gateway.stop());

const run = async (code, own = session) => (await own.tool("execute", { code })).structuredContent;
const result = async (code) => {
  const answer = await run(code);
  assert.equal(answer.status, "completed", JSON.stringify(answer));
  return answer.result;
};
/** What an execution leads to, however long it takes. */
const outcome = (executionId, own = session) =>
  waitFor(
    async () => {
      const answer = (await own.tool("resume", { executionId })).structuredContent;
      return !["sleeping", "running"].includes(answer.status) && answer;
    },
    { timeout: 20_000, what: "the program has an outcome" },
  );

test("a short sleep goes on within the request, and the clock shows it", async () => {
  const passed = await result("const before = Date.now(); await sleep(120); return Date.now() - before");
  assert.ok(passed >= 120 && passed < 2_000, String(passed));
  assert.equal(await result("let n = 0; for (let i = 0; i < 20; i++) { await sleep(1); n++; } return n"), 20);
  assert.equal(await result("await new Promise((r) => setTimeout(r, 5)); await sleep(0); await sleep(-4); await sleep(); return 'ok'"), "ok");
});

test("timers fire in the order of their times, with their arguments, and can be cleared", async () => {
  const seen = await result(`
    const seen: string[] = [];
    setTimeout((a, b) => seen.push(a + b), 80, 'x', 'y');
    setTimeout(() => seen.push('first'), 10);
    const never = setTimeout(() => seen.push('never'), 40);
    setTimeout(() => clearTimeout(never), 20);
    let ticks = 0;
    await new Promise<void>((done) => { const every = setInterval(() => { seen.push('tick' + ++ticks); if (ticks === 3) { clearInterval(every); done(); } }, 25); });
    await sleep(120);
    clearTimeout(undefined); clearTimeout(undefined); clearTimeout('7' as any); clearInterval(9999);
    return seen;`);
  assert.deepEqual(seen.filter((one) => one.startsWith("tick")), ["tick1", "tick2", "tick3"]);
  assert.ok(!seen.includes("never"), seen.join());
  assert.ok(seen.indexOf("first") < seen.indexOf("xy"));
});

test("what nobody waits for does not hold the program", async () => {
  const started = performance.now();
  const raced = await run("const late = new Promise((_, no) => setTimeout(() => no(new Error('late')), 30_000)); return await Promise.race([tools.demo.getItem({ id: 'item-1' }), late]).then((r: any) => r.ok)");
  assert.equal(raced.result, true, JSON.stringify(raced));
  assert.match(raced.logs.at(-1).text, /A timer was still running when the program ended/);
  assert.equal((await run("setInterval(() => {}, 10); return 'done'")).result, "done");
  assert.equal((await run("setTimeout(function again() { setTimeout(again, 3_000); }, 10); return 'chain'")).result, "chain");
  assert.ok(performance.now() - started < 5_000);
  // What is due at once is done still, and may call tools.
  const late = await run("setTimeout(() => console.log('after the end'), 30); return 1");
  assert.deepEqual(late.logs, [{ level: "log", text: "after the end" }]);
});

test("errors in timers and rejections that nobody handles are told, and do not end the program", async () => {
  const answer = await run("setTimeout(() => { throw new Error('in a timer') }, 1); Promise.reject(new Error('nobody')); const handled = Promise.reject(1); await sleep(20); handled.catch(() => {}); return 'ok'");
  assert.equal(answer.result, "ok");
  assert.match(JSON.stringify(answer.logs), /Uncaught in a timer: Error: in a timer/);
  assert.match(JSON.stringify(answer.logs), /nobody handled it: Error: nobody/);
  assert.equal(answer.logs.length, 2, JSON.stringify(answer.logs));
});

test("a timer has limits with errors that say what to do", async () => {
  assert.match((await run("await sleep(60_001)")).error.message, /A timer may be at most 60000 ms long/);
  assert.match((await run("setTimeout(() => {}, Infinity)")).error.message, /at most/);
  assert.match((await run("setTimeout('code' as any, 1)")).error.message, /takes a function/);
  assert.equal((await run("for (;;) setTimeout(() => {}, 10)")).error.code, "too_many_calls");
});

test("a long sleep is answered with an id, costs no memory, and goes on by itself", async () => {
  const own = await openSession(gateway);
  const before = Date.now();
  const asleep = await run("console.log('before'); const t = Date.now(); await sleep(4_000); console.log('after'); return Date.now() - t", own);
  assert.equal(asleep.status, "sleeping", JSON.stringify(asleep));
  const wakes = Date.parse(asleep.wakesAt);
  assert.ok(wakes - before >= 2_900 && wakes - before < 6_000, asleep.wakesAt);
  // Nothing is in memory while it sleeps; the alarm brings it back.
  await waitFor(async () => (await gateway.sql(SESSION, own.id, "SELECT json FROM journal WHERE kind = 'output'")).length === 1, { what: "the sandbox is dropped" });
  await gateway.evict(SESSION, own.id);
  const ended = await outcome(asleep.executionId, own);
  assert.equal(ended.status, "completed", JSON.stringify(ended));
  assert.ok(ended.result >= 4_000 && ended.result < 8_000, String(ended.result));
  assert.deepEqual(ended.logs.map((line) => line.text), ["before", "after"]);
  assert.deepEqual((await own.tool("resume", { executionId: asleep.executionId })).structuredContent, ended);
});

test("a sleep survives SIGKILL", async () => {
  const own = await openSession(gateway);
  const asleep = await run("const a = (await tools.demo.getItem({ id: 'item-1' })).ok; await sleep(3_000); return [a, (await tools.demo.getItem({ id: 'item-2' })).ok]", own);
  assert.equal(asleep.status, "sleeping", JSON.stringify(asleep));
  await gateway.kill();
  await gateway.start();
  const ended = await outcome(asleep.executionId, own);
  assert.deepEqual(ended.result, [true, true], JSON.stringify(ended));
});

test("an approval is asked for at once, beside a timer that runs, and a race between them is decided by time", async () => {
  const own = await openSession(gateway);
  const pause = await run("return await Promise.race([tools.demo.deleteItem({ id: 'none' }).then((r) => r.ok || r.error.code), sleep(40_000).then(() => 'late')])", own);
  assert.equal(pause.status, "user_approval_required");
  assert.equal((await approve(gateway, pause, approver)).status, 200);
  const ended = await outcome(pause.executionId, own);
  assert.equal(ended.status, "completed", JSON.stringify(ended));
  assert.notEqual(ended.result, "late");
});

test("the page of a program that sleeps has nothing to decide", async () => {
  const own = await openSession(gateway);
  const asleep = await run("await sleep(5_000); return 1", own);
  const page = await (await gateway.fetch(`/resume/${asleep.executionId}?mcp_session_id=${own.id}`, { headers: { cookie: "countersign-dev=ada@acme" } })).text();
  assert.match(page, /Nothing to decide/);
  assert.match(page, /sleeps/);
});

test("a program that only sleeps ends with its session", async () => {
  const own = await openSession(gateway);
  const asked = await run("await sleep(30_000); return 'late'", own);
  assert.equal(asked.status, "sleeping");
  await own.del();
  const [done] = await waitFor(() => gateway.logs("mcp_execution").filter(({ executionId, status }) => executionId !== undefined && status === "cancelled").slice(-1));
  assert.equal(done.status, "cancelled");
});
