// Stops: after the answer nothing new is sent, what waits stays, and what was approved is not lost.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { adminApi, approve, devToken, openSession, shownPause, startGateway, startUpstream, waitFor } from "./harness/index.mjs";
import { startBackend } from "./harness/backend.mjs";

let gateway;
let backend;
before(async () => {
  backend = await startBackend();
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "4000", ALLOW_LOCAL_NETWORK: "true" } });
});
after(async () => {
  await gateway.stop();
  await backend.stop();
});

let organizations = 0;
async function scene() {
  const organization = `stops${(organizations += 1)}`;
  const admin = devToken({ organization, account: "root", roles: ["admin"] });
  const api = adminApi(gateway, admin);
  const open = (account = "ada", query = {}) => openSession(gateway, { token: devToken({ organization, account }), query });
  const session = await open();
  const tool = async (name, args) => (await session.tool(name, args)).structuredContent;
  const operation = (operationId) => ({ operationId, summary: operationId, responses: { 200: { description: "ok" } } });
  return {
    organization,
    admin,
    api,
    open,
    approver: { token: devToken({ organization, roles: ["approver"] }) },
    execute: (code) => tool("execute", { code }),
    resume: (pause) => tool("resume", { executionId: pause.executionId }),
    deletes: async () => (await (await gateway.fetch("/demo/calls", { headers: { authorization: `Bearer ${admin}` } })).json()).deleteItem,
    addPets: async () => {
      const spec = { openapi: "3.0.3", info: { title: "Pets", version: "1" }, servers: [{ url: backend.url }], paths: { "/pets": { get: operation("listPets"), post: operation("createPet") } } };
      assert.ok((await api("PUT", "sources/pets", { kind: "openapi", spec })).status < 300);
    },
  };
}

const READ = "return await tools.demo.listItems({})";
const DELETE = "return await tools.demo.deleteItem({ id: 'item-3' })";

test("a stop of the organization ends reads and writes with a reason, and its removal lets them go on", async () => {
  const { api, execute, open } = await scene();
  assert.equal((await execute(READ)).result.ok, true);
  const direct = await open("ada", { tool_mode: "direct" });
  assert.equal((await direct.tool("demo__listItems")).isError ?? false, false);
  const put = await api("PUT", "stops/organization", { reason: "we are under attack" });
  assert.deepEqual([put.status, put.body.scope, put.body.reason, put.body.by], [201, "organization", "we are under attack", "root"]);
  // The same sessions had looked the tool up moments before.
  const { error } = (await execute(READ)).result;
  assert.deepEqual([error.code, error.reason], ["stopped", "we are under attack"]);
  assert.match(error.message, /stopped for the whole organization by an administrator: we are under attack. The call was not sent/);
  const refused = await direct.tool("demo__listItems");
  assert.equal(refused.isError, true);
  assert.match(refused.content[0].text, /under attack/);
  assert.equal((await execute('return await tools.search({ query: "item" })')).result.ok, true, "looking around sends nothing");
  assert.deepEqual((await api("GET", "stops")).body.items.map(({ scope, by }) => [scope, by]), [["organization", "root"]]);
  assert.equal((await api("DELETE", "stops/organization")).status, 200);
  await waitFor(async () => (await execute(READ)).result.ok);
  const actions = (await api("GET", "audit")).body.items.map(({ action, by, target }) => [action, by, target]);
  for (const action of ["stop.put", "stop.delete"]) assert.ok(actions.some((entry) => entry.join() === `${action},root,organization`), JSON.stringify(actions));
});

test("an approved call that meets a stop is not sent, waits again, and is sent after another approval", async () => {
  const { api, execute, resume, deletes, approver } = await scene();
  const pause = await execute(DELETE);
  await api("PUT", "stops/source:demo", { reason: "freeze" });
  assert.equal((await api("GET", "approvals")).body.items.length, 1, "what waits stays");
  assert.equal((await approve(gateway, pause, approver)).status, 200);
  const again = await waitFor(async () => {
    const outcome = await resume(pause);
    return outcome.status === "user_approval_required" && outcome;
  });
  assert.equal(again.executionId, pause.executionId);
  assert.equal(await deletes(), 0);
  const shown = await waitFor(async () => {
    const shown = await shownPause(gateway, pause, approver);
    return shown.structured.items[0] && shown;
  });
  assert.match(JSON.stringify(shown.structured), /sending was stopped when this was asked \(Sending to the source demo is stopped by an administrator: freeze\)/);
  await api("DELETE", "stops/source:demo");
  assert.equal((await resume(pause)).status, "user_approval_required", "the removal of a stop sends nothing");
  assert.equal(await deletes(), 0);
  await approve(gateway, pause, approver);
  await waitFor(async () => (await resume(pause)).status === "completed");
  assert.equal(await deletes(), 1);
  const actions = await waitFor(async () => {
    const actions = (await api("GET", "audit")).body.items.map(({ action }) => action).reverse();
    return actions.includes("call.outcome") && actions;
  });
  assert.deepEqual(actions.filter((action) => action.startsWith("call.")), ["call.approved", "call.held", "call.approved", "call.outcome"]);
});

