// Who decides, with which arguments, and for how long: policies with approvers, edited arguments, grants, what is asked again.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { startBackend } from "./harness/backend.mjs";
import { approve, decide, devToken, openSession, shownPause, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "4000", ALLOW_LOCAL_NETWORK: "true" } });
});
after(() => gateway.stop());

const origin = () => gateway.url.replace(/\/$/, "");
const DELETE = (id) => `return await tools.demo.deleteItem({ id: '${id}' })`;

// Each test has an organization, and so an inventory, of its own.
let organizations = 0;
async function scene({ policies, path, query } = {}) {
  const organization = `dec${++organizations}`;
  const token = (account, ...roles) => devToken({ account, organization, roles });
  const api = async (method, path, { as = token("boss", "admin"), body, headers = {} } = {}) => {
    const response = await gateway.fetch(`/api/${path}`, {
      method,
      headers: { authorization: `Bearer ${as}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    return { status: response.status, body: await response.json().catch(() => undefined) };
  };
  const put = async (list) => assert.equal((await api("PUT", "policies", { body: { policies: list } })).status, 200);
  if (policies) await put(policies);
  const session = await openSession(gateway, { token: token("ada"), path, query });
  return {
    organization,
    token,
    api,
    put,
    session,
    as: (account, ...more) => ({ token: token(account, "approver", ...more) }),
    execute: async (code) => (await session.tool("execute", { code })).structuredContent,
    resume: async (pause) => (await session.tool("resume", { executionId: pause.executionId })).structuredContent,
    calls: async (name) => (await (await gateway.fetch("/demo/calls", { headers: { authorization: `Bearer ${token("ada")}` } })).json())[name] ?? 0,
    cookie: (account) => ({ cookie: `countersign-dev=${account}@${organization}` }),
    audit: async (action) => (await api("GET", "audit?limit=200")).body.items.filter((entry) => entry.action === action),
  };
}

const get = (path, headers = {}) => gateway.fetch(path, { headers, redirect: "manual" });
const post = (path, fields, headers = {}) =>
  gateway.fetch(path, { method: "POST", redirect: "manual", headers: { origin: origin(), "content-type": "application/x-www-form-urlencoded", ...headers }, body: new URLSearchParams(fields) });
const field = (html, name) => new RegExp(`name="${name}"[^>]*value="([^"]*)"|value="([^"]*)"[^>]*name="${name}"`).exec(html)?.slice(1).find(Boolean);
const pathOf = (pause) => pause.approvalUrl.slice(origin().length);
const waits = (pause) => assert.equal(pause.status, "user_approval_required", JSON.stringify(pause));

// ---- who decides --------------------------------------------------------------------------------

test("without a rule, or with by: owner, the session's owner decides and nobody else sees it", async () => {
  for (const policies of [undefined, [{ pattern: "demo.**", action: "approve", by: "owner" }]]) {
    const { execute, resume, as, calls } = await scene({ policies });
    const pause = await execute(DELETE("item-1"));
    waits(pause);
    for (const other of [as("ben"), as("ben", "admin")]) {
      await assert.rejects(shownPause(gateway, pause, other), { status: 403 });
      assert.equal((await decide(gateway, pause, { action: "accept", digest: "0".repeat(64) }, other)).status, 403);
    }
    const { structured } = await shownPause(gateway, pause, as("ada"));
    assert.deepEqual([structured.owner, structured.items[0].approvers, structured.items[0].mayDecide], [true, "owner", true]);
    assert.equal((await approve(gateway, pause, as("ada"))).status, 200);
    assert.equal((await resume(pause)).result.ok, true);
    assert.equal(await calls("deleteItem"), 1);
  }
});

test("by: other is decided by another member, and never by the session's owner", async () => {
  const { execute, resume, as, calls, organization, cookie, api } = await scene({ policies: [{ pattern: "demo.deleteItem", action: "approve", by: "other", note: "four eyes" }] });
  const pause = await execute(DELETE("item-1"));
  const { digest, structured } = await shownPause(gateway, pause, as("ada"));
  assert.deepEqual([structured.items[0].approvers, structured.items[0].mayDecide], ["other", false]);
  assert.match(structured.items[0].reason, /four eyes/);
  for (const action of ["accept", "decline"]) {
    const refused = await decide(gateway, pause, { action, digest }, as("ada", "admin"));
    assert.equal(refused.status, 403);
    assert.match(refused.body.error.message, /may not decide.*other than the account/i);
    assert.deepEqual([refused.body.error.data.code, refused.body.error.data.approvers], ["not_yours", "other"]);
  }
  assert.equal(await calls("deleteItem"), 0);

  // The list says who, and the page works for whoever may.
  const listed = await waitFor(async () => (await api("GET", "approvals")).body.items[0]);
  assert.deepEqual(listed.by, ["other"]);
  const own = await (await get(pathOf(pause), cookie("ada"))).text();
  assert.match(own, /You may not decide this yourself/);
  assert.doesNotMatch(own, /<form/);
  const html = await (await get(pathOf(pause), cookie("ben"))).text();
  assert.match(html, /May be decided by<\/dt><dd>somebody of the organization other than/);
  assert.doesNotMatch(html, /value="cancel"|All programs of this session/);
  assert.equal((await post(pathOf(pause), { action: "accept", digest: field(html, "digest") }, cookie("ada"))).status, 403);
  // Another organization's people never, whatever they are called.
  for (const account of ["ben", "ada"]) {
    const foreign = devToken({ account, organization: `${organization}x`, roles: ["approver", "admin"] });
    await assert.rejects(shownPause(gateway, pause, { token: foreign }), { status: 403 });
    assert.equal((await decide(gateway, pause, { action: "accept", digest }, { token: foreign })).status, 403);
    assert.equal((await get(pathOf(pause), { cookie: `countersign-dev=${account}@${organization}x` })).status, 403);
  }
  assert.equal((await decide(gateway, pause, { action: "cancel", digest }, as("ben"))).status, 403, "the program is its owner's");
  assert.equal((await decide(gateway, pause, { action: "cancel" }, as("ben"))).status, 403);
  assert.equal((await post(pathOf(pause), { action: "accept", digest: field(html, "digest") }, cookie("ben"))).status, 303);
  assert.equal((await resume(pause)).result.ok, true);
  assert.equal(await calls("deleteItem"), 1);
  assert.match(await (await get(pathOf(pause), cookie("ben"))).text(), /Approved by <b>ben<\/b>/, "and sees what came of it");
});

test("the owner of what others decide can still cancel it", async () => {
  const { execute, resume, as, calls } = await scene({ policies: [{ pattern: "demo.deleteItem", action: "approve", by: "other" }] });
  const pause = await execute(DELETE("item-1"));
  const { digest } = await shownPause(gateway, pause, as("ada"));
  assert.equal((await decide(gateway, pause, { action: "cancel", digest }, as("ada"))).status, 200);
  assert.equal((await resume(pause)).error.code, "cancelled");
  assert.equal(await calls("deleteItem"), 0);
});

test("by: admin is decided by an administrator, who may be the owner; with a toolkit's by: other by another one only", async () => {
  const admins = [{ pattern: "**", action: "approve", by: "admin" }];
  const one = await scene({ policies: admins });
  const pause = await one.execute(DELETE("item-1"));
  const { digest } = await shownPause(gateway, pause, one.as("ada"));
  assert.equal((await decide(gateway, pause, { action: "accept", digest }, one.as("ada"))).status, 403);
  await assert.rejects(shownPause(gateway, pause, one.as("ben")), { status: 403 }, "a member without the role");
  assert.equal((await decide(gateway, pause, { action: "accept", digest }, one.as("ada", "admin"))).status, 200);
  assert.equal((await one.resume(pause)).result.ok, true);

  const two = await scene({ policies: admins });
  const kit = { include: ["demo.**"], policies: [{ pattern: "**", action: "approve", by: "other" }] };
  assert.equal((await two.api("PUT", "toolkits/kit", { body: kit })).status, 201);
  const session = await openSession(gateway, { token: two.token("ada"), path: "/mcp/toolkits/kit" });
  const strict = (await session.tool("execute", { code: DELETE("item-1") })).structuredContent;
  const shown = await shownPause(gateway, strict, two.as("ben", "admin"));
  assert.equal(shown.structured.items[0].approvers, "other_admin");
  for (const who of [two.as("ada", "admin"), two.as("ben")]) {
    assert.equal((await decide(gateway, strict, { action: "accept", digest: shown.digest }, who)).status, 403);
  }
  assert.equal((await decide(gateway, strict, { action: "accept", digest: shown.digest }, two.as("ben", "admin"))).status, 200);
});

test("calls with different rules are decided one by one by those who may", async () => {
  const { execute, resume, as, cookie } = await scene({ policies: [{ pattern: "demo.deleteItem", action: "approve", by: "other" }] });
  const pause = await execute("return (await Promise.all([tools.demo.deleteItem({ id: 'item-1' }), tools.demo.updateItem({ id: 'item-2', name: 'x' })])).map((one) => one.ok)");
  const { digest, structured } = await shownPause(gateway, pause, as("ben"));
  assert.deepEqual(structured.items.map((item) => item.mayDecide), [true, false]);
  assert.equal((await decide(gateway, pause, { action: "accept", digest }, as("ben"))).status, 403, "not all of it");
  const html = await (await get(pathOf(pause), cookie("ben"))).text();
  assert.match(html, /name="choice-0"/);
  assert.doesNotMatch(html, /name="choice-1"|>Approve all/);
  assert.equal((await post(pathOf(pause), { action: "items", "choice-0": "accept", "digest-0": field(html, "digest-0") }, cookie("ben"))).status, 303);
  assert.equal((await approve(gateway, pause, as("ada"))).status, 200);
  assert.deepEqual((await resume(pause)).result, [true, true]);
});

test("a rule that gets stricter has what was decided and not sent asked again", async () => {
  const { execute, resume, as, put, calls } = await scene();
  const pause = await execute("return (await Promise.all([tools.demo.deleteItem({ id: 'item-1' }), tools.demo.deleteItem({ id: 'item-2' })])).map((one) => one.ok)");
  await put([{ pattern: "demo.deleteItem", action: "approve", by: "other" }]);
  assert.equal((await approve(gateway, pause, as("ada"))).status, 200, "by the rule that it was asked with");
  const again = await waitFor(async () => {
    const report = await resume(pause);
    return report.status === "user_approval_required" && report.executionId !== pause.executionId && report;
  });
  assert.equal(await calls("deleteItem"), 0);
  assert.deepEqual(again.pending.map(({ by }) => by), ["other", "other"], "the client is told");
  const { structured } = await shownPause(gateway, again, as("ada"));
  assert.deepEqual(structured.items.map((item) => [item.approvers, item.mayDecide, item.changes.map((change) => change.what)]), [["other", false, ["approvers"]], ["other", false, ["approvers"]]]);
  assert.equal((await approve(gateway, again, as("ada"))).status, 403);
  assert.equal((await approve(gateway, again, as("ben"))).status, 200);
  assert.deepEqual((await resume(again)).result, [true, true]);
  assert.equal(await calls("deleteItem"), 2);
});

test("a model relays no decision that is somebody else's", async () => {
  const own = await scene({ policies: [{ pattern: "demo.**", action: "approve", by: "other" }], query: { elicitation_mode: "model" } });
  const pause = await own.execute(DELETE("item-1"));
  const relayed = await own.session.tool("resume", { executionId: pause.executionId, action: "accept" });
  assert.equal(relayed.isError, true);
  assert.match(JSON.stringify(relayed), /may not decide this/);
  assert.equal(await own.calls("deleteItem"), 0);
});

test("a rule that says who decides is checked when it is written", async () => {
  const { api } = await scene();
  for (const [rule, field] of [
    [{ pattern: "a.b", action: "approve", by: "me" }, "policies[0].by"],
    [{ pattern: "a.b", action: "approve", by: ["admin"] }, "policies[0].by"],
    [{ pattern: "a.b", action: "allow", by: "admin" }, "policies[0].by"],
    [{ pattern: "a.b", action: "block", by: "other" }, "policies[0].by"],
  ]) {
    const { status, body } = await api("PUT", "policies", { body: { policies: [rule] } });
    assert.deepEqual([status, body.error.data.field], [400, field], JSON.stringify(rule));
  }
  await api("PUT", "policies", { body: { policies: [{ pattern: "demo.**", action: "approve", by: "other" }] } });
  assert.deepEqual((await api("GET", "policies")).body.policies, [{ pattern: "demo.**", action: "approve", by: "other" }]);
  assert.equal((await api("GET", "tools/demo.deleteItem")).body.policy.by, "other");
});

test("twenty people decide at once: one wins, the others are told who", async () => {
  const { execute, resume, as, calls, cookie } = await scene({ policies: [{ pattern: "demo.**", action: "approve", by: "other" }] });
  const pause = await execute(DELETE("item-1"));
  const people = Array.from({ length: 20 }, (_, n) => `person${n}`);
  const { digest } = await shownPause(gateway, pause, as("person0"));
  const answers = await Promise.all(people.map((name, n) => decide(gateway, pause, { action: n % 2 ? "accept" : "decline", digest }, as(name))));
  const winner = people[answers.findIndex(({ status }) => status === 200)];
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(19).fill(409)]);
  for (const { status, body } of answers) if (status === 409) assert.equal(body.error.data.by, winner);
  const late = await post(pathOf(pause), { action: "accept", digest }, cookie("late"));
  assert.equal(late.status, 409);
  assert.match(await late.text(), new RegExp(`Already (approved|declined) by <b>${winner}</b>`));
  assert.equal(await calls("deleteItem"), (await resume(pause)).result.ok ? 1 : 0);
});

// ---- edited arguments ---------------------------------------------------------------------------

test("edited arguments are what is sent, and everybody is told", async () => {
  const { execute, resume, as, calls, cookie, session } = await scene();
  const pause = await execute(`return await tools.demo.updateItem({ id: 'item-1', name: 'from the program' })`);
  const { digest, structured } = await shownPause(gateway, pause, as("ada"));
  const edited = { id: "item-2", name: "from the person" };
  const answer = await decide(gateway, pause, { action: "accept", digest, arguments: edited }, as("ada"));
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  const { result } = await resume(pause);
  assert.deepEqual([result.ok, result.data.id, result.data.name], [true, "item-2", "from the person"]);
  assert.deepEqual(result.edited, { arguments: edited });
  assert.equal(await calls("updateItem"), 1);
  const after = (await shownPause(gateway, pause, as("ada"))).structured.items[0];
  assert.equal(after.arguments, JSON.stringify(edited));
  assert.equal(after.original, '{"id":"item-1","name":"from the program"}');
  assert.equal(after.decision.edited, true);
  assert.match(after.url, /item-2$/);
  assert.notEqual(after.digest, structured.items[0].digest);
  const html = await (await get(pathOf(pause), cookie("ada"))).text();
  assert.match(html, /Approved with other arguments by <b>ada<\/b>/);
  assert.match(html, /What the program wrote/);
  const history = await (await gateway.fetch(`/api/mcp-sessions/${session.id}/executions`, { headers: { authorization: `Bearer ${as("ada").token}` } })).json();
  assert.equal(history.structured.executions[0].decisions[0].edited, true);
});

test("edited arguments are held against the schema, with the digest of what was shown", async () => {
  const { execute, resume, as, calls } = await scene();
  const pause = await execute(`return await tools.demo.updateItem({ id: 'item-1', name: 'x' })`);
  const { digest } = await shownPause(gateway, pause, as("ada"));
  for (const [args, path] of [
    [{ id: 7, name: "x" }, "/id"],
    [{ name: "x" }, "id"],
    [[], ""],
    ["x", ""],
  ]) {
    const { status, body } = await decide(gateway, pause, { action: "accept", digest, arguments: args }, as("ada"));
    assert.deepEqual([status, body.error.data.code], [400, "bad_arguments"], JSON.stringify(body));
    assert.ok(JSON.stringify(body.error.data.details).includes(path), JSON.stringify(body));
  }
  assert.equal((await decide(gateway, pause, { action: "decline", digest, arguments: {} }, as("ada"))).status, 400);
  assert.equal((await decide(gateway, pause, { action: "accept", digest: "0".repeat(64), arguments: { id: "item-2", name: "y" } }, as("ada"))).status, 409);
  assert.equal((await decide(gateway, pause, { action: "accept", arguments: { id: "item-2", name: "y" } }, as("ada"))).status, 400, "no digest");
  assert.equal(await calls("updateItem"), 0);
  // The same arguments in another order are no edit.
  assert.equal((await decide(gateway, pause, { action: "accept", digest, arguments: { name: "x", id: "item-1" } }, as("ada"))).status, 200);
  const { result } = await resume(pause);
  assert.deepEqual([result.ok, result.edited], [true, undefined]);
});

test("several calls wait: each has its own arguments", async () => {
  const { execute, resume, as } = await scene();
  const pause = await execute("return (await Promise.all(['item-1', 'item-2', 'item-3'].map((id) => tools.demo.updateItem({ id, name: 'x' })))).map((one) => one.data?.name ?? one.error.code)");
  const { digest, structured } = await shownPause(gateway, pause, as("ada"));
  assert.equal((await decide(gateway, pause, { action: "accept", digest, arguments: { id: "item-1", name: "y" } }, as("ada"))).status, 400, "which one?");
  const decisions = [
    { call: 0, digest: structured.items[0].digest, action: "accept" },
    { call: 1, digest: structured.items[1].digest, action: "accept", arguments: { id: "item-2", name: "second" } },
    { call: 2, digest: structured.items[2].digest, action: "decline" },
  ];
  assert.equal((await decide(gateway, pause, { decisions }, as("ada"))).status, 200);
  assert.deepEqual((await resume(pause)).result, ["x", "second", "declined"]);
});

test("the page's text of the arguments comes back unchanged, corrected, or wrong and as it was typed", async () => {
  const { execute, resume, cookie } = await scene();
  const hostile = "\\u202egnp.exe</textarea><script>alert(1)</script>\\u200b";
  const pause = await execute(`return await tools.demo.updateItem({ id: 'item-1', name: '${hostile}' })`);
  const path = pathOf(pause);
  const unescaped = (text) => text.replaceAll("&#34;", '"').replaceAll("&#60;", "<").replaceAll("&#62;", ">").replaceAll("&#39;", "'").replaceAll("&#38;", "&");
  const html = await (await get(path, cookie("ada"))).text();
  const typed = unescaped(/<textarea[^>]*name="arguments-0"[^>]*>\n([^]*?)<\/textarea>/.exec(html)[1]);
  assert.ok(typed.includes("\\u202e") && !typed.includes("\u202e"), typed);
  assert.equal(JSON.parse(typed).name, JSON.parse(`"${hostile}"`));
  const digest = field(html, "digest");

  for (const [text, message] of [["{\"id\": \"item-1\",", /no JSON/], ['{"id": ["item-1"], "name": "y"}', /\/id/]]) {
    const wrong = await post(path, { action: "accept", digest, "arguments-0": text, reason: "kept" }, cookie("ada"));
    assert.equal(wrong.status, 400);
    const shown = await wrong.text();
    assert.match(shown, /Nothing was decided/);
    assert.match(shown, message);
    assert.equal(unescaped(/<textarea[^>]*name="arguments-0"[^>]*>\n([^]*?)<\/textarea>/.exec(shown)[1]), text);
    assert.match(shown, />kept<\/textarea>/);
  }
  assert.equal((await post(path, { action: "accept", digest, "arguments-0": typed.replace(/\n/g, "\r\n") }, cookie("ada"))).status, 303);
  const { result } = await resume(pause);
  assert.equal(result.edited, undefined, "sent as it was");
  assert.equal(result.data.name, JSON.parse(`"${hostile}"`));

  const other = await execute("return await tools.demo.updateItem({ id: 'item-1', name: 'a' })");
  const fresh = await (await get(pathOf(other), cookie("ada"))).text();
  const fields = { action: "accept", digest: field(fresh, "digest"), "arguments-0": '{"id":"item-2","name":"b"}' };
  assert.equal((await post(pathOf(other), fields, cookie("ada"))).status, 303);
  assert.deepEqual((await resume(other)).result.edited, { arguments: { id: "item-2", name: "b" } });
});

test("a crash after the decision delivers the same edited outcome, and the program may go on", async (t) => {
  const own = await startGateway({ vars: { RESUME_WAIT_MS: "4000" } });
  t.after(() => own.stop());
  const token = devToken({ account: "ada", organization: "crash" });
  const approver = { token: devToken({ account: "ada", organization: "crash", roles: ["approver"] }) };
  const session = await openSession(own, { token });
  const code = "const a = await tools.demo.updateItem({ id: 'item-1', name: 'a' });\nconst b = await tools.demo.updateItem({ id: 'item-2', name: a.data.name });\nreturn [a, b]";
  const pause = (await session.tool("execute", { code })).structuredContent;
  const { digest } = await shownPause(own, pause, approver);
  const decided = await decide(own, pause, { action: "accept", digest, arguments: { id: "item-1", name: "edited" }, grant: { scope: "session" } }, approver);
  assert.equal(decided.status, 200);
  await own.kill();
  await own.start();
  const { result } = (await session.tool("resume", { executionId: pause.executionId })).structuredContent;
  assert.deepEqual(result.map((one) => [one.ok, one.data.name]), [[true, "edited"], [true, "edited"]], JSON.stringify(result));
  assert.deepEqual(result[0].edited, { arguments: { id: "item-1", name: "edited" } });
  assert.equal(result[1].edited, undefined, "the second one ran by the grant");
});

test("in direct mode the client is told that the arguments were edited", async () => {
  const { token, as } = await scene();
  const session = await openSession(gateway, { token: token("ada"), query: { tool_mode: "direct" } });
  const call = (await session.tool("demo__updateItem", { id: "item-1", name: "a" })).structuredContent;
  waits(call);
  const { digest } = await shownPause(gateway, call, as("ada"));
  assert.equal((await decide(gateway, call, { action: "accept", digest, arguments: { id: "item-2", name: "b" } }, as("ada"))).status, 200);
  const result = await session.tool("resume", { executionId: call.executionId });
  assert.match(JSON.stringify(result.content), /A person approved this call with other arguments/, JSON.stringify(result));
});

// ---- grants -------------------------------------------------------------------------------------

test("a grant for the tool in this session lets its next calls through, here and nowhere else", async () => {
  const { execute, resume, as, token, calls, api, audit, cookie, session } = await scene();
  const pause = await execute("const all = [];\nfor (const id of ['item-1', 'item-2', 'item-3']) all.push((await tools.demo.deleteItem({ id })).ok);\nreturn all");
  const { digest } = await shownPause(gateway, pause, as("ada"));
  assert.equal((await decide(gateway, pause, { action: "accept", digest, grant: { scope: "session" } }, as("ada"))).status, 200);
  assert.deepEqual((await resume(pause)).result, [true, true, true]);
  assert.equal(await calls("deleteItem"), 3);
  const { body } = await api("GET", "grants", { as: as("ada").token });
  assert.equal(body.items.length, 1);
  const [grant] = body.items;
  assert.deepEqual([grant.account, grant.address, grant.scope, grant.by, grant.uses, grant.arguments], ["ada", "demo.deleteItem", "session", "ada", 2, null]);
  const page = await (await get(pathOf(pause), cookie("ada"))).text();
  assert.match(page, new RegExp(`This gave the grant <span class="code">${grant.id}</span>`));

  // History, page and audit say which grant it was.
  assert.equal((await execute(DELETE("item-4"))).status, "completed");
  const history = await (await gateway.fetch(`/api/mcp-sessions/${session.id}/executions`, { headers: { authorization: `Bearer ${as("ada").token}` } })).json();
  const [line] = history.structured.executions[0].decisions;
  assert.deepEqual([line.route, line.grant, line.by], ["grant", grant.id, "ada"]);
  assert.match(await (await get(`/sessions/${session.id}`, cookie("ada"))).text(), new RegExp(`approved by grant ${grant.id} by <b>ada</b>`));
  const uses = await audit("grant.use");
  assert.ok(uses.length === 3 && uses.every((entry) => entry.target === grant.id && entry.executionId), JSON.stringify(uses));
  assert.equal((await audit("grant.give")).length, 1);

  // Another session of the same account, another tool, another account.
  const second = await openSession(gateway, { token: token("ada") });
  waits((await second.tool("execute", { code: DELETE("item-2") })).structuredContent);
  waits(await execute("return await tools.demo.updateItem({ id: 'item-2', name: 'x' })"));
  const bens = await openSession(gateway, { token: token("ben") });
  waits((await bens.tool("execute", { code: DELETE("item-2") })).structuredContent);

  // Revoked: asked again.
  assert.equal((await api("DELETE", `grants/${grant.id}`, { as: as("eve").token })).status, 404, "not hers");
  assert.equal((await api("DELETE", `grants/${grant.id}`, { as: token("ada") })).status, 403, "the agent's bearer");
  assert.equal((await api("DELETE", `grants/${grant.id}`, { as: as("ada").token })).status, 200);
  assert.equal((await api("DELETE", `grants/${grant.id}`, { as: as("ada").token })).status, 404);
  waits(await execute(DELETE("item-2")));
  assert.equal((await audit("grant.revoke")).length, 1);
});

test("a grant for exactly these arguments counts in every session of the account, until it ends or the tool changes", async () => {
  const { execute, resume, as, token, api, cookie } = await scene();
  const pause = await execute("return await tools.demo.updateItem({ id: 'item-1', name: 'x' })");
  const html = await (await get(pathOf(pause), cookie("ada"))).text();
  assert.match(html, /Allow more than this call/);
  const before = Date.now();
  assert.equal((await post(pathOf(pause), { action: "accept", digest: field(html, "digest"), "grant-0": "8" }, cookie("ada"))).status, 303);
  assert.equal((await resume(pause)).result.ok, true);
  const [grant] = (await api("GET", "grants")).body.items;
  assert.deepEqual([grant.scope, grant.arguments, grant.mcpSessionId], ["arguments", '{"id":"item-1","name":"x"}', null]);
  const hours = (Date.parse(grant.expiresAt) - before) / 3_600_000;
  assert.ok(hours > 7.9 && hours < 8.1, grant.expiresAt);
  const second = await openSession(gateway, { token: token("ada") });
  const same = (await second.tool("execute", { code: "return (await tools.demo.updateItem({ name: 'x', id: 'item-1' })).ok" })).structuredContent;
  assert.deepEqual([same.status, same.result], ["completed", true]);
  waits((await second.tool("execute", { code: "return await tools.demo.updateItem({ id: 'item-1', name: 'y' })" })).structuredContent);
});

test("a grant is never wider than policy: block blocks, and whoever gave it has to be somebody who may decide now", async () => {
  const { execute, resume, as, put, api, calls } = await scene();
  const pause = await execute(DELETE("item-1"));
  const { digest } = await shownPause(gateway, pause, as("ada"));
  await decide(gateway, pause, { action: "accept", digest, grant: { scope: "session" } }, as("ada"));
  assert.equal((await resume(pause)).result.ok, true);
  await put([{ pattern: "demo.deleteItem", action: "block" }]);
  assert.equal((await execute(DELETE("item-2"))).result.error.code, "tool_blocked");
  for (const by of ["other", "admin"]) {
    await put([{ pattern: "demo.deleteItem", action: "approve", by }]);
    waits(await execute(DELETE("item-2")));
  }
  await put([]);
  assert.equal((await execute(DELETE("item-2"))).result.ok, true, "it counts again");
  assert.equal(await calls("deleteItem"), 2);
  // Given by somebody else, under a rule that wants that.
  await put([{ pattern: "demo.deleteItem", action: "approve", by: "other" }]);
  const others = await execute(DELETE("item-3"));
  const shown = await shownPause(gateway, others, as("ben"));
  await decide(gateway, others, { action: "accept", digest: shown.digest, grant: { scope: "session" } }, as("ben"));
  assert.equal((await resume(others)).result.ok, true);
  assert.equal((await execute(DELETE("item-4"))).result.ok, true);
  const mine = (await api("GET", "grants", { as: as("ben").token })).body.items;
  assert.deepEqual(mine.map(({ account, by }) => [account, by]), [["ada", "ben"]], "what ben gave");
  assert.equal((await api("GET", "grants")).body.items.length, 2, "an administrator sees all");
  assert.equal((await api("GET", "grants", { as: as("eve").token })).body.items.length, 0);
});

test("what changes the gateway itself cannot be granted, and a refused or lost decision grants nothing", async () => {
  const { as, token, api, execute } = await scene();
  const admin = await openSession(gateway, { token: token("boss", "admin") });
  const own = (await admin.tool("execute", { code: "return await tools.countersign.toolkits.delete({ slug: 'none' })" })).structuredContent;
  waits(own);
  const shown = await shownPause(gateway, own, as("boss"));
  const refused = await decide(gateway, own, { action: "accept", digest: shown.digest, grant: { scope: "session" } }, as("boss"));
  assert.deepEqual([refused.status, refused.body.error.data.code], [400, "no_grant"]);
  assert.equal(shown.structured.items[0].grantable, false);

  const pause = await execute(DELETE("item-1"));
  const { digest } = await shownPause(gateway, pause, as("ada"));
  for (const [decision, status] of [
    [{ action: "decline", digest, grant: { scope: "session" } }, 400],
    [{ action: "accept", digest, grant: { scope: "everything" } }, 400],
    [{ action: "accept", digest, grant: { scope: "arguments" } }, 400],
    [{ action: "accept", digest, grant: { scope: "arguments", hours: 169 } }, 400],
    [{ action: "accept", digest, grant: { scope: "arguments", hours: 0 } }, 400],
    [{ action: "accept", digest: "0".repeat(64), grant: { scope: "session" } }, 409],
  ]) {
    assert.equal((await decide(gateway, pause, decision, as("ada"))).status, status, JSON.stringify(decision));
  }
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, n) => decide(gateway, pause, n % 2 ? { action: "decline", digest } : { action: "accept", digest, grant: { scope: "session" } }, as("ada"))),
  );
  assert.equal(answers.filter(({ status }) => status === 200).length, 1);
  const won = answers.findIndex(({ status }) => status === 200) % 2 === 0;
  const given = async () => (await api("GET", "grants")).body.items.length;
  if (won) await waitFor(async () => (await given()) === 1);
  else assert.equal(await given(), 0);
});

test("the page of grants lists, pages and revokes, from the gateway's own page only", async () => {
  const { execute, resume, as, cookie, api } = await scene();
  for (const id of ["item-1", "item-2", "item-3"]) {
    const pause = await execute(`return await tools.demo.updateItem({ id: '${id}', name: '<b>x</b>' })`);
    const { digest } = await shownPause(gateway, pause, as("ada"));
    await decide(gateway, pause, { action: "accept", digest, grant: { scope: "arguments", hours: 1 } }, as("ada"));
    await resume(pause);
  }
  const first = (await api("GET", "grants?limit=2", { as: as("ada").token })).body;
  const rest = (await api("GET", `grants?limit=2&cursor=${first.nextCursor}`, { as: as("ada").token })).body;
  assert.deepEqual([first.items.length, rest.items.length, rest.nextCursor], [2, 1, undefined]);
  assert.equal(new Set([...first.items, ...rest.items].map(({ id }) => id)).size, 3);
  assert.equal((await api("GET", "grants?cursor=x")).status, 400);
  assert.equal((await api("POST", "grants", { body: {} })).status, 405);
  assert.equal((await api("DELETE", "grants/x")).status, 404);

  const html = await (await get("/grants", cookie("ada"))).text();
  assert.equal((html.match(/value="revoke"/g) ?? []).length, 3);
  assert.doesNotMatch(html, /<b>x<\/b>|<script(?![^>]*src=)|<[^>]*\s(on\w+|style)=/);
  const grant = first.items[0].id;
  assert.equal((await post("/grants", { action: "revoke", grant }, { ...cookie("ada"), origin: "https://evil.example" })).status, 403);
  assert.equal((await post("/grants", { action: "revoke" }, cookie("ada"))).status, 400);
  assert.equal((await gateway.fetch(`/api/grants/${grant}`, { method: "DELETE", headers: cookie("ada") })).status, 403, "no Origin");
  const done = await post("/grants", { action: "revoke", grant }, cookie("ada"));
  assert.deepEqual([done.status, done.headers.get("location")], [303, "/grants"]);
  assert.equal((await api("GET", "grants", { as: as("ada").token })).body.items.length, 2);
  assert.equal((await get("/grants", { authorization: `Bearer ${devToken({ account: "ada" })}` })).status, 403, "the agent's bearer");
});

test("a grant that a crash interrupted counts once its decision is there, and not before", async (t) => {
  const own = await startGateway({ vars: { RESUME_WAIT_MS: "4000" } });
  t.after(() => own.stop());
  const organization = "crash2";
  const approver = { token: devToken({ account: "ada", organization, roles: ["approver"] }) };
  const session = await openSession(own, { token: devToken({ account: "ada", organization }) });
  const pause = (await session.tool("execute", { code: DELETE("item-1") })).structuredContent;
  const { digest } = await shownPause(own, pause, approver);
  // Ends somewhere on the way.
  const decision = decide(own, pause, { action: "accept", digest, grant: { scope: "session" } }, approver).catch(() => undefined);
  await new Promise((resolve) => setImmediate(resolve));
  await own.kill();
  await decision;
  await own.start();
  const { structured } = await shownPause(own, pause, approver);
  const decided = structured.items[0].decision;
  const list = async () => (await (await own.fetch("/api/grants", { headers: { authorization: `Bearer ${approver.token}` } })).json()).items.map(({ id }) => id);
  if (decided) await waitFor(async () => (await list()).includes(decided.gives));
  else assert.deepEqual(await list(), []);
});

// ---- what changed -------------------------------------------------------------------------------

const documentOf = (url, description = "Sends a note.") => ({
  openapi: "3.1.0",
  info: { title: "Notes", version: "1" },
  servers: [{ url }],
  paths: {
    "/notes/{id}": {
      post: {
        operationId: "send",
        summary: "Send a note",
        description,
        parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }],
        requestBody: { content: { "application/json": { schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } } } },
        responses: { 200: { description: "Sent" } },
      },
    },
  },
});

test("a tool that changed is asked about again with the difference, and its grants let nothing through", async (t) => {
  const backend = await startBackend();
  t.after(() => backend.stop());
  const { execute, resume, as, api, cookie } = await scene();
  const define = async (description) => {
    const { status, body } = await api("PUT", "sources/notes", { body: { kind: "openapi", spec: JSON.stringify(documentOf(backend.url, description)), baseUrl: backend.url } });
    assert.ok(status === 200 || status === 201, JSON.stringify(body));
  };
  const SEND = "return (await tools.notes.send({ id: '7', text: 'hi' })).ok";
  await define("Sends a note.");
  const first = await execute(SEND);
  waits(first);
  const { digest } = await shownPause(gateway, first, as("ada"));
  assert.equal((await decide(gateway, first, { action: "accept", digest, grant: { scope: "arguments", hours: 1 } }, as("ada"))).status, 200);
  assert.equal((await resume(first)).result, true);
  assert.equal((await execute(SEND)).result, true, "by the grant");
  assert.equal(backend.take().length, 2);

  await define("Sends a note <b>to everybody</b>.");
  const second = await execute(SEND);
  waits(second);
  // It changes once more between the decision and the sending: the person is shown what.
  await define("Sends a note, and a copy to the press.");
  assert.equal((await approve(gateway, second, as("ada"))).status, 200);
  const again = await waitFor(async () => {
    const report = await resume(second);
    return report.status === "user_approval_required" && report.executionId !== second.executionId && report;
  });
  assert.equal(backend.take().length, 0);
  const { structured } = await shownPause(gateway, again, as("ada"));
  const [item] = structured.items;
  assert.equal(item.askedAgain, true);
  assert.ok(item.changes.some((change) => change.what === "description"), JSON.stringify(item.changes));
  assert.ok(item.changes.some((change) => change.what === "definition"), JSON.stringify(item.changes));
  const html = await (await get(pathOf(again), cookie("ada"))).text();
  assert.match(html, /What changed/);
  assert.match(html, /<del>− Sends a note &lt;b&gt;to everybody&lt;\/b&gt;\.<\/del>\s*<ins>\+ Sends a note, and a copy to the press\.<\/ins>/);
  assert.equal((await approve(gateway, again, as("ada"))).status, 200);
  assert.equal((await resume(again)).result, true);
  assert.equal(backend.take().length, 1);
});

test("edited arguments keep the digest of the tool that was shown, and arrive as they were written", async (t) => {
  const backend = await startBackend();
  t.after(() => backend.stop());
  const { execute, resume, as, api } = await scene();
  await api("PUT", "sources/notes", { body: { kind: "openapi", spec: JSON.stringify(documentOf(backend.url)), baseUrl: backend.url } });
  const pause = await execute("return await tools.notes.send({ id: '7', text: 'hi' })");
  const { digest } = await shownPause(gateway, pause, as("ada"));
  const edited = { id: "8", text: "1.10 and ünïcode \u202e" };
  assert.equal((await decide(gateway, pause, { action: "accept", digest, arguments: edited }, as("ada"))).status, 200);
  assert.equal((await resume(pause)).result.ok, true);
  const [sent] = backend.take();
  assert.deepEqual([sent.method, sent.target, JSON.parse(sent.body)], ["POST", "/notes/8", { text: edited.text }]);
});

test("a grant of somebody who left the organization lets nothing through", async (t) => {
  const directory = await startBackend();
  t.after(() => directory.stop());
  const gone = new Set();
  directory.answer = (request, response) => {
    const account = new URL(request.url, "http://x").searchParams.get("account");
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ member: !gone.has(account), admin: account === "boss" }));
  };
  const own = await startGateway({ vars: { RESUME_WAIT_MS: "4000", DIRECTORY_URL: directory.url } });
  t.after(() => own.stop());
  const token = (account, ...roles) => devToken({ account, organization: "leaving", roles });
  const rule = { policies: [{ pattern: "demo.**", action: "approve", by: "other" }] };
  const put = await own.fetch("/api/policies", { method: "PUT", headers: { authorization: `Bearer ${token("boss", "admin")}`, "content-type": "application/json" }, body: JSON.stringify(rule) });
  assert.equal(put.status, 200);
  const session = await openSession(own, { token: token("ada") });
  const execute = async (code) => (await session.tool("execute", { code })).structuredContent;
  const pause = await execute(DELETE("item-1"));
  const ben = { token: token("ben", "approver") };
  const { digest } = await shownPause(own, pause, ben);
  assert.equal((await decide(own, pause, { action: "accept", digest, grant: { scope: "session" } }, ben)).status, 200);
  assert.equal((await session.tool("resume", { executionId: pause.executionId })).structuredContent.result.ok, true);
  assert.equal((await execute(DELETE("item-2"))).result.ok, true, "by the grant");
  gone.add("ben");
  // What the directory said is remembered for a while, by the isolate: a new one asks.
  await own.restart();
  waits(await execute(DELETE("item-3")));
});
