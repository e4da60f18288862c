// MCP servers behind the gateway, of both eras: their tools in programs and in direct mode, what is passed through, and what
// becomes of calls when a server is killed, forgets its sessions, hangs, or talks nonsense.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { approve, devToken, openSession, startGateway, startUpstream, waitFor } from "./harness/index.mjs";

let gateway;
const upstreams = [];
before(async () => {
  gateway = await startGateway({ vars: { ALLOW_LOCAL_NETWORK: "true", DEFAULT_TOOL_MODE: "code", TOOL_TIMEOUT_MS: "3000", RESUME_WAIT_MS: "3000" } });
});
after(async () => {
  await gateway.stop();
  for (const upstream of upstreams) await upstream.stop();
});

let organizations = 0;

/** An organization with a source for each server, by slug: `{up: upstream}`, all trusted unless said otherwise. */
async function organization(sources, { trusted = true } = {}) {
  const name = `upstream${organizations += 1}`;
  for (const [slug, upstream] of Object.entries(sources)) {
    const added = await addSource(name, slug, { kind: "mcp", url: upstream.url, trusted });
    assert.ok(added.status < 300, JSON.stringify(added.body));
  }
  const open = (options = {}) => openSession(gateway, { token: devToken({ organization: name }), ...options });
  return {
    name,
    program: (options) => open(options),
    direct: ({ query = {}, ...options } = {}) => open({ query: { tool_mode: "direct", ...query }, ...options }),
    approver: { token: devToken({ organization: name, roles: ["approver"] }) },
  };
}

async function addSource(name, slug, source) {
  const response = await gateway.fetch(`/api/sources/${slug}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${devToken({ organization: name, roles: ["admin"] })}`, "content-type": "application/json" },
    body: JSON.stringify(source),
  });
  return { status: response.status, body: await response.json() };
}

async function start(options) {
  const upstream = await startUpstream(options);
  upstreams.push(upstream);
  return upstream;
}

const run = async (session, code, options) => {
  const result = await session.tool("execute", { code }, options);
  assert.equal(result.structuredContent.status, "completed", JSON.stringify(result.structuredContent));
  return result.structuredContent.result;
};
const ERAS = ["session", "stateless"];

