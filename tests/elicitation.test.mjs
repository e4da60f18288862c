// Questions that an MCP server asks while nobody holds a request that can be asked: they are items of the pause.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { decide, devToken, openSession, shownPause, startGateway, startUpstream, waitFor } from "./harness/index.mjs";

let gateway;
const upstreams = {};
before(async () => {
  gateway = await startGateway({ vars: { ALLOW_LOCAL_NETWORK: "true", DEFAULT_TOOL_MODE: "code", TOOL_TIMEOUT_MS: "3000", RESUME_WAIT_MS: "4000", EXECUTION_RECOVERY_MS: "500" } });
  for (const era of ["session", "stateless"]) upstreams[era] = await startUpstream({ era });
});
after(async () => {
  await gateway.stop();
  for (const upstream of Object.values(upstreams)) await upstream.stop();
});

const origin = () => gateway.url.replace(/\/$/, "");
let organizations = 0;

/** A session whose client cannot be asked, with a source `up`. */
async function scene({ era = "session", ...options } = {}) {
  const organization = `elicit${organizations += 1}`;
  const added = await gateway.fetch("/api/sources/up", {
    method: "PUT",
    headers: { authorization: `Bearer ${devToken({ organization, roles: ["admin"] })}`, "content-type": "application/json" },
    body: JSON.stringify({ kind: "mcp", url: upstreams[era].url, trusted: true }),
  });
  assert.ok(added.ok, await added.text());
  const session = await openSession(gateway, { token: devToken({ organization }), ...options });
  const signedIn = await gateway.fetch("/sign-in", { method: "POST", redirect: "manual", headers: { origin: origin(), "content-type": "application/x-www-form-urlencoded" }, body: new URLSearchParams({ account: `ada@${organization}`, return_to: "/" }) });
  const cookie = signedIn.headers.get("set-cookie").split(";")[0];
  return {
    session,
    upstream: upstreams[era],
    approver: { token: devToken({ organization, roles: ["approver"] }) },
    execute: async (code) => (await session.tool("execute", { code })).structuredContent,
    resume: async (pause, more = {}) => (await session.tool("resume", { executionId: pause.executionId, ...more })).structuredContent,
    get: async (pause) => (await gateway.fetch(new URL(pause.approvalUrl).pathname + new URL(pause.approvalUrl).search, { headers: { cookie } })).text(),
    post: (pause, fields) =>
      gateway.fetch(new URL(pause.approvalUrl).pathname + new URL(pause.approvalUrl).search, { method: "POST", redirect: "manual", headers: { cookie, origin: origin(), "content-type": "application/x-www-form-urlencoded" }, body: new URLSearchParams(fields) }),
  };
}

const ASK = (what, more = "") => `return (await tools.up.ask({ what: "${what}"${more} })).data.answer`;
const hidden = (html, name) => new RegExp(`name="${name}" value="([^"]*)"`).exec(html)?.[1];