test("what is asked about during a stop waits as ever", async () => {
  const { api, execute, deletes } = await scene();
  await api("PUT", "stops/organization", {});
  assert.equal((await execute(DELETE)).status, "user_approval_required");
  assert.equal(await deletes(), 0);
});

test("a stop is of its source and of its account only", async () => {
  const { api, execute, open, addPets } = await scene();
  await addPets();
  const both = "return [(await tools.demo.listItems({})).ok, (await tools.pets.listPets({})).ok]";
  assert.deepEqual((await execute(both)).result, [true, true]);
  await api("PUT", "stops/source:pets", { reason: "x" });
  backend.take();
  assert.deepEqual((await execute(both)).result, [true, false]);
  assert.deepEqual(backend.take(), []);
  await api("DELETE", "stops/source:pets");
  await api("PUT", `stops/${encodeURIComponent("account:ada")}`, { reason: "gone rogue" });
  assert.deepEqual((await execute(both)).result, [false, false]);
  const bob = await open("bob");
  assert.deepEqual((await bob.tool("execute", { code: both })).structuredContent.result, [true, true]);
});

test("a program in a loop of writes sends nothing more once the stop is there", async () => {
  const { api, execute, addPets } = await scene();
  await addPets();
  await api("PUT", "policies", { policies: [{ pattern: "pets.**", action: "allow" }] });
  backend.take();
  const running = execute("let sent = 0; for (;;) { const { ok, error } = await tools.pets.createPet({}); if (!ok) return [sent, error.code]; sent += 1; }");
  await waitFor(() => backend.seen.length > 3);
  const stopping = api("PUT", "stops/source:pets", {});
  const [sent, code] = (await running).result;
  assert.equal(code, "stopped");
  assert.equal(backend.seen.length, sent);
  await stopping;
  assert.equal(backend.seen.length, sent);
});

test("resources and prompts of an MCP server are not asked for during a stop", async (t) => {
  const { api, open } = await scene();
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  assert.ok((await api("PUT", "sources/docs", { kind: "mcp", url: upstream.url, trusted: true })).status < 300);
  const session = await open("ada", { tool_mode: "direct" });
  const { resources } = (await session.call("resources/list")).result;
  const { prompts } = (await session.call("prompts/list")).result;
  const read = () => session.call("resources/read", { uri: resources[0].uri });
  const get = () => session.call("prompts/get", { name: prompts[0].name, arguments: {} });
  assert.ok((await read()).result);
  await api("PUT", "stops/source:docs", { reason: "leak" });
  const before = (await upstream.calls()).length;
  for (const ask of [read, get]) assert.match((await ask()).error.message, /Sending to the source docs is stopped by an administrator: leak/);
  assert.deepEqual((await session.call("resources/list")).result.resources, []);
  const { name } = (await session.call("tools/list")).result.tools.find((tool) => tool.name.startsWith("docs__"));
  assert.equal((await session.tool(name, {})).isError, true);
  assert.equal((await upstream.calls()).length, before, "the server hears nothing");
  await api("DELETE", "stops/source:docs");
  await waitFor(async () => (await read()).result);
});

test("a stop is an administrator's, and its scope has to be there", async () => {
  const { api, organization } = await scene();
  for (const token of [devToken({ organization }), devToken({ organization, roles: ["approver"] })]) {
    for (const [method, path] of [["GET", "stops"], ["PUT", "stops/organization"], ["DELETE", "stops/organization"]]) {
      assert.equal((await api(method, path, method === "PUT" ? {} : undefined, token)).status, 403);
    }
  }
  for (const [path, body, status] of [["stops/everything", {}, 400], ["stops/source:nobody", {}, 404], ["stops/organization", { until: "x" }, 400], ["stops/organization", { reason: "x".repeat(501) }, 400]]) {
    assert.equal((await api("PUT", path, body)).status, status, path);
  }
  assert.deepEqual([(await api("DELETE", "stops/organization")).status, (await api("POST", "stops/organization", {})).status], [404, 405]);
  assert.deepEqual((await api("GET", "stops")).body.items, []);
});
