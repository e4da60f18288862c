// The approval page and the other pages, over plain HTTP: what a browser without JavaScript does.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "4000" } });
});
after(() => gateway.stop());

// The person in a browser is dev@dev, so the agent is too.
const TOKEN = devToken({ account: "dev", organization: "dev" });
const origin = () => gateway.url.replace(/\/$/, "");

async function pauseOn(code) {
  const session = await openSession(gateway, { token: TOKEN, clientInfo: { name: "<b>agent</b>", version: "1" } });
  const pause = (await session.tool("execute", { code })).structuredContent;
  assert.equal(pause.status, "user_approval_required", JSON.stringify(pause));
  return { session, pause, path: pause.approvalUrl.slice(origin().length) };
}

const get = (path, headers = {}) => gateway.fetch(path, { headers, redirect: "manual" });
const post = (path, fields, headers = {}) =>
  gateway.fetch(path, { method: "POST", redirect: "manual", headers: { origin: origin(), "content-type": "application/x-www-form-urlencoded", ...headers }, body: new URLSearchParams(fields) });
const field = (html, name) => new RegExp(`name="${name}"[^>]*value="([^"]*)"|value="([^"]*)"[^>]*name="${name}"`).exec(html)?.slice(1).find(Boolean);

test("opening the page shows everything and decides nothing", async () => {
  const { pause, path, session } = await pauseOn("const reason = 'old <script>alert(1)</script>';\nreturn await tools.demo.updateItem({ id: 'item-1', name: '\\u202Egnp.exe <img src=x onerror=alert(1)>' })");
  const response = await get(path);
  assert.equal(response.status, 200);
  const html = await response.text();
  assert.match(html, /PATCH/);
  assert.match(html, /\/demo\/items\/item-1/);
  assert.match(html, /demo\.updateItem/);
  assert.doesNotMatch(html, /<script>alert|<img src=x|<b>agent/);
  assert.doesNotMatch(html, /\u202E/, "bidirectional controls are made visible");
  const security = response.headers.get("content-security-policy");
  assert.match(security, /default-src 'none'/);
  assert.match(security, /frame-ancestors 'none'/);
  assert.doesNotMatch(security, /unsafe-inline|unsafe-eval|\*/);
  assert.equal(response.headers.get("cache-control"), "no-store");
  assert.equal(response.headers.get("referrer-policy"), "no-referrer");
  assert.equal(response.headers.get("x-content-type-options"), "nosniff");
  assert.doesNotMatch(html, /<script(?![^>]*src=)/, "no inline script");
  assert.doesNotMatch(html, /<[^>]*\s(on\w+|style)=/, "no inline handlers or styles");
  assert.ok(html.length < 100_000);
  const still = await session.tool("resume", { executionId: pause.executionId });
  assert.equal(still.structuredContent.status, "user_approval_required");
});

test("a form approves, and the page shows the outcome afterwards", async () => {
  const { pause, path, session } = await pauseOn("return await tools.demo.deleteItem({ id: 'item-1' })");
  const html = await (await get(path)).text();
  const answer = await post(path, { action: "accept", digest: field(html, "digest"), reason: "" });
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get("location"), path);
  const outcome = await session.tool("resume", { executionId: pause.executionId });
  assert.equal(outcome.structuredContent.result.ok, true);
  const afterwards = await (await get(path)).text();
  assert.doesNotMatch(afterwards, /value="accept"/, "nothing to press any more");
  const again = await post(path, { action: "decline", digest: field(html, "digest") });
  assert.equal(again.status, 409);
  assert.match(await again.text(), /already/i);
});

test("a form declines with a reason, and decides items one by one", async () => {
  const one = await pauseOn("return await tools.demo.deleteItem({ id: 'item-2' })");
  await post(one.path, { action: "decline", digest: field(await (await get(one.path)).text(), "digest"), reason: "wrong one" });
  const declined = await one.session.tool("resume", { executionId: one.pause.executionId });
  assert.equal(declined.structuredContent.result.error.reason, "wrong one");

  const many = await pauseOn("return await Promise.all(['item-3', 'item-4'].map((id) => tools.demo.deleteItem({ id })))");
  const html = await (await get(many.path)).text();
  const fields = { action: "items", "choice-0": "accept", "digest-0": field(html, "digest-0"), "choice-1": "decline", "digest-1": field(html, "digest-1") };
  assert.equal((await post(many.path, fields)).status, 303);
  const outcome = await many.session.tool("resume", { executionId: many.pause.executionId });
  assert.deepEqual(outcome.structuredContent.result.map(({ ok }) => ok), [true, false]);
});

