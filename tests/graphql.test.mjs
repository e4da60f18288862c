// GraphQL APIs behind the gateway: what their schemas become, the documents that are sent, and what is made of the answers.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { introspection, startGraphql } from "./harness/graphql.mjs";
import { approve, devToken, openSession, shownPause, startGateway } from "./harness/index.mjs";

const SECRET = "graphql-secret-0123456789abcdef";
const SCHEMA = {
  types: {
    Query: {
      user: { type: "User", args: { id: "ID!", at: "When" }, description: "Finds a user." },
      search: { type: "[User!]!", args: { text: "String!", order: "Order = NEWEST", filter: "Filter", select: "String" } },
      version: "String!",
      old: { type: "Int", deprecated: "Use version." },
    },
    Mutation: { rename: { type: "User", args: { id: "ID!", name: "String", tags: "[String!]" }, description: "Renames a user." } },
    Subscription: { renamed: "User" },
    User: { id: "ID!", name: "String", score: "Float", team: "Team", friends: { type: "[User]", args: { first: "Int" } } },
    Team: { id: "ID!", title: "String", lead: "User" },
  },
  inputs: { Filter: { name: "String", minimum: "Int! = 3", or: "[Filter!]" } },
  enums: { Order: ["NEWEST", "OLDEST"] },
  scalars: ["When"],
};

let gateway;
let endpoint;
before(async () => {
  endpoint = await startGraphql({ schema: introspection(SCHEMA) });
  gateway = await startGateway({
    vars: { ALLOW_LOCAL_NETWORK: "true", DEFAULT_TOOL_MODE: "code", TOOL_TIMEOUT_MS: "3000", RESUME_WAIT_MS: "5000", COUNTERSIGN_SECRET_KEY: "k3Jw0Zl8m1QxT5v9YbN2sRcU7eHgPa4D" },
  });
});
after(async () => {
  await gateway.stop();
  await endpoint.stop();
});