for (const era of ERAS) {
  test(`${era}: tools are imported from all pages under safe names, and a program calls them`, async () => {
    const upstream = await start({ era });
    const { program } = await organization({ up: upstream });
    const session = await program();
    const results = await run(session, `
      const echo = await tools.up.echo({ text: "ünicode", odd_20key: 7 });
      const notes = await tools.up.notes.list({});
      const failed = await tools.up.fail({});
      const refused = await tools.up.refuse({});
      const blocks = await tools.up.blocks({});
      const region = await tools.up.region({ region: " süd " });
      const lying = await tools.up.lying_output({});
      return { echo, notes: String(notes.data.notes[0].n), failed, refused, blocks, region: region.data, lying: lying.data };
    `);
    assert.deepEqual(results.echo, { ok: true, data: { text: "ünicode", "odd key": 7 } });
    assert.equal(results.notes, "12345");
    assert.deepEqual(results.failed.error, { code: "tool_error", message: "It went wrong" });
    assert.equal(results.refused.error.code, "upstream_error");
    assert.deepEqual(results.refused.error.details, { code: -32602, data: { why: "because" } });
    assert.deepEqual(results.blocks.data[1], { mimeType: "image/png", encoding: "base64", data: "AA==" });
    assert.equal(results.region.args.region, " süd ");
    assert.deepEqual(results.lying, { n: "no number" });
    if (era === "session") assert.equal((await upstream.calls("initialize")).length, 2, "one for the import, one for the session");
  });

  test(`${era}: direct mode passes results through as they came, with progress and log messages before`, async () => {
    const upstream = await start({ era });
    const { direct } = await organization({ up: upstream });
    const session = await direct();
    await session.call("logging/setLevel", { level: "warning" });
    const blocks = await session.tool("up__blocks");
    assert.equal(blocks.content[0].annotations.priority, 0.5);
    assert.deepEqual(blocks.content[2], { type: "resource_link", uri: "up+note://one", name: "one" });
    assert.deepEqual(blocks.content[3].resource, { uri: "up+note://two", text: "note://two" });
    const linked = await session.call("resources/read", { uri: blocks.content[2].uri });
    assert.equal(linked.result.contents[0].uri, "up+note://one");
    assert.deepEqual(await session.tool("up__fail"), { content: [{ type: "text", text: "It went wrong" }], isError: true });
    const { result, messages } = await session.call("tools/call", { name: "up__talk", arguments: {}, _meta: { progressToken: "mine" } });
    assert.equal(result.content[0].text, "talked");
    const progress = messages.filter(({ method }) => method === "notifications/progress").map(({ params }) => params);
    assert.deepEqual(progress, [1, 2].map((step) => ({ progressToken: "mine", progress: step, total: 2, message: `step ${step}` })));
    const [log] = messages.filter(({ method }) => method === "notifications/message");
    assert.deepEqual(log.params, { level: "error", logger: "up.upstream", data: { said: "hello" } });
  });

  test(`${era}: questions of a server reach the client, and their answers the server`, async () => {
    const upstream = await start({ era });
    const { direct, program } = await organization({ up: upstream });
    const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
    const answers = { form: { action: "accept", content: { colour: "red" } }, url: { action: "accept" }, sampling: { role: "assistant", content: { type: "text", text: "hello" }, model: "m" }, roots: { roots: [{ uri: "file:///r" }] } };
    for (const open of [direct, program]) {
      const session = await open({ capabilities });
      for (const [what, answer] of Object.entries(answers)) {
        const seen = [];
        const onMessage = async (message) => {
          if (message.id === undefined) return;
          seen.push(message.method);
          assert.equal((await session.answer(message.id, answer)).status, 202);
        };
        const got = open === direct
          ? (await session.tool("up__ask", { what }, { onMessage })).structuredContent
          : (await run(session, `return (await tools.up.ask({ what: "${what}" })).data`, { onMessage }));
        assert.deepEqual(got.answer, answer, what);
        assert.equal(seen.length, 1, what);
      }
    }
    // One that declared nothing is not asked: the person is, on the page of a pause (tests/elicitation.test.mjs).
    const silent = await direct();
    const { structuredContent } = await silent.tool("up__ask", { what: "form" });
    assert.deepEqual([structuredContent.status, structuredContent.pending[0].question.message], ["user_approval_required", "Which colour?"]);
  });

  test(`${era}: resources, templates, prompts and completion of several servers do not get mixed up`, async () => {
    const [one, two] = [await start({ era }), await start({ era })];
    const { direct } = await organization({ one_a: one, two });
    const session = await direct();
    assert.ok(session.initialized.capabilities.resources && session.initialized.capabilities.prompts && session.initialized.capabilities.completions);
    const ours = ({ uri, uriTemplate }) => /note/.test(uri ?? uriTemplate);
    const { resources } = (await session.call("resources/list")).result;
    assert.deepEqual(resources.filter(ours).map(({ uri }) => uri), ["one.a+note://one", "one.a+note://two", "one.a+note://three", "two+note://one", "two+note://two", "two+note://three"]);
    const { resourceTemplates } = (await session.call("resources/templates/list")).result;
    assert.deepEqual(resourceTemplates.filter(ours).map(({ uriTemplate }) => uriTemplate), ["one.a+note://{id}", "two+note://{id}"]);
    const before = (await one.calls("resources/read")).length;
    const read = (await session.call("resources/read", { uri: "two+note://two" })).result;
    assert.deepEqual(read.contents, [{ uri: "two+note://two", text: "the note note://two" }]);
    assert.equal((await one.calls("resources/read")).length, before, "the other one was not asked");
    // The conformance suite's fixtures, where they are, have a code of their own.
    for (const uri of ["note://one", "nobody://x", "two+", "three+note://one"]) assert.match(String((await session.call("resources/read", { uri })).error.code), /^-32(602|002)$/, uri);
    assert.equal((await one.calls("resources/read")).length, before, "nothing is tried");
    const { prompts } = (await session.call("prompts/list")).result;
    assert.deepEqual(prompts.map(({ name }) => name).filter((name) => name.endsWith("greet")), ["one_a__greet", "two__greet"]);
    const fresh = await direct();
    assert.equal((await fresh.call("prompts/get", { name: "two__greet", arguments: { who: "Ada" } })).result.messages[0].content.text, "Greet Ada");
    const complete = async (ref) => (await session.call("completion/complete", { ref, argument: { name: "who", value: "A" } })).result.completion.values;
    assert.deepEqual(await complete({ type: "ref/prompt", name: "one_a__greet" }), ["greet:A"]);
    assert.deepEqual(await complete({ type: "ref/resource", uri: "two+note://{id}" }), ["note://{id}:A"]);
  });

  test(`${era}: the trace of a request goes along to the server`, async () => {
    const upstream = await start({ era });
    const { program, direct } = await organization({ up: upstream });
    const trace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "a=1", baggage: "k=v" };
    const seen = async (method) => {
      const { headers } = (await upstream.calls(method)).at(-1);
      return { traceparent: headers.traceparent, tracestate: headers.tracestate, baggage: headers.baggage };
    };
    await run(await program({ headers: trace }), "return (await tools.up.echo({ text: 'x' })).ok");
    assert.deepEqual(await seen("tools/call"), trace);
    const session = await direct({ headers: trace });
    await session.call("resources/read", { uri: "up+note://one" });
    assert.deepEqual(await seen("resources/read"), trace);
    await (await direct()).tool("up__echo", { text: "y" });
    assert.deepEqual(await seen("tools/call"), { traceparent: undefined, tracestate: undefined, baggage: undefined });
  });

  test(`${era}: administrators see how a server was found`, async () => {
    const upstream = await start({ era });
    const { name, program } = await organization({ up: upstream });
    const state = async () => {
      const response = await gateway.fetch("/api/sources", { headers: { authorization: `Bearer ${devToken({ organization: name, roles: ["admin"] })}` } });
      return (await response.json()).items.find(({ slug }) => slug === "up").server;
    };
    const fine = await state();
    assert.deepEqual([fine.state, fine.era, fine.error], ["ok", era === "stateless" ? "stateless" : "2025-11-25", null]);
    await upstream.kill();
    assert.equal((await run(await program(), "return (await tools.up.echo({}))")).ok, false);
    const failing = await waitFor(async () => ((await state()).state === "failing" ? state() : undefined), { what: "the failure to be told" });
    assert.equal(failing.reachedAt, fine.reachedAt);
    assert.ok(failing.error.length > 0 && failing.failedAt >= failing.reachedAt, JSON.stringify(failing));
  });

  test(`${era}: a server that was killed fails alone, and is used again when it is back`, async () => {
    const [dead, alive] = [await start({ era }), await start({ era })];
    // One that comes after the dead one, wherever all are gone through.
    const { program, direct } = await organization({ alive, dead, later: alive });
    const session = await program();
    const CALL = "return [(await tools.dead.echo({ text: 'x' })), (await tools.alive.echo({ text: 'y' })).data]";
    await run(session, CALL);
    await dead.kill();
    const [failed, fine] = await run(session, CALL);
    assert.equal(failed.ok, false);
    assert.match(failed.error.code, /upstream_unreachable|outcome_unknown/);
    assert.deepEqual(fine, { text: "y" });
    const { resources } = (await (await direct()).call("resources/list")).result;
    assert.deepEqual(resources.map(({ uri }) => uri).filter((uri) => /note/.test(uri)), ["alive", "later"].flatMap((slug) => ["one", "two", "three"].map((note) => `${slug}+note://${note}`)));
    const { result, error } = await (await direct()).call("prompts/get", { name: "later__greet", arguments: { who: "Ada" } });
    assert.equal(result?.messages[0].content.text, "Greet Ada", JSON.stringify(error));
    await dead.start();
    await waitFor(async () => (await run(session, "return (await tools.dead.echo({ text: 'back' }))")).ok, { timeout: 20_000, what: "the server to be used again" });
  });
}