test("three calls are decided in one form, each its own way, or one after the other", async () => {
  const DELETES = "return (await Promise.all(['item-3', 'item-4', 'item-5'].map((id) => tools.demo.deleteItem({ id })))).map((one) => one.ok || one.error.reason)";
  const together = await pauseOn(DELETES);
  const html = await (await get(together.path)).text();
  const choice = (call, value, reason = "") => ({ [`choice-${call}`]: value, [`digest-${call}`]: field(html, `digest-${call}`), [`reason-${call}`]: reason });
  assert.equal((await post(together.path, { action: "items", ...choice(0, "decline", "not this"), ...choice(1, "accept"), ...choice(2, "decline", "nor that") })).status, 303);
  const outcome = await together.session.tool("resume", { executionId: together.pause.executionId });
  const [first, second, third] = outcome.structuredContent.result;
  assert.deepEqual([first, third], ["not this", "nor that"]);
  assert.notEqual(second, "declined", "that one was sent");

  const apart = await pauseOn(DELETES);
  for (const [call, value, reason] of [[2, "decline", "later"], [0, "decline", "never"]]) {
    const now = await (await get(apart.path)).text();
    assert.match(now, call === 2 ? /Approve these 3 calls\?/ : /2 of 3 calls still to decide/);
    const fields = { action: "items", [`choice-${call}`]: value, [`digest-${call}`]: field(now, `digest-${call}`), [`reason-${call}`]: reason };
    assert.equal((await post(apart.path, fields)).status, 303);
  }
  const last = await (await get(apart.path)).text();
  assert.match(last, /1 of 3 calls still to decide/);
  assert.equal((await post(apart.path, { action: "decline", digest: field(last, "digest"), reason: "nor this" })).status, 303);
  const reasons = await apart.session.tool("resume", { executionId: apart.pause.executionId });
  assert.deepEqual(reasons.structuredContent.result, ["never", "nor this", "later"]);
});

test("a program that only sleeps is stopped on its page", async () => {
  const session = await openSession(gateway, { token: TOKEN });
  const asleep = (await session.tool("execute", { code: "await sleep(3_600_000); return await tools.demo.deleteItem({ id: 'item-1' })" })).structuredContent;
  assert.equal(asleep.status, "sleeping");
  const path = `/resume/${asleep.executionId}?mcp_session_id=${session.id}`;
  const html = await (await get(path)).text();
  assert.match(html, /Stop this program/);
  assert.doesNotMatch(html, /value="accept"/);
  assert.equal((await post(path, { action: "cancel" }, { origin: "https://evil.example" })).status, 403);
  assert.equal((await post(path, { action: "cancel" })).status, 303);
  const ended = (await session.tool("resume", { executionId: asleep.executionId })).structuredContent;
  assert.deepEqual([ended.status, ended.error.code, ended.cancelled], ["error", "cancelled", true]);
  const afterwards = await (await get(path)).text();
  assert.match(afterwards, /Cancelled by <b>dev<\/b>/);
  assert.doesNotMatch(afterwards, /Stop this program/);
  assert.equal((await post(path, { action: "cancel" })).status, 409);
});

test("the history of a session is a page, linked from an approval, with a way to stop what runs", async () => {
  const { session, path, pause } = await pauseOn("return await tools.demo.deleteItem({ id: 'item-2' })");
  const html = await (await get(path)).text();
  const link = /<a href="(\/sessions\/[0-9a-f]{64})">/.exec(html)[1];
  await post(path, { action: "decline", digest: field(html, "digest"), reason: "not <b>now</b>" });
  await session.tool("resume", { executionId: pause.executionId });
  for (let i = 0; i < 21; i++) await session.tool("execute", { code: "throw new Error('<script>alert(1)</script>')" });
  const running = session.call("tools/call", { name: "execute", arguments: { code: "await sleep(3_000); await sleep(3_600_000)" } });
  const running_page = await waitFor(async () => {
    const text = await (await get(link)).text();
    return text.includes("Stop this program") && text;
  });
  assert.doesNotMatch(running_page, /<script>alert|<script(?![^>]*src=)|<[^>]*\s(on\w+|style)=/);
  const execution = field(running_page, "execution");
  assert.equal((await post(link, { action: "stop", execution }, { origin: "null" })).status, 403);
  assert.equal((await post(link, { action: "stop" })).status, 400);
  assert.equal((await post(link, { action: "stop", execution: "0".repeat(32) })).status, 404);
  assert.equal((await post(link, { action: "stop", execution })).status, 303);
  assert.equal((await running).result.structuredContent.error.code, "cancelled");
  const stopped = await (await get(link)).text();
  assert.match(stopped, /stopped by <b>dev<\/b>/);
  assert.doesNotMatch(stopped, /Stop this program/);
  const older = await (await get(/href="(\/sessions\/[^"]*after=[^"]*)"/.exec(stopped)[1])).text();
  assert.match(older, /declined by <b>dev<\/b> on .*Reason: “not &lt;b&gt;now&lt;\/b&gt;”/);
  assert.ok(older.includes(`href="/resume/${pause.executionId}?mcp_session_id=`), "the program's own page");
  const signedIn = await post("/sign-in", { account: "eve@dev", return_to: "/" });
  assert.equal((await get(link, { cookie: signedIn.headers.get("set-cookie").split(";")[0] })).status, 403);
  assert.equal((await get(link, { authorization: `Bearer ${TOKEN}` })).status, 403, "the agent's bearer");
  assert.equal((await get(`/sessions/${"0".repeat(64)}`)).status, 404);
  assert.equal((await get(`${link}?after=x`)).status, 400);
});

