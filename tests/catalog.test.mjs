// The catalog from outside: sources, policies and toolkits are written through /api, and real MCP sessions see what becomes of it.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { QUESTIONS, documents } from "./fixtures/catalog.mjs";
import { approve, devToken, openSession, shownPause, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
let backend;
before(async () => {
  backend = await startBackend();
  gateway = await startGateway({
    vars: { DEFAULT_TOOL_MODE: "code", ALLOW_LOCAL_NETWORK: "true", RESUME_WAIT_MS: "5000", COUNTERSIGN_SECRET_KEY: "0a1b2c3d4e5f6g7h8i9jKLMNOPQRSTUVWXYZ-+=/" },
  });
});
after(async () => {
  await gateway.stop();
  backend.close();
});

/** An API that answers with what it got, and documents that can be changed. */
async function startBackend() {
  const state = { documents: {}, requests: [] };
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://x");
    const document = state.documents[url.pathname];
    if (url.pathname === "/moved") return response.writeHead(302, { location: "/petstore.json" }).end();
    if (document !== undefined) return response.writeHead(200, { "content-type": "application/json" }).end(typeof document === "string" ? document : JSON.stringify(document));
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      state.requests.push({ method: request.method, url: request.url, headers: request.headers, body });
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ method: request.method, url: request.url, body }));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  return { url, state, close: () => server.close() };
}

const operation = (operationId, extra = {}) => ({ operationId, summary: operationId, responses: { 200: { description: "ok" } }, ...extra });
const petstore = (paths = {}) => ({
  openapi: "3.0.3",
  info: { title: "Pet store", version: "1" },
  servers: [{ url: backend.url }],
  paths: {
    "/pets": { get: operation("listPets"), post: operation("createPet", { requestBody: { content: { "application/json": { schema: { type: "object", properties: { name: { type: "string" } } } } } } }) },
    "/pets/{id}": {
      parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }],
      get: operation("getPet"),
      delete: operation("deletePet"),
    },
    ...paths,
  },
});