test("a session that the server lost, with 404 or 400, is opened anew and the call is sent once more", async () => {
  const upstream = await start();
  const { program } = await organization({ up: upstream });
  const session = await program();
  for (const refuse of [404, 400]) {
    await run(session, "return (await tools.up.echo({})).ok");
    await upstream.set({ refuse });
    assert.equal((await run(session, "return (await tools.up.echo({ text: 'again' }))")).data.text, "again", String(refuse));
  }
  await upstream.set({ refuse: 401 });
  const refused = await run(session, "return (await tools.up.echo({}))");
  assert.equal(refused.ok, false);
  assert.equal(refused.error.status, 401);
});

test("a call whose connection breaks is not sent again; where the server can, its answer is fetched", async () => {
  const upstream = await start();
  const { program, approver } = await organization({ up: upstream });
  const session = await program();
  await upstream.set({ cut: "resumable" });
  assert.equal((await run(session, "return (await tools.up.echo({ text: 'late' }))")).data.text, "late");
  assert.equal((await upstream.calls("GET")).length, 1);
  await upstream.set({ cut: "lost" });
  const paused = await session.tool("execute", { code: "return (await tools.up.count_up({}))" });
  assert.equal(paused.structuredContent.status, "user_approval_required", "it does not say that it only reads");
  assert.equal((await approve(gateway, paused.structuredContent, approver)).status, 200);
  const done = await session.tool("resume", { executionId: paused.structuredContent.executionId });
  assert.equal(done.structuredContent.result.error.code, "outcome_unknown");
  const calls = (await upstream.calls("tools/call")).filter(({ params }) => params.name === "count-up");
  assert.equal(calls.length, 1, "sent once");
});