for (const era of ["session", "stateless"]) {
  test(`${era}: a form is answered on the page, field by field, and the answer reaches the tool`, async () => {
    const { execute, resume, get, post } = await scene({ era });
    const pause = await execute(ASK("fields"));
    assert.equal(pause.status, "user_approval_required", JSON.stringify(pause));
    assert.equal(pause.pending[0].question.requestedSchema.properties.age.minimum, 18);
    const html = await get(pause);
    assert.match(html, /A tool asks you/);
    assert.doesNotMatch(html, /<script>alert/);
    for (const field of ["Your name", "Green", 'name="field-0-4" value="b"']) assert.ok(html.includes(field), field);
    const wrong = await post(pause, [["action", "accept"], ["digest", hidden(html, "digest")], ["field-0-0", "Ada L."], ["field-0-1", "17"], ["field-0-4", "a"]]);
    assert.equal(wrong.status, 400);
    const again = await wrong.text();
    assert.match(again, /age has to be 18 or more/);
    assert.match(again, /value="Ada L\."/);
    const sent = await post(pause, [["action", "accept"], ["digest", hidden(again, "digest")], ["field-0-0", "Ada L."], ["field-0-1", "36"], ["field-0-2", "on"], ["field-0-3", "g"], ["field-0-4", "a"], ["field-0-4", "c"]]);
    assert.equal(sent.status, 303, await sent.text());
    const done = await resume(pause);
    assert.deepEqual(done.result, { action: "accept", content: { name: "Ada L.", age: 36, agree: true, colour: "g", tags: ["a", "c"] } });
    assert.match(await get(pause), /Answered by <b>ada<\/b>/);
  });

  test(`${era}: a question is answered by the API, and declined`, async () => {
    const { execute, resume, approver } = await scene({ era });
    const pause = await execute(ASK("form"));
    const { digest, structured } = await shownPause(gateway, pause, approver);
    assert.equal(structured.pending[0].question.message, "Which colour?");
    for (const content of [undefined, { colour: 7 }, { colour: "red", other: 1 }, []]) {
      const refused = await decide(gateway, pause, { action: "accept", digest, content }, approver);
      assert.equal(refused.status, 400, JSON.stringify(content));
    }
    const decisions = [{ call: 0, digest: structured.items[0].digest, action: "accept", content: { colour: "red" } }];
    assert.equal((await decide(gateway, pause, { decisions }, approver)).status, 200);
    assert.deepEqual((await resume(pause)).result, { action: "accept", content: { colour: "red" } });
    assert.equal((await decide(gateway, pause, { decisions }, approver)).status, 409);

    const other = await execute(ASK("form"));
    await decide(gateway, other, { action: "decline", digest: (await shownPause(gateway, other, approver)).digest }, approver);
    assert.deepEqual((await resume(other)).result, { action: "decline" });
  });

  test(`${era}: a page that the tool wants opened is a link`, async () => {
    const { execute, resume, get, post } = await scene({ era });
    const pause = await execute(ASK("url"));
    const html = await get(pause);
    assert.match(html, /a page of <b>example\.com<\/b>: <a[^>]* href="https:\/\/example\.com\/sign-in"/);
    assert.equal((await post(pause, { action: "accept", digest: hidden(html, "digest") })).status, 303);
    assert.deepEqual((await resume(pause)).result, { action: "accept" });
  });
}

test("what a client can be asked it is asked itself, and what no person can answer is refused", async () => {
  const { session } = await scene({ capabilities: { elicitation: { form: {} } } });
  const asked = [];
  const { structuredContent } = await session.tool("execute", { code: ASK("form") }, {
    onMessage: async (message) => {
      if (message.id === undefined) return;
      asked.push(message.method);
      await session.answer(message.id, { action: "accept", content: { colour: "blue" } });
    },
  });
  assert.deepEqual([structuredContent.result.content.colour, asked], ["blue", ["elicitation/create"]]);
  const { execute } = await scene();
  const refused = await execute(ASK("sampling"));
  assert.match(refused.result.error, /cannot be asked/);
});

test("questions and approvals are one pause, decided differently in one form", async () => {
  const { execute, resume, get, post } = await scene();
  const pause = await execute(`
    const [answer, one, two] = await Promise.all([tools.up.ask({ what: "form" }), tools.demo.deleteItem({ id: "item-1" }), tools.demo.deleteItem({ id: "item-2" })]);
    return [answer.data.answer, one.ok, two.error?.reason];`);
  assert.equal(pause.pending.length, 3, JSON.stringify(pause.pending));
  const html = await get(pause);
  assert.match(html, /Decide on these 3 calls/);
  const fields = [["action", "items"]];
  for (const [call, choice] of [[0, "accept"], [1, "accept"], [2, "decline"]]) fields.push([`choice-${call}`, choice], [`digest-${call}`, hidden(html, `digest-${call}`)]);
  assert.equal((await post(pause, [...fields, ["field-0-0", "green"], ["reason-2", "keep it"]])).status, 303);
  assert.deepEqual((await resume(pause)).result, [{ action: "accept", content: { colour: "green" } }, true, "keep it"]);
});