let organizations = 0;
/** An organization of its own: its administrator's requests, and sessions of one of its accounts. */
function organization() {
  const name = `catalog${(organizations += 1)}`;
  const admin = devToken({ organization: name, account: "root", roles: ["admin"] });
  const api = async (method, path, body, headers = {}) => {
    const response = await fetch(new URL(`/api/${path}`, gateway.url), {
      method,
      headers: { authorization: `Bearer ${admin}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text), text };
  };
  return {
    name,
    admin,
    api,
    open: (options = {}) => openSession(gateway, { token: devToken({ organization: name }), ...options }),
    direct: (options = {}) => openSession(gateway, { token: devToken({ organization: name }), query: { tool_mode: "direct" }, ...options }),
  };
}
const ok = async (promise) => {
  const answer = await promise;
  assert.ok(answer.status < 300, `${answer.status} ${answer.text}`);
  return answer.body;
};
const run = async (session, code) => {
  const result = await session.tool("execute", { code });
  assert.equal(result.structuredContent.status, "completed", JSON.stringify(result.structuredContent));
  return result.structuredContent.result;
};
/** The names of the catalog's tools; a bundle with the conformance suite's fixtures has those as well. */
const names = async (session) => (await session.call("tools/list")).result.tools.map((tool) => tool.name).filter((name) => !/^(test_\w+|echo|json_schema_2020_12_tool)$/.test(name));

test("a source is added, and its tools are called by programs and one by one", async () => {
  const { api, open, direct } = organization();
  const added = await api("PUT", "sources/pets", { kind: "openapi", spec: petstore() });
  assert.equal(added.status, 201, added.text);
  assert.equal(added.body.tools, 4);
  assert.deepEqual(added.body.origins, [backend.url]);
  assert.deepEqual(added.body.unconfirmedOrigins, [], "there is no credential that could go anywhere");
  assert.equal(added.body.report.counts.added, 4);
  const session = await open();
  const answer = await run(session, 'return await tools.pets.getPet({ id: "a/b" });');
  assert.equal(answer.ok, true, JSON.stringify(answer));
  assert.equal(answer.data.url, "/pets/a%2Fb");
  const found = await run(session, 'return (await tools.search({ query: "remove a pet" })).data.items[0].address;');
  assert.equal(found, "pets.deletePet");
  const one = await direct();
  assert.ok((await names(one)).includes("pets__listPets"));
  const got = await one.tool("pets__getPet", { id: "7" });
  assert.equal(got.structuredContent.url, "/pets/7");
  const waits = await one.tool("pets__deletePet", { id: "7" });
  assert.match(waits.content[0].text, /resume/);
});

test("YAML, a document's URL and a redirect to it", async () => {
  const { api } = organization();
  const yaml = `openapi: 3.1.0\ninfo: {title: Yaml, version: "1"}\nservers: [{url: "${backend.url}"}]\npaths:\n  /x:\n    get: {operationId: getX, responses: {"200": {description: ok}}}\n`;
  assert.equal((await ok(api("PUT", "sources/yaml", { kind: "openapi", spec: yaml }))).tools, 1);
  backend.state.documents["/petstore.json"] = petstore();
  assert.equal((await ok(api("PUT", "sources/by-url", { kind: "openapi", specUrl: `${backend.url}/moved` }))).tools, 4);
});

test("a policy reaches sessions that are open, and says which rule it was", async () => {
  const { api, open } = organization();
  await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore() }));
  const session = await open();
  const call = 'return await tools.pets.deletePet({ id: "1" });';
  const waits = await session.tool("execute", { code: call });
  assert.equal(waits.structuredContent.status, "user_approval_required");
  await ok(api("PUT", "policies", { policies: [{ pattern: "pets.deletePet", action: "allow" }, { pattern: "pets.**", action: "block", note: "not yet" }] }));
  await waitFor(async () => (await session.tool("execute", { code: call })).structuredContent.status === "completed", { timeout: 6_000 });
  const blocked = await run(session, "return await tools.pets.listPets({});");
  assert.equal(blocked.error.code, "tool_blocked");
  assert.match(blocked.error.message, /rule 2 of the organization \(pets\.\*\*\): not yet/);
  const tool = await ok(api("GET", "tools/pets.listPets"));
  assert.deepEqual(tool.policy, { action: "block", reason: "rule 2 of the organization (pets.**): not yet" });
  assert.equal((await ok(api("GET", "policies"))).policies.length, 2);
});

test("whoever has a stream hears of a change", async () => {
  const { api, direct } = organization();
  const session = await direct();
  const stop = new AbortController();
  // The answer comes when the session is noted as one that is to be told.
  const stream = await session.request("GET", { headers: { accept: "text/event-stream" }, signal: stop.signal });
  assert.equal(stream.status, 200);
  await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore() }));
  let heard = "";
  for await (const chunk of stream.body.pipeThrough(new TextDecoderStream())) {
    heard += chunk;
    if (heard.includes("notifications/tools/list_changed")) break;
  }
  stop.abort();
  assert.match(heard, /list_changed/);
  assert.ok((await names(session)).includes("pets__listPets"), "nobody has to wait for what is remembered to grow old");
});

test("a source that is read again keeps its addresses and says what changed", async () => {
  const { api, open } = organization();
  backend.state.documents["/again.json"] = petstore();
  await ok(api("PUT", "sources/again", { kind: "openapi", specUrl: `${backend.url}/again.json` }));
  const changed = petstore({ "/pets/{id}/photo": { get: operation("getPhoto", { parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }] }) } });
  delete changed.paths["/pets"].post;
  changed.paths["/pets"].get.operationId = "enumeratePets";
  changed.paths["/pets/{id}"].get.summary = "Another text";
  backend.state.documents["/again.json"] = changed;
  const session = await open();
  const { report, tools } = await ok(api("POST", "sources/again/refresh"));
  assert.equal(tools, 4);
  assert.deepEqual([report.counts.added, report.counts.removed, report.counts.changed], [1, 1, 1], JSON.stringify(report));
  assert.equal(report.entries.find((entry) => entry.action === "removed").what, "again.createPet");
  assert.equal(report.counts.renamed, 1, "the operation has another id, the tool has its name still");
  assert.equal((await run(session, "return await tools.again.listPets({});")).ok, true);
  assert.equal((await run(session, "return await tools.again.createPet({});")).error.code, "tool_not_found");

  backend.state.documents["/again.json"] = "{ this is no document";
  const failed = await api("POST", "sources/again/refresh");
  assert.equal(failed.status, 422, failed.text);
  assert.match(failed.body.error.message, /^specUrl /);
  assert.equal((await run(session, "return await tools.again.listPets({});")).ok, true, "what fails leaves the source as it was");
  assert.equal((await ok(api("GET", "sources/again"))).report.counts.added, 1);

  await ok(api("DELETE", "sources/again"));
  assert.equal((await api("GET", "sources/again")).status, 404);
  await waitFor(async () => (await run(session, "return await tools.again.listPets({});")).error?.code === "tool_not_found", { timeout: 6_000 });
});

test("a credential goes nowhere that nobody confirmed, and is never shown", async () => {
  const { api, open } = organization();
  const secret = "s3cr3t-token-value";
  const auth = { kind: "bearer", token: secret };
  const put = await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore(), auth }));
  assert.deepEqual(put.unconfirmedOrigins, [backend.url]);
  const session = await open();
  const refused = await run(session, "return await tools.pets.listPets({});");
  assert.equal(refused.error.code, "origin_not_confirmed");
  const wrong = await api("POST", "sources/pets/confirm", { origins: ["https://other.example"] });
  assert.equal(wrong.status, 400);
  assert.match(wrong.body.error.message, /^origins/);
  await ok(api("POST", "sources/pets/confirm", { origins: [backend.url] }));
  await waitFor(async () => (await run(session, "return await tools.pets.listPets({});")).error?.code !== "origin_not_confirmed", { timeout: 6_000 });
  const shown = await ok(api("GET", "sources/pets"));
  assert.deepEqual(shown.auth, { kind: "bearer", version: 1 });
  // Left out it stays; a base that is typed is confirmed; null takes it away.
  const kept = await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore(), baseUrl: `${backend.url}/v2` }));
  assert.deepEqual(kept.unconfirmedOrigins, []);
  assert.deepEqual((await ok(api("GET", "sources/pets"))).auth, { kind: "bearer", version: 1 });
  const all = [await api("GET", "sources"), await api("GET", "sources/pets"), await api("GET", "audit"), await api("GET", "tools?source=pets")];
  for (const { text } of all) assert.ok(!text.includes(secret), text);
  await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore(), auth: null }));
  assert.equal((await ok(api("GET", "sources/pets"))).auth, null);
});

test("a toolkit has what it includes and nothing else", async () => {
  const { api, open, direct, name } = organization();
  await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore() }));
  const unknown = await direct({ path: "/mcp/toolkits/support" }).catch((error) => error);
  assert.match(String(unknown), /404.*no toolkit support/);
  const put = await api("PUT", "toolkits/support", { title: "Support", include: ["pets.getPet", "pets.deletePet", "demo.listItems"], policies: [{ pattern: "pets.deletePet", action: "block" }] });
  assert.equal(put.status, 201, put.text);
  assert.equal(put.body.tools, 3);
  const session = await open({ path: "/mcp/toolkits/support" });
  assert.equal((await run(session, "return await tools.pets.listPets({});")).error.code, "tool_not_found");
  assert.equal((await run(session, 'return await tools.pets.getPet({ id: "1" });')).ok, true);
  assert.equal((await run(session, 'return await tools.pets.deletePet({ id: "1" });')).error.code, "tool_blocked");
  const hits = await run(session, 'return (await tools.search({ query: "pet" })).data.items.map((item) => item.address);');
  assert.deepEqual(hits.sort(), ["pets.deletePet", "pets.getPet"]);
  assert.match(JSON.stringify(await run(session, 'return await tools.describe({ address: "pets.listPets" });')), /There is no tool/);
  assert.deepEqual(await run(session, "return (await tools.sources.list()).data.items.map((item) => [item.slug, item.tools]);"), [["demo", 1], ["pets", 2]]);
  const one = await direct({ path: "/mcp/toolkits/support" });
  assert.deepEqual(await names(one), ["resume", "demo__listItems", "pets__getPet"], "what is blocked is not offered");
  assert.equal((await one.call("tools/call", { name: "pets__listPets", arguments: {} })).error.code, -32602);

  await ok(api("PUT", "toolkits/pets-only", { include: ["pets.**"] }));
  const own = await direct({ path: "/mcp/toolkits/pets-only" });
  assert.deepEqual(await names(own), ["resume", "createPet", "deletePet", "getPet", "listPets"]);
  assert.equal((await own.tool("getPet", { id: "5" })).structuredContent.url, "/pets/5");
  // What is added to the source later is there as well.
  await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore({ "/owners": { get: operation("listOwners") } }) }));
  await waitFor(async () => (await names(own)).includes("listOwners"), { timeout: 6_000 });

  await ok(api("DELETE", "toolkits/pets-only"));
  await waitFor(async () => (await names(own)).length === 1, { timeout: 6_000 });
  assert.equal((await own.call("tools/call", { name: "getPet", arguments: { id: "5" } })).error.code, -32602);
  assert.deepEqual((await ok(api("GET", "toolkits"))).items.map((toolkit) => toolkit.slug), ["support"]);
  // An id of another session does not get around it.
  const stale = await fetch(new URL("/mcp/toolkits/pets-only", gateway.url), {
    method: "POST",
    headers: { authorization: `Bearer ${devToken({ organization: name })}`, "content-type": "application/json", accept: "application/json", "mcp-session-id": own.id },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } } }),
  });
  assert.equal(stale.status, 404);
});

test("what is wrong with a request is said, and names the field", async () => {
  const { api } = organization();
  await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore() }));
  for (const [method, path, body, status, message] of [
    ["PUT", "sources/Pets", { kind: "openapi", spec: petstore() }, 400, /^slug/],
    ["PUT", "sources/search", { kind: "openapi", spec: petstore() }, 400, /^slug/],
    ["PUT", "sources/demo", { kind: "openapi", spec: petstore() }, 409, /^slug demo/],
    ["DELETE", "sources/countersign", undefined, 409, /^slug countersign/],
    ["PUT", "sources/x", "{", 400, /^The body/],
    ["PUT", "sources/x", [], 400, /^The body/],
    ["PUT", "sources/x", {}, 400, /^kind/],
    ["PUT", "sources/x", { kind: "soap" }, 400, /^kind/],
    ["PUT", "sources/x", { kind: "openapi" }, 400, /^spec/],
    ["PUT", "sources/x", { kind: "openapi", spec: 7 }, 400, /^spec/],
    ["PUT", "sources/x", { kind: "openapi", spec: {} }, 422, /^spec/],
    ["PUT", "sources/x", { kind: "openapi", spec: "nonsense: [" }, 422, /^spec/],
    ["PUT", "sources/x", { kind: "openapi", spec: petstore(), specUrl: "https://a.example/" }, 400, /^specUrl/],
    ["PUT", "sources/x", { kind: "openapi", specUrl: "file:///etc/passwd" }, 400, /^specUrl/],
    ["PUT", "sources/x", { kind: "openapi", spec: petstore(), baseUrl: "example.com" }, 400, /^baseUrl/],
    ["PUT", "sources/x", { kind: "openapi", spec: petstore(), baseUrl: "https://u:p@example.com" }, 400, /^baseUrl/],
    ["PUT", "sources/x", { kind: "openapi", spec: petstore(), trusted: "yes" }, 400, /^trusted/],
    ["PUT", "sources/x", { kind: "openapi", spec: petstore(), base: "x" }, 400, /^base is not a field/],
    ["PUT", "sources/x", { kind: "openapi", spec: petstore(), confirmedOrigins: ["https://a.example/path"] }, 400, /^confirmedOrigins\[0\]/],
    ["PUT", "sources/x", { kind: "openapi", spec: petstore(), auth: { kind: "magic" } }, 400, /^auth/],
    ["PUT", "sources/x", { kind: "mcp" }, 400, /^url/],
    ["PUT", "sources/x", { kind: "mcp", url: `${backend.url}/nothing` }, 502, /^url/],
    ["POST", "sources/pets/refresh", undefined, 409, /given as text/],
    ["POST", "sources/none/refresh", undefined, 404, /none/],
    ["POST", "sources/pets", {}, 405, /GET, PUT, DELETE/],
    ["GET", "sources/none", undefined, 404, /none/],
    ["GET", "sources?cursor=x", undefined, 400, /^cursor/],
    ["GET", "sources?limit=0", undefined, 400, /^limit/],
    ["GET", "tools?limit=many", undefined, 400, /^limit/],
    ["GET", "tools/none.none", undefined, 404, /none\.none/],
    ["PUT", "policies", { policies: [{ pattern: "a..b", action: "allow" }] }, 400, /^policies\[0\]\.pattern/],
    ["PUT", "policies", { policies: [{ pattern: "a.b", action: "maybe" }] }, 400, /^policies\[0\]\.action/],
    ["PUT", "policies", { policies: [{ pattern: "a.b", action: "allow", extra: 1 }] }, 400, /^policies\[0\]\.extra/],
    ["PUT", "policies", { rules: [] }, 400, /^rules/],
    ["DELETE", "policies", undefined, 405, /GET, PUT/],
    ["PUT", "toolkits/x", { include: [] }, 400, /^include/],
    ["PUT", "toolkits/x", { include: ["a", 7] }, 400, /^include\[1\]/],
    ["PUT", "toolkits/default", { include: ["a.b"] }, 400, /^slug/],
    ["GET", "toolkits/none", undefined, 404, /none/],
    ["GET", "nothing", undefined, 404, /./],
  ]) {
    const answer = await api(method, path, body);
    assert.equal(answer.status, status, `${method} ${path} ${JSON.stringify(body)?.slice(0, 80)}: ${answer.text}`);
    assert.match(answer.headers.get("content-type"), /^application\/json/);
    assert.match(answer.body.error.message, message);
    if (status === 405) assert.ok(answer.headers.get("allow"), "Allow");
  }
  assert.equal((await api("PUT", "policies", "policies=[]", { "content-type": "text/plain" })).status, 415);
  const large = await api("PUT", "policies", JSON.stringify({ policies: [], pad: "x".repeat(2 << 20) }));
  assert.equal(large.status, 413);
  assert.match(large.body.error.message, /1048576/);
});

test("only administrators administer, and no foreign page does", async () => {
  const { api, name } = organization();
  const get = (headers) => fetch(new URL("/api/sources", gateway.url), { headers });
  const as = (options) => get({ authorization: `Bearer ${devToken({ organization: name, ...options })}` });
  assert.equal((await as({})).status, 403);
  assert.equal((await as({ roles: ["approver"] })).status, 403);
  assert.equal((await as({ roles: ["admin"] })).status, 200);
  assert.equal((await get({ authorization: "Bearer nonsense" })).status, 401);
  assert.equal((await api("GET", "sources", undefined, { origin: "https://evil.example" })).status, 403);
  const cookie = `countersign-dev=ann@${name}`;
  const put = (headers) => fetch(new URL("/api/policies", gateway.url), { method: "PUT", headers: { "content-type": "application/json", ...headers }, body: '{"policies":[]}' });
  assert.equal((await get({ cookie })).status, 200);
  assert.equal((await put({ cookie })).status, 403, "a change needs the page's own origin");
  assert.equal((await put({ cookie, origin: "https://evil.example" })).status, 403);
  assert.equal((await put({ cookie, origin: new URL(gateway.url).origin })).status, 200);
  const audit = await ok(api("GET", "audit"));
  assert.deepEqual(audit.items.map((entry) => [entry.by, entry.action]), [["ann", "policies.put"]]);
});

test("lists are paged", async () => {
  const { api } = organization();
  for (const slug of ["a1", "a2", "a3"]) {
    await ok(api("PUT", `sources/${slug}`, { kind: "openapi", spec: petstore() }));
    await ok(api("PUT", `toolkits/${slug}`, { include: [`${slug}.**`] }));
  }
  const all = async (path, key) => {
    const seen = [];
    let cursor;
    do {
      const page = await ok(api("GET", `${path}limit=2${cursor ? `&cursor=${cursor}` : ""}`));
      assert.ok(page.items.length <= 2);
      seen.push(...page.items.map((item) => item[key]));
      cursor = page.nextCursor;
    } while (cursor);
    return seen;
  };
  assert.deepEqual(await all("sources?", "slug"), ["a1", "a2", "a3", "countersign", "demo"]);
  assert.deepEqual(await all("toolkits?", "slug"), ["a1", "a2", "a3"]);
  const tools = await all("tools?source=a2&", "address");
  assert.deepEqual(tools, ["a2.createPet", "a2.deletePet", "a2.getPet", "a2.listPets"]);
  const audit = await all("audit?", "id");
  assert.equal(audit.length, 6);
  assert.deepEqual(audit, [...audit].sort((one, other) => other - one));
});

test("the administration is a source of tools whose writes wait, for administrators only", async () => {
  const { api, open, admin, name } = organization();
  const document = await (await fetch(new URL("/api/openapi.json", gateway.url))).json();
  assert.equal(document.openapi, "3.1.0");
  const session = await open({ token: admin });
  const hits = await run(session, 'return (await tools.search({ query: "policies", source: "countersign" })).data.items;');
  assert.deepEqual(hits.slice(0, 2).map((hit) => [hit.address, hit.approval]).sort(), [["countersign.policies.get", false], ["countersign.policies.put", true]]);
  const found = (await ok(api("GET", "tools?source=countersign&limit=200"))).items.map((tool) => tool.address);
  assert.ok(!found.some((address) => /approvals|keys/.test(address)), found.join());
  assert.equal((await run(session, "return await tools.countersign.sources.list({});")).data.items.length, 2);
  // No rule lets an agent change its own rules.
  await ok(api("PUT", "policies", { policies: [{ pattern: "**", action: "allow" }] }));
  const code = 'return await tools.countersign.policies.put({ policies: [{ pattern: "demo.**", action: "block" }] });';
  const waits = await session.tool("execute", { code });
  assert.equal(waits.structuredContent.status, "user_approval_required", JSON.stringify(waits.structuredContent));
  await approve(gateway, waits.structuredContent, { token: devToken({ organization: name, account: "root", roles: ["approver"] }) });
  const done = await session.tool("resume", { executionId: waits.structuredContent.executionId });
  assert.equal(done.structuredContent.result?.ok, true, JSON.stringify(done.structuredContent));
  assert.equal((await ok(api("GET", "policies"))).policies[0].pattern, "demo.**");
  const secret = await session.tool("execute", { code: 'return await tools.countersign.sources.put({ slug: "x", kind: "openapi", spec: {}, auth: { kind: "bearer", token: "t" } });' });
  assert.equal(secret.structuredContent.result?.error.code, "invalid_tool_arguments", JSON.stringify(secret.structuredContent));
  const plain = await open();
  const refused = await run(plain, "return await tools.countersign.sources.list({});");
  assert.equal(refused.error.code, "forbidden");
});

test("a catalog of 5 000 tools: the right tool is among the first five, and soon", async () => {
  const { api, direct } = organization();
  let tools = 0;
  for (const [slug, spec] of Object.entries(documents())) tools += (await ok(api("PUT", `sources/${slug}`, { kind: "openapi", spec }))).tools;
  assert.ok(tools >= 5_000, String(tools));
  const missed = [];
  const times = [];
  for (const [question, source, title] of QUESTIONS) {
    const started = performance.now();
    const { items } = await ok(api("GET", `tools?limit=5&query=${encodeURIComponent(question)}`));
    times.push(performance.now() - started);
    if (!items.some((tool) => tool.address.startsWith(`${source}.`) && tool.title.startsWith(title))) missed.push(`${question} → ${items.map((tool) => tool.address).join(", ")}`);
  }
  times.sort((one, other) => one - other);
  console.log(`# ${30 - missed.length} of 30; ${times[15].toFixed(1)} ms in the middle, ${times[27].toFixed(1)} ms at nine tenths, with HTTP`);
  if (missed.length > 0) console.log(missed.map((line) => `# ${line}`).join("\n"));
  assert.ok(missed.length <= 3, missed.join("\n"));
  // Direct mode pages through all of it.
  const session = await direct();
  let cursor;
  let listed = 0;
  do {
    const { result } = await session.call("tools/list", cursor ? { cursor } : {});
    listed += result.tools.length;
    cursor = result.nextCursor;
  } while (cursor);
  assert.ok(listed > tools, String(listed));
});

test("a document of twenty megabytes is imported, one that is too large is refused with its size", async () => {
  const { api } = organization();
  const filler = "x".repeat(4_000);
  const spec = petstore();
  for (let number = 0; number < 4_900; number += 1) {
    spec.paths[`/things/${number}`] = { get: operation(`getThing${number}`, { description: filler }) };
  }
  const body = JSON.stringify({ kind: "openapi", spec });
  assert.ok(body.length > 20e6, String(body.length));
  const started = performance.now();
  const { tools } = await ok(api("PUT", "sources/large", body));
  console.log(`# ${(body.length / 1e6).toFixed(1)} MB, ${tools} tools in ${Math.round(performance.now() - started)} ms`);
  assert.equal(tools, 4_904);
  const asText = await ok(api("PUT", "sources/large", JSON.stringify({ kind: "openapi", spec: JSON.stringify(spec) })));
  assert.equal(asText.tools, 4_904);
  const refused = await api("PUT", "sources/larger", JSON.stringify({ kind: "openapi", spec: "x".repeat(26 << 20) }));
  assert.equal(refused.status, 413);
  assert.match(refused.body.error.message, /2726\d\d\d\d.*25165824/);
});

test("documents that do not fit beside each other wait for each other, and a text is unescaped as it was", async () => {
  const { api } = organization();
  const filler = `"\\ü😀\n`.repeat(10_000);
  const spec = petstore();
  for (let number = 0; number < 120; number += 1) spec.paths[`/things/${number}`] = { get: operation(`getThing${number}`, { description: `Number ${number} "\\ü😀\n${filler}` }) };
  const body = JSON.stringify({ kind: "openapi", spec: JSON.stringify(spec) });
  assert.ok(body.length > 13e6 && body.length < 24e6, String(body.length));
  const both = await Promise.all(["one", "two"].map((slug) => api("PUT", `sources/${slug}`, body)));
  assert.deepEqual(both.map(({ status, body: { tools } }) => [status, tools]), [[201, 124], [201, 124]]);
  const { body: tool } = await api("GET", "tools/one.getThing7");
  assert.match(tool.description, /Number 7 "\\ü😀/);
  // Small ones do not wait.
  const large = api("PUT", "sources/one", body);
  const began = performance.now();
  await ok(api("PUT", "sources/small", { kind: "openapi", spec: petstore() }));
  const { status } = await large;
  assert.equal(status, 200);
  console.log(`# beside a large one: ${Math.round(performance.now() - began)} ms`);
});

/** A gateway whose organization `old` has the storage of a fixture, which `change` may add to. */
async function oldOrganization(t, fixture, change = (text) => text) {
  const stateDir = mkdtempSync(join(tmpdir(), "countersign-state-"));
  const own = await startGateway({ stateDir, vars: { DEFAULT_TOOL_MODE: "code" } });
  t.after(async () => {
    await own.stop();
    rmSync(stateDir, { recursive: true, force: true });
  });
  const token = devToken({ organization: "old", account: "root", roles: ["admin"] });
  const before = await openSession(own, { token });
  await run(before, "return await tools.demo.listItems({});");
  const [id] = await own.objects("OrganizationDurableObject");
  await own.stop();
  const { DatabaseSync } = await import("node:sqlite");
  const file = readdirSync(stateDir, { recursive: true }).find((path) => path.endsWith(join("-OrganizationDurableObject", `${id}.sqlite`)));
  const database = new DatabaseSync(join(stateDir, file));
  const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'tool_search_%' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'").all();
  for (const { name } of tables) database.exec(`DROP TABLE "${name}"`);
  database.exec(change(readFileSync(new URL(`./fixtures/${fixture}`, import.meta.url), "utf8")));
  database.close();
  await own.start();
  const api = async (path) => (await own.fetch(`/api/${path}`, { headers: { authorization: `Bearer ${token}` } })).json();
  return { own, id, token, api };
}

test("an organization of layout 2 is brought up to date, with all that it held", async (t) => {
  // Something of the old layout that no import brings back.
  const kept = (text) => {
    const row = /INSERT INTO tool [^\n]*'demo\.getItem'[^\n]*\n/.exec(text)[0];
    return text + row.replaceAll("demo.getItem", "kept.getItem").replaceAll("'demo'", "'kept'").replaceAll('"source":"demo"', '"source":"kept"').replaceAll("demo__getItem", "kept__getItem");
  };
  const { own, id, token } = await oldOrganization(t, "organization-v2.sql", kept);
  const session = await openSession(own, { token, query: { tool_mode: "direct" } });
  const listed = (await session.call("tools/list")).result.tools.map((tool) => tool.name);
  for (const name of ["demo__getItem", "kept__getItem", "countersign__sources__list"]) assert.ok(listed.includes(name), listed.join());
  const program = await openSession(own, { token });
  const hits = await run(program, 'return (await tools.search({ query: "get item", source: "kept" })).data.items.map((item) => item.address);');
  assert.deepEqual(hits, ["kept.getItem"]);
  const calls = await (await fetch(new URL("/demo/calls", own.url), { headers: { authorization: `Bearer ${token}` } })).json();
  assert.equal(calls.getItem, 1, "the inventory is the old one");
  assert.deepEqual(await own.sql("OrganizationDurableObject", id, "SELECT value FROM meta WHERE key = 'schema-version'"), [{ value: "5" }]);
  assert.deepEqual(await own.sql("OrganizationDurableObject", id, "SELECT name FROM sqlite_master WHERE name = 'old_tool'"), []);
});

test("an organization of layout 3 is brought up to date, with all that it held", async (t) => {
  const { own, id, token, api } = await oldOrganization(t, "organization-v3.sql");
  assert.deepEqual((await api("approvals")).items, []);
  const { title, tools } = await api("sources/kept");
  assert.deepEqual([title, tools], ["Kept", 1]);
  assert.deepEqual((await api("policies")).policies, [{ pattern: "kept.**", action: "approve", note: "kept" }]);
  assert.equal((await api("toolkits/reader")).tools, 1);
  assert.deepEqual((await api("audit")).items.map(({ action }) => action), ["toolkit.put", "policies.put", "source.put"]);
  const program = await openSession(own, { token });
  const hits = await run(program, 'return (await tools.search({ query: "get item", source: "kept" })).data.items.map((item) => item.address);');
  assert.deepEqual(hits, ["kept.getItem"]);
  assert.deepEqual(await own.sql("OrganizationDurableObject", id, "SELECT value FROM meta WHERE key = 'schema-version'"), [{ value: "5" }]);
});

test("an organization of layout 4 is brought up to date, and what was in its audit log is chained", async (t) => {
  const { own, id, token, api } = await oldOrganization(t, "organization-v4.sql");
  assert.deepEqual((await api("approvals")).items.map((item) => item.tools[0].address), ["demo.deleteItem"]);
  assert.deepEqual((await api("keys")).items.map(({ name }) => name), ["kept"]);
  assert.deepEqual((await api("webhooks")).items, []);
  const put = await own.fetch("/api/policies", { method: "PUT", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: '{"policies":[]}' });
  assert.equal(put.status, 200);
  const { items } = await api("audit");
  assert.deepEqual(items.map(({ id, action }) => [id, action]), [[5, "policies.put"], [4, "key.create"], [3, "toolkit.put"], [2, "policies.put"], [1, "source.put"]]);
  const { createHash } = await import("node:crypto");
  const lines = (await (await own.fetch("/api/audit?format=jsonl", { headers: { authorization: `Bearer ${token}` } })).text()).trim().split("\n");
  let prev = "0".repeat(64);
  for (const line of lines.slice(1, -1)) {
    const entry = JSON.parse(line);
    assert.equal(entry.prev, prev);
    prev = createHash("sha256").update(line.replace(/,"hash":"[0-9a-f]{64}"\}$/, "}")).digest("hex");
    assert.equal(entry.hash, prev);
  }
  assert.deepEqual(JSON.parse(lines.at(-1)).head, { id: 5, hash: prev });
  assert.deepEqual(await own.sql("OrganizationDurableObject", id, "SELECT value FROM meta WHERE key = 'schema-version'"), [{ value: "5" }]);
});

test("an MCP server that quotes its credential while it is connected to is not quoted", async () => {
  const { api, open } = organization();
  const secret = "handshake-secret-0123456789";
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      const { id = null } = JSON.parse(body || "{}");
      const error = { code: -32_000, message: `invalid token ${request.headers.authorization}` };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id, error }));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const source = { kind: "mcp", url: `http://127.0.0.1:${server.address().port}/mcp`, auth: { kind: "bearer", token: secret } };
    const put = await api("PUT", "sources/quoting", source);
    assert.equal(put.status, 502);
    assert.match(put.text, /invalid token/);
    assert.ok(!put.text.includes(secret), put.text);
    const session = await open();
    await session.call("tools/list");
    assert.ok(!gateway.output().includes(secret));
  } finally {
    server.close();
  }
});