test("servers that hang, talk nonsense or never end their pages harm only themselves", async () => {
  const [odd, alive] = [await start(), await start()];
  const { name, program } = await organization({ odd, alive });
  const session = await program();
  await odd.set({ garbage: "tools/call" });
  const nonsense = await run(session, "return [await tools.odd.echo({}), (await tools.alive.echo({})).ok]");
  assert.deepEqual([nonsense[0].ok, nonsense[1]], [false, true]);
  await odd.set({ hang: "tools/call" });
  const began = performance.now();
  const hung = await run(session, "const [odd, alive] = await Promise.all([tools.odd.echo({}), tools.alive.echo({})]); return [odd, alive.ok]");
  assert.equal(hung[0].error.code, "outcome_unknown");
  assert.equal(hung[1], true);
  assert.ok(performance.now() - began < 15_000);
  await waitFor(async () => (await odd.calls("notifications/cancelled")).length > 0, { what: "the server to be told that nobody waits" });
  await odd.set({ endless: true });
  assert.ok((await addSource(name, "endless", { kind: "mcp", url: odd.url })).status < 300);
  await odd.set({ garbage: "tools/list" });
  assert.ok((await addSource(name, "nonsense", { kind: "mcp", url: odd.url })).status >= 400);
});

test("a server that is not trusted cannot talk itself past the person", async () => {
  const upstream = await start();
  const { program, direct, approver } = await organization({ up: upstream }, { trusted: false });
  const before = (await upstream.calls("tools/call")).length;
  const paused = await (await program()).tool("execute", { code: "return (await tools.up.echo({ text: 'x' }))" });
  assert.equal(paused.structuredContent.status, "user_approval_required");
  assert.equal((await upstream.calls("tools/call")).length, before);
  const session = await direct();
  const waiting = await session.tool("up__talk");
  assert.equal(waiting.structuredContent.status, "user_approval_required");
  assert.equal((await approve(gateway, waiting.structuredContent, approver)).status, 200);
  const done = await session.tool("resume", { executionId: waiting.structuredContent.executionId });
  assert.deepEqual(done, { content: [{ type: "text", text: "talked" }] }, "the server's own result");
});