let organizations = 0;
function organization() {
  const name = `graphql${(organizations += 1)}`;
  const api = async (method, path, body) => {
    const response = await gateway.fetch(`/api/${path}`, {
      method,
      headers: { authorization: `Bearer ${devToken({ organization: name, roles: ["admin"] })}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text), text };
  };
  return {
    name,
    api,
    add: async (source = {}) => {
      const answer = await api("PUT", "sources/g", { kind: "graphql", url: endpoint.url, ...source });
      assert.ok(answer.status < 300, `${answer.status} ${answer.text}`);
      return answer.body;
    },
    open: (options = {}) => openSession(gateway, { token: devToken({ organization: name }), ...options }),
    approver: { token: devToken({ organization: name, roles: ["approver"] }) },
  };
}

const run = async (session, code) => {
  const result = await session.tool("execute", { code });
  assert.equal(result.structuredContent.status, "completed", JSON.stringify(result.structuredContent));
  return result.structuredContent.result;
};

test("a schema becomes tools, and a refresh keeps what stayed", async () => {
  const { api, add } = organization();
  const added = await add();
  assert.equal(added.tools, 5);
  assert.deepEqual(added.origins, [endpoint.origin]);
  assert.equal(added.report.entries.find(({ what }) => what === "subscription renamed").action, "skipped");
  assert.match(endpoint.introspected.headers.accept, /application\/graphql-response\+json/);
  const tools = (await api("GET", "tools?source=g")).body.items;
  assert.deepEqual(Object.fromEntries(tools.map(({ address, action }) => [address, action])), { "g.old": "allow", "g.rename": "approve", "g.search": "allow", "g.user": "allow", "g.version": "allow" });
  const user = (await api("GET", "tools/g.user")).body;
  assert.equal(user.request, "query user($id: ID!, $at: When) { user(id: $id, at: $at) { id name score team { id title } } }");
  assert.match(user.input, /id: string \| number/);
  assert.match(user.inputSchema.properties.select.description, /friends\(first: Int\): \[User\]/);
  assert.match((await api("GET", "tools/g.old")).body.description, /^Deprecated: Use version\. /);
  const source = (await api("GET", "sources/g")).body;
  assert.deepEqual([source.kind, source.url, source.tools], ["graphql", endpoint.url, 5]);

  const { version, ...rest } = SCHEMA.types.Query;
  endpoint.schema = introspection({ ...SCHEMA, types: { ...SCHEMA.types, Query: { ...rest, release: "String" } } });
  const refreshed = await api("POST", "sources/g/refresh");
  endpoint.schema = introspection(SCHEMA);
  assert.equal(refreshed.status, 200, refreshed.text);
  const { added: more, removed, changed } = refreshed.body.report.counts;
  assert.deepEqual({ more, removed, changed }, { more: 1, removed: 1, changed: 0 });
});

test("arguments are variables, whatever is in them, and the answer is the value of the field", async () => {
  const { add, open } = organization();
  await add();
  endpoint.take();
  endpoint.answers = {
    user: () => ({ body: '{"data":{"user":{"id":"7","score":1.10,"big":"12345678901234567890"}}}' }),
    search: ({ filter }) => ({ data: { search: [{ name: filter.name }] } }),
  };
  const session = await open();
  const evil = '") { id } } mutation { rename(id: 1) { id } } #';
  const found = await run(session, `
    const user = await tools.g.user({ id: ${JSON.stringify(evil)}, at: { any: [1] } });
    const hits = await tools.g.search({ text: "a", filter: { name: "b", or: [{ minimum: 4 }] }, order: null, select: "x", result_select: "{ found: name, team { ...on Team { id } } }" });
    const wrong = await tools.g.search({ text: "a", filter: { nme: "b" } });
    const refused = await tools.g.user({ id: 1, select: "{ id } } mutation { x" });
    return { user: [user.ok, user.data.big, user.data.score], hits, wrong: wrong.error, refused: refused.error };
  `);
  assert.deepEqual(found.user, [true, "12345678901234567890", 1.1]);
  assert.deepEqual(found.hits, { ok: true, data: [{ name: "b" }], http: { status: 200 } });
  assert.equal(found.wrong.code, "invalid_tool_arguments");
  assert.match(found.wrong.message, /\/filter\/nme/);
  assert.match(found.refused.message, /"select" has to be a GraphQL selection/);
  const [first, second, ...others] = endpoint.take();
  assert.deepEqual(others, [], "what does not fit is never sent");
  assert.deepEqual(first.variables, { id: evil, at: { any: [1] } });
  assert.equal(first.document, "query user($id: ID!, $at: When) { user(id: $id, at: $at) { id name score team { id title } } }");
  assert.equal(first.method, "POST");
  assert.equal(first.headers["content-type"], "application/json");
  assert.equal(first.headers.accept, "application/graphql-response+json, application/json");
  assert.deepEqual(second.variables, { text: "a", filter: { name: "b", or: [{ minimum: 4 }] }, order: null, select: "x" });
  assert.equal(second.document, "query search($text: String!, $order: Order, $filter: Filter, $select: String) { search(text: $text, order: $order, filter: $filter, select: $select) { found: name team { ... on Team { id } } } }");
  assert.equal(second.operationName, "search");
});

test("errors are failures, with what came of the data", async () => {
  const { add, open } = organization();
  await add();
  const session = await open();
  const call = async (answer) => {
    endpoint.answers = { version: () => answer };
    return run(session, "return await tools.g.version({});");
  };
  const partial = await call({ data: { version: null }, errors: [{ message: "No access", path: ["version"] }, { message: "Slow", path: ["version", "a", 1] }] });
  assert.equal(partial.ok, false);
  assert.equal(partial.error.code, "graphql_error");
  assert.equal(partial.error.message, "No access; Slow (at a.1)");
  assert.deepEqual(partial.error.details.data, { version: null });
  const refused = await call({ status: 400, body: { errors: [{ message: "Cannot query field" }] } });
  assert.deepEqual([refused.error.code, refused.error.status, refused.error.message], ["graphql_error", 400, "Cannot query field"]);
  const unauthorized = await call({ status: 401, headers: { "content-type": "application/json" }, body: { message: "Bad credentials" } });
  assert.deepEqual([unauthorized.error.code, unauthorized.error.status, unauthorized.error.message], ["http_error", 401, "HTTP 401: Bad credentials"]);
  const page = await call({ headers: { "content-type": "text/html" }, body: "<html>" });
  assert.equal(page.error.code, "invalid_response");
});

test("a mutation is asked about with its document, and sent once", async () => {
  const { add, open, approver } = organization();
  await add();
  endpoint.answers = { rename: ({ name }) => ({ data: { rename: { id: "1", name } } }) };
  const session = await open({ query: { tool_mode: "direct" } });
  endpoint.take();
  const waits = await session.tool("g__rename", { id: "1", name: null, select: "{ name }" });
  const shown = await shownPause(gateway, waits.structuredContent, approver);
  assert.match(JSON.stringify(shown), /mutation rename/);
  assert.deepEqual(endpoint.take(), []);
  await approve(gateway, waits.structuredContent, approver);
  const done = await session.tool("resume", { executionId: waits.structuredContent.executionId });
  assert.match(JSON.stringify(done), /name\\*":null/);
  const [sent, ...others] = endpoint.take();
  assert.deepEqual(others, []);
  assert.equal(sent.document, "mutation rename($id: ID!, $name: String, $tags: [String!]) { rename(id: $id, name: $name, tags: $tags) { name } }");
  assert.deepEqual(sent.variables, { id: "1", name: null });
});

test("the credential goes to the endpoint, and is nowhere in what comes back", async () => {
  const { api, add, open } = organization();
  await add({ auth: { kind: "bearer", token: SECRET } });
  assert.equal(endpoint.introspected.headers.authorization, `Bearer ${SECRET}`);
  endpoint.answers = { version: (variables, headers) => ({ errors: [{ message: `no: ${headers.authorization}` }], data: { version: headers.authorization } }) };
  const session = await open();
  const told = JSON.stringify(await run(session, "return await tools.g.version({});"));
  assert.match(told, /no: Bearer/);
  assert.ok(!told.includes(SECRET), told);
  assert.ok(!gateway.output().includes(SECRET));
  endpoint.schema = undefined;
  const refused = await api("POST", "sources/g/refresh");
  endpoint.schema = introspection(SCHEMA);
  assert.equal(refused.status, 422, refused.text);
  assert.match(refused.body.error.message, /^url leads to no GraphQL schema: the endpoint refuses introspection: Introspection is not allowed here/);
  assert.equal((await api("GET", "sources/g")).body.tools, 5, "the source is as it was");
});

test("a schema that is given is not asked for", async () => {
  const { api, add } = organization();
  endpoint.introspected = undefined;
  const wrapped = { data: introspection(SCHEMA) };
  assert.equal((await add({ spec: wrapped })).tools, 5);
  assert.equal((await add({ spec: JSON.stringify(wrapped.data) })).tools, 5);
  assert.equal(endpoint.introspected, undefined);
  const refresh = await api("POST", "sources/g/refresh");
  assert.equal(refresh.status, 409);
  assert.match(refresh.text, /put the source again/);
});

test("what is no GraphQL is refused, and says which field is wrong", async () => {
  const { api } = organization();
  const faults = async (source) => {
    const { status, body } = await api("PUT", "sources/g", { kind: "graphql", url: endpoint.url, ...source });
    return [status, body.error.data.field];
  };
  assert.deepEqual(await faults({ url: undefined }), [400, "url"]);
  assert.deepEqual(await faults({ url: "ftp://x" }), [400, "url"]);
  assert.deepEqual(await faults({ url: `${endpoint.origin}:1/` }), [400, "url"]);
  assert.deepEqual(await faults({ spec: { data: {} } }), [422, "spec"]);
  assert.deepEqual(await faults({ spec: 7 }), [400, "spec"]);
  assert.deepEqual(await faults({ spec: "<html>" }), [422, "spec"]);
  assert.deepEqual(await faults({ baseUrl: "https://a.example" }), [400, "baseUrl"]);
  endpoint.answers = {};
  const other = await startGraphql({ schema: undefined });
  try {
    assert.deepEqual(await faults({ url: other.url }), [422, "url"]);
  } finally {
    await other.stop();
  }
  assert.deepEqual(await faults({ url: other.url }), [502, "url"]);
});

test("addresses that stay are called under their old names", async () => {
  const { api, add, open } = organization();
  await add();
  endpoint.schema = introspection({ ...SCHEMA, types: { ...SCHEMA.types, Mutation: { ...SCHEMA.types.Mutation, user: "User" } } });
  const refreshed = await api("POST", "sources/g/refresh");
  endpoint.schema = introspection(SCHEMA);
  assert.equal(refreshed.status, 200, refreshed.text);
  endpoint.answers = { user: () => ({ data: { user: { id: "1" } } }) };
  const session = await open();
  assert.equal((await run(session, 'return await tools.g.user({ id: "1" });')).ok, true);
  const tool = (await api("GET", "tools/g.mutation.user")).body;
  assert.equal(tool.request, "mutation user { user { id name score team { id title } } }");
});

test("the script adds an endpoint, also with a schema from a file", async () => {
  const { name } = organization();
  const folder = mkdtempSync(join(tmpdir(), "countersign-graphql-"));
  const file = join(folder, "schema.json");
  writeFileSync(file, JSON.stringify(introspection(SCHEMA)));
  const script = (...args) => {
    const env = { ...process.env, COUNTERSIGN_URL: gateway.url, COUNTERSIGN_TOKEN: devToken({ organization: name, roles: ["admin"] }) };
    return spawnSync(process.execPath, ["scripts/source.mjs", ...args], { env, encoding: "utf8" });
  };
  try {
    const added = script("add", "g", endpoint.url, "--graphql", "--schema", file);
    assert.equal(added.status, 0, added.stderr);
    assert.match(added.stdout, /5 tools/);
    assert.equal(script("add", "g", file, "--graphql").status, 1);
    assert.equal(script("add", "g", endpoint.url, "--schema", file).status, 1);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