test("a refresh that moves the base reaches sessions", async () => {
  const { api, open } = organization();
  const at = (path) => ({ ...petstore(), servers: [{ url: `${backend.url}${path}` }] });
  backend.state.documents["/moving.json"] = at("/v1");
  await ok(api("PUT", "sources/moving", { kind: "openapi", specUrl: `${backend.url}/moving.json` }));
  const session = await open();
  const called = async () => (await run(session, "return await tools.moving.listPets({});")).data.url;
  assert.equal(await called(), "/v1/pets");
  backend.state.documents["/moving.json"] = at("/v2");
  await ok(api("POST", "sources/moving/refresh"));
  await waitFor(async () => (await called()) === "/v2/pets", { timeout: 7_000 });
});

test("what waits in all sessions is listed for administrators, and goes when it is decided or expires", async () => {
  const stateDir = mkdtempSync(join(tmpdir(), "countersign-waiting-"));
  const own = await startGateway({ stateDir, vars: { DEFAULT_TOOL_MODE: "code", RESUME_WAIT_MS: "5000" } });
  try {
    const token = (account, roles = []) => devToken({ organization: "waiting", account, roles });
    const get = async (path, by = token("root", ["admin"])) => {
      const response = await own.fetch(`/api/${path}`, { headers: { authorization: `Bearer ${by}` } });
      return { status: response.status, body: await response.json() };
    };
    const waiting = async (count) =>
      waitFor(async () => {
        const { items } = (await get("approvals")).body;
        return items.length === count && { items };
      }, { what: `${count} to be listed` });
    assert.deepEqual((await get("approvals")).body.items, []);
    assert.equal((await get("approvals", token("ann"))).status, 403);

    const remove = (id) => `return await Promise.all([tools.demo.deleteItem({ id: "${id}" }), tools.demo.updateItem({ id: "${id}", name: "secret name" })]);`;
    const paused = [];
    for (const account of ["ann", "bob"]) {
      const session = await openSession(own, { token: token(account) });
      paused.push((await session.tool("execute", { code: remove("item-1") })).structuredContent);
    }
    const { items } = await waiting(2);
    assert.deepEqual(items.map(({ account }) => account), ["ann", "bob"]);
    assert.equal(items[0].executionId, paused[0].executionId);
    assert.equal(items[0].approvalUrl, paused[0].approvalUrl);
    assert.equal(items[0].mcpSessionId, new URL(paused[0].approvalUrl).searchParams.get("mcp_session_id"));
    assert.deepEqual(items[0].tools.map(({ address }) => address), ["demo.deleteItem", "demo.updateItem"]);
    assert.equal(items[0].calls, 2);
    assert.ok(items[0].since < items[0].expiresAt);
    assert.ok(!JSON.stringify(items).includes("secret name"), "no arguments");

    const first = (await get("approvals?limit=1")).body;
    assert.equal(first.items.length, 1);
    const second = (await get(`approvals?limit=1&cursor=${first.nextCursor}`)).body;
    assert.deepEqual([second.items[0].account, second.nextCursor], ["bob", undefined]);

    assert.equal((await approve(own, paused[0], { token: token("ann", ["approver"]) })).status, 200);
    assert.deepEqual((await waiting(1)).items.map(({ account }) => account), ["bob"]);

    // As if the object had been lost between the journal and the telling.
    const [organization] = await own.objects("OrganizationDurableObject");
    await own.stop();
    const { DatabaseSync } = await import("node:sqlite");
    const change = (file, statement) => {
      const found = readdirSync(stateDir, { recursive: true }).find((path) => path.endsWith(file));
      const database = new DatabaseSync(join(stateDir, found));
      database.exec(statement);
      database.close();
    };
    change(join("-OrganizationDurableObject", `${organization}.sqlite`), "DELETE FROM waiting");
    change(join("-SessionDurableObject", `${items[1].mcpSessionId}.sqlite`), "DELETE FROM meta WHERE key = 'told-waiting'");
    await own.start();
    await get("approvals");
    await shownPause(own, paused[1], { token: token("bob", ["approver"]) });
    assert.equal((await waiting(1)).items[0].account, "bob");
    assert.equal((await approve(own, paused[1], { token: token("bob", ["approver"]) })).status, 200);
    await waiting(0);
    assert.deepEqual(await own.sql("OrganizationDurableObject", organization, "SELECT execution FROM waiting"), []);
  } finally {
    await own.stop();
    rmSync(stateDir, { recursive: true, force: true });
  }
});