test("the client's cancellation reaches the server", async () => {
  const upstream = await start();
  const { direct } = await organization({ up: upstream });
  const session = await direct();
  await session.tool("up__echo", { text: "x" });
  await upstream.set({ hang: "tools/call" });
  const before = (await upstream.calls("tools/call")).length;
  const call = session.call("tools/call", { name: "up__echo", arguments: {} }, { id: "gone" });
  await waitFor(async () => (await upstream.calls("tools/call")).length > before, { what: "the call to arrive" });
  await session.notify("notifications/cancelled", { requestId: "gone" });
  assert.equal((await call).result, undefined);
  const [told] = await waitFor(async () => {
    const found = await upstream.calls("notifications/cancelled");
    return found.length > 0 && found;
  }, { what: "the server to be told" });
  const sent = (await upstream.calls("tools/call")).at(-1);
  assert.ok(sent && Number.isInteger(told.params.requestId), "its own id, not the client's");
});

test("a session ends its sessions with servers", async () => {
  const upstream = await start();
  const { direct } = await organization({ up: upstream });
  const session = await direct();
  await session.tool("up__echo", { text: "x" });
  assert.equal(await upstream.sessions(), 1);
  await session.del();
  await waitFor(async () => (await upstream.sessions()) === 0, { what: "the server's session to be ended" });
});

test("a header that a tool wants under another name is found, and the call is sent once more", async () => {
  const upstream = await start({ era: "stateless" });
  const { name, program, approver } = await organization({ up: upstream });
  const session = await program();
  await upstream.set({ header: "Zone" });
  const calls = async () => (await upstream.calls("tools/call")).filter(({ params }) => params.name === "region");
  const found = await run(session, "return (await tools.up.region({ region: 'north' }))");
  assert.equal(found.data.args.region, "north", JSON.stringify(found));
  assert.deepEqual((await calls()).map(({ headers }) => [headers["mcp-param-region"], headers["mcp-param-zone"]]), [["north", undefined], [undefined, "north"]]);

  const policies = await gateway.fetch("/api/policies", {
    method: "PUT",
    headers: { authorization: `Bearer ${devToken({ organization: name, roles: ["admin"] })}`, "content-type": "application/json" },
    body: JSON.stringify([{ pattern: "up.region", action: "approve" }]),
  });
  assert.equal(policies.status, 200);
  const approved = async () => {
    const paused = await session.tool("execute", { code: "return (await tools.up.region({ region: 'south' }))" });
    assert.equal(paused.structuredContent.status, "user_approval_required");
    assert.equal((await approve(gateway, paused.structuredContent, approver)).status, 200);
    return (await session.tool("resume", { executionId: paused.structuredContent.executionId })).structuredContent.result;
  };
  await waitFor(async () => (await approved()).ok, { what: "the new description to be read" });
  await upstream.set({ header: "Area" });
  const before = (await calls()).length;
  const refused = await approved();
  assert.deepEqual([refused.ok, refused.error.retryable], [false, true], JSON.stringify(refused));
  assert.equal((await calls()).length, before + 1, "what a person approved as it was is not sent as it is now");
});

test("a version that a server does not speak any more is asked for anew, once", async () => {
  const upstream = await start({ era: "stateless" });
  const { program } = await organization({ up: upstream });
  const session = await program();
  await run(session, "return (await tools.up.echo({})).ok");
  await upstream.set({ otherVersion: 1 });
  assert.equal((await run(session, "return (await tools.up.echo({ text: 'again' }))")).data.text, "again");
  await upstream.set({ otherVersion: 9 });
  const refused = await run(session, "return (await tools.up.echo({}))");
  assert.deepEqual([refused.ok, refused.error.details.code], [false, -32022]);
});