test("decisions come from the gateway's own page only", async () => {
  const { path, session, pause } = await pauseOn("return await tools.demo.deleteItem({ id: 'item-5' })");
  const digest = field(await (await get(path)).text(), "digest");
  for (const headers of [{ origin: "https://evil.example" }, { origin: "null" }, { origin: "http://localhost:1" }]) {
    assert.equal((await post(path, { action: "accept", digest }, headers)).status, 403, JSON.stringify(headers));
  }
  const bare = await gateway.fetch(path, { method: "POST", headers: { "content-type": "application/x-www-form-urlencoded" }, body: new URLSearchParams({ action: "accept", digest }) });
  assert.equal(bare.status, 403, "no Origin");
  for (const token of [TOKEN, `${TOKEN}:admin`]) {
    assert.equal((await post(path, { action: "accept", digest }, { authorization: `Bearer ${token}` })).status, 403, "the agent's bearer");
    assert.equal((await get(path, { authorization: `Bearer ${token}` })).status, 403);
  }
  assert.equal((await post(path, { action: "accept", digest: "0".repeat(64) })).status, 409);
  assert.equal((await post(path, { action: "", digest })).status, 400);
  assert.equal((await post(path, { action: "items" })).status, 400);
  const still = await session.tool("resume", { executionId: pause.executionId });
  assert.equal(still.structuredContent.status, "user_approval_required");
});

test("another person sees nothing of it, and signing in changes who one is", async () => {
  const { path } = await pauseOn("return await tools.demo.deleteItem({ id: 'item-5' })");
  assert.equal((await get("/sign-in")).status, 200);
  const signedIn = await post("/sign-in", { account: "eve@dev", return_to: path });
  assert.equal(signedIn.status, 303);
  assert.equal(signedIn.headers.get("location"), path);
  const cookie = signedIn.headers.get("set-cookie");
  assert.match(cookie, /HttpOnly/);
  assert.match(cookie, /SameSite/);
  const foreign = await get(path, { cookie: cookie.split(";")[0] });
  assert.equal(foreign.status, 403);
  assert.doesNotMatch(await foreign.text(), /deleteItem/);
  for (const return_to of ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"]) {
    assert.equal((await post("/sign-in", { account: "eve@dev", return_to })).headers.get("location"), "/", return_to);
  }
  assert.equal((await post("/sign-in", { account: "eve; Path=/x", return_to: "/" })).status, 400);
  assert.equal((await post("/sign-in", { account: "eve@dev", return_to: "/" }, { origin: "https://evil.example" })).status, 403);
});

test("pages that are not there say so, whatever the id looks like", async () => {
  const { pause } = await pauseOn("return await tools.demo.deleteItem({ id: 'item-5' })");
  for (const path of [
    "/resume/x",
    `/resume/exec_${"A".repeat(59)}?mcp_session_id=${"0".repeat(64)}`,
    `/resume/${pause.executionId}`,
    `/resume/${pause.executionId}?mcp_session_id=${"0".repeat(64)}`,
    "/resume/%3Cscript%3Ealert(1)%3C%2Fscript%3E?mcp_session_id=x",
  ]) {
    const response = await get(path);
    assert.equal(response.status, 404, path);
    assert.match(response.headers.get("content-type"), /text\/html/);
    assert.doesNotMatch(await response.text(), /<script>alert/);
  }
});

test("the home page says how to connect, and its assets are there", async () => {
  const html = await (await get("/")).text();
  assert.match(html, /claude mcp add/);
  assert.ok(html.includes(`${origin()}/mcp`));
  const assets = [...html.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, path]) => path);
  assert.ok(assets.length >= 1);
  for (const path of assets) {
    const asset = await get(path);
    assert.equal(asset.status, 200, path);
    assert.match(asset.headers.get("cache-control"), /immutable/);
  }
  assert.equal((await get("/assets/../../etc/passwd")).status, 404);
});