test("the audit log says how a change was made, and what an administrator vouched for", async () => {
  const { name, api, admin } = organization();
  await ok(api("PUT", "sources/pets", { kind: "openapi", spec: petstore(), trusted: true, confirmedOrigins: ["https://a.example"], idempotentWrites: true }));
  const session = await openSession(gateway, { token: admin });
  const paused = await session.tool("execute", { code: 'return await tools.countersign.policies.put({ policies: [{ pattern: "pets.**", action: "block" }] });' });
  await approve(gateway, paused.structuredContent, { token: devToken({ organization: name, account: "root", roles: ["approver"] }) });
  await session.tool("resume", { executionId: paused.structuredContent.executionId });
  const { items } = await ok(api("GET", "audit"));
  const [policies, source] = ["policies.put", "source.put"].map((action) => items.find((entry) => entry.action === action));
  assert.deepEqual([policies.action, policies.via], ["policies.put", "tool"]);
  assert.match(policies.executionId, /^[0-9a-f]{32}$/);
  assert.deepEqual([source.action, source.via, source.executionId], ["source.put", "api", undefined]);
  const { trusted, idempotentWrites, honoursIdempotencyKey, confirmedOrigins } = source.detail;
  assert.deepEqual({ trusted, idempotentWrites, honoursIdempotencyKey, confirmedOrigins }, { trusted: true, idempotentWrites: true, honoursIdempotencyKey: false, confirmedOrigins: ["https://a.example"] });
});

test("a fault names the field that is wrong, once", async () => {
  const { api } = organization();
  const fault = async (source) => (await api("PUT", "sources/pets", { kind: "openapi", spec: petstore(), ...source })).body.error;
  const token = await fault({ auth: { kind: "bearer", token: "Bearer x" } });
  assert.deepEqual([token.data.field, token.message], ["auth.token", "auth.token must be the token alone, without the word Bearer"]);
  backend.state.documents["/broken.json"] = { openapi: "9.9" };
  const document = await fault({ spec: undefined, specUrl: `${backend.url}/broken.json` });
  assert.equal(document.data.field, "specUrl");
  assert.match(document.message, /^specUrl cannot be imported/);
});