test("a tool that stops waiting goes on, and the question with it", async () => {
  const { execute, resume, get, approver } = await scene();
  const pause = await execute(ASK("form", ", patience: 300"));
  assert.equal(pause.status, "user_approval_required");
  const { digest } = await shownPause(gateway, pause, approver);
  assert.equal((await resume(pause)).result, "nobody answered");
  assert.equal((await decide(gateway, pause, { action: "accept", digest, content: { colour: "red" } }, approver)).status, 409);
  assert.match(await get(pause), /stopped waiting before anybody answered/);
});

test("a program that only the alarm drives asks too, and the tool hears the answer", async () => {
  const { execute, resume, approver, upstream } = await scene();
  const asleep = await execute(`await sleep(6000); ${ASK("form")}`);
  assert.equal(asleep.status, "sleeping");
  const before = (await upstream.calls("tools/call")).length;
  await waitFor(async () => (await upstream.calls("tools/call")).length > before, { what: "the alarm to go on with the program", timeout: 20_000 });
  const pause = await waitFor(async () => {
    const report = await resume(asleep);
    return report.status === "user_approval_required" && report;
  }, { what: "the question" });
  // Longer than the tool may be silent: the time stands still while a person is asked.
  await waitFor(async () => (await resume(pause)).status === "user_approval_required", { what: "nobody to answer yet" });
  assert.equal((await decide(gateway, pause, { action: "accept", digest: (await shownPause(gateway, pause, approver)).digest, content: { colour: "red" } }, approver)).status, 200);
  await waitFor(async () => (await shownPause(gateway, pause, approver)).structured.executionStatus === "completed");
  assert.deepEqual((await resume(pause)).result, { action: "accept", content: { colour: "red" } });
});

test("after SIGKILL the question is gone; a call that may be repeated asks again", async () => {
  const { execute, resume, approver } = await scene();
  const pause = await execute(ASK("form"));
  const { digest } = await shownPause(gateway, pause, approver);
  await gateway.kill();
  await gateway.start();
  const again = await waitFor(async () => {
    const report = await resume(pause);
    return report.status === "user_approval_required" && report.executionId !== pause.executionId && report;
  }, { what: "to be asked again", timeout: 20_000 });
  assert.equal((await decide(gateway, pause, { action: "accept", digest, content: { colour: "red" } }, approver)).status, 409, "what was shown is not what waits");
  const shown = await shownPause(gateway, again, approver);
  assert.equal((await decide(gateway, again, { action: "accept", digest: shown.digest, content: { colour: "green" } }, approver)).status, 200);
  assert.equal((await resume(again)).result.content.colour, "green");
});

test("a model relays what the user entered, where the session allows it", async () => {
  const { execute, resume, session } = await scene({ query: { elicitation_mode: "model" } });
  const pause = await execute(ASK("form"));
  assert.equal(pause.status, "waiting_for_interaction");
  assert.match(pause.interaction.message, /Which colour\?/);
  const bad = await session.tool("resume", { executionId: pause.executionId, action: "accept", content: { colour: 7 } });
  assert.equal(bad.isError, true);
  assert.match(bad.content[0].text, /colour has to be a text/);
  assert.deepEqual((await resume(pause, { action: "accept", content: { colour: "red" } })).result, { action: "accept", content: { colour: "red" } });
});

test("a program that is stopped while its tool asks leaves nothing open", async () => {
  const { execute, resume, approver } = await scene();
  const pause = await execute(ASK("form"));
  assert.equal((await decide(gateway, pause, { action: "cancel" }, approver)).status, 200);
  const ended = await resume(pause);
  assert.deepEqual([ended.status, ended.error.code], ["error", "cancelled"]);
  await waitFor(async () => (await shownPause(gateway, pause, approver)).structured.items[0].state === "done", { what: "the call to settle" });
});
