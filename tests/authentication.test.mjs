// Who may call: tokens of an issuer, Cloudflare Access, API keys, the directory, and people in browsers. Every status and header is
// that of the table in the protocol's specification.

import assert from "node:assert/strict";
import { createPublicKey, randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";

import { cookiePair, goToIssuer, makeKey, openSession, signHmac, signJwt, startGateway, startIssuer, waitFor } from "./harness/index.mjs";
import { startBackend } from "./harness/backend.mjs";

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", clientInfo: { name: "suite", version: "1" }, capabilities: {} },
};
const SECRET_KEY = "k3Jw0Zl8m1QxT5v9YbN2sRcU7eHgPa4D";
const ADMIN_KEY = "Qm7-operator-xk29fJs8sLp3vB6nR0tY5w";

/** One request on /mcp; `initialize` by default. */
function ask(gateway, token, { path = "/mcp", method = "POST", headers = {}, body = INITIALIZE } = {}) {
  return gateway.fetch(path, {
    method,
    headers: {
      accept: "application/json, text/event-stream",
      ...(method === "POST" ? { "content-type": "application/json" } : {}),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: method === "POST" ? JSON.stringify(body) : undefined,
  });
}

async function assertError(response, status, code, message, what) {
  const body = await response.json();
  assert.deepEqual([response.status, body.error?.code], [status, code], `${what}: ${JSON.stringify(body)}`);
  assert.match(body.error.message, message, what);
  assert.equal(response.headers.get("access-control-allow-origin"), "*", what);
  assert.match(response.headers.get("access-control-expose-headers"), /www-authenticate/, what);
  return body;
}

async function assertInvalid(response, description, what = description) {
  await assertError(response, 401, -32001, /^Unauthorized$/, what);
  const challenge = response.headers.get("www-authenticate");
  assert.match(challenge, /^Bearer resource_metadata="http[^"]+\/\.well-known\/oauth-protected-resource\/mcp", error="invalid_token", error_description="[^"]+"$/, what);
  if (description) assert.match(challenge, description, what);
}

async function assertServed(response, what) {
  assert.equal(response.status, 200, what);
  await response.body.cancel();
}

async function assertUnavailable(response, what) {
  await assertError(response, 503, -32001, /^Authentication temporarily unavailable - please retry$/, what);
  assert.equal(response.headers.get("retry-after"), "2", what);
}

const seconds = (more = 0) => Math.floor(Date.now() / 1000) + more;

describe("tokens of an issuer", () => {
  let issuer;
  let gateway;
  before(async () => {
    issuer = await startIssuer();
    gateway = await startGateway({
      vars: {
        AUTH_MODE: "oidc",
        OIDC_ISSUER: issuer.url,
        OIDC_AUDIENCE: "gateway,https://gw.example/mcp",
        OIDC_ORGANIZATION_CLAIM: "org",
        OIDC_ADMIN_CLAIM: "realm.roles",
        OIDC_ADMIN_VALUE: "boss",
        DEMO: "true",
      },
    });
  });
  after(() => Promise.all([gateway.stop(), issuer.stop()]));
  const token = (claims, options) => issuer.token({ org: "acme", ...claims }, options);

  test("no bearer is a challenge without an error", async () => {
    const response = await ask(gateway, undefined);
    await assertError(response, 401, -32001, /^Unauthorized$/);
    assert.equal(response.headers.get("www-authenticate"), `Bearer resource_metadata="${new URL("/.well-known/oauth-protected-resource/mcp", gateway.url)}"`);
    const toolkit = await ask(gateway, undefined, { path: "/mcp/toolkits/ops" });
    assert.match(toolkit.headers.get("www-authenticate"), /oauth-protected-resource\/mcp\/toolkits\/ops"$/);
    assert.equal((await ask(gateway, undefined, { method: "OPTIONS" })).status, 204);
    assert.equal((await ask(gateway, undefined, { method: "PUT" })).status, 405);
    assert.equal((await ask(gateway, undefined, { headers: { origin: "https://evil.example" } })).status, 403);
    assert.equal((await ask(gateway, undefined, { method: "DELETE" })).status, 401);
  });

  test("metadata of every resource names the issuer, and the resource exactly", async () => {
    for (const [path, resource] of [["", "/mcp"], ["/mcp", "/mcp"], ["/mcp/toolkits/ops", "/mcp/toolkits/ops"]]) {
      const response = await gateway.fetch(`/.well-known/oauth-protected-resource${path}`);
      const body = await response.json();
      assert.equal(response.headers.get("access-control-allow-origin"), "*");
      assert.deepEqual([body.resource, body.authorization_servers], [new URL(resource, gateway.url).href, [issuer.url]]);
    }
  });

  test("a good token opens a session and calls a tool, and a refreshed one goes on", async () => {
    const session = await openSession(gateway, { token: token({ jti: "1" }) });
    const listed = await session.call("tools/list");
    assert.ok(listed.result.tools.length > 0);
    const refreshed = await ask(gateway, token({ jti: "2" }), { headers: { "mcp-session-id": session.id }, body: { jsonrpc: "2.0", id: 5, method: "ping" } });
    await assertServed(refreshed);
    await assertServed(await ask(gateway, token({ aud: ["x", "https://gw.example/mcp"] })));
  });

  test("forged and foreign tokens are refused, each with its reason", async () => {
    const [key] = issuer.keys;
    const good = token();
    const [header, payload, signature] = good.split(".");
    const other = makeKey("RS256", key.kid);
    const confusion = (secret) => signHmac(secret, { iss: issuer.url, aud: "gateway", sub: "ann", org: "acme", exp: seconds(60) }, { kid: key.kid });
    const pem = createPublicKey({ key: key.jwk, format: "jwk" });
    const unsigned = (alg) => `${Buffer.from(JSON.stringify({ alg, typ: "JWT", kid: key.kid })).toString("base64url")}.${payload}.`;
    for (const [text, reason] of [
      [`${header}.${payload}.${signature.slice(0, -4)}AAAA`, /signature/],
      [`${header}.${Buffer.from(JSON.stringify({ ...JSON.parse(Buffer.from(payload, "base64url")), sub: "boss" })).toString("base64url")}.${signature}`, /signature/],
      [token({}, { key: other }), /signature/],
      [unsigned("none"), /algorithm/],
      [unsigned("None"), /algorithm/],
      [unsigned("RS256"), /signature/],
      [confusion(pem.export({ type: "spki", format: "pem" })), /algorithm/],
      [confusion(pem.export({ type: "pkcs1", format: "pem" })), /algorithm/],
      [confusion(JSON.stringify(key.jwk)), /algorithm/],
      [confusion(""), /algorithm/],
      [token({}, { header: { alg: "PS256" } }), /key that the issuer does not publish/],
      [token({}, { header: { alg: "ES256" } }), /key that the issuer does not publish/],
      [token({}, { header: { crit: ["exp"] } }), /critical/],
      [token({}, { header: { typ: "logout+jwt" } }), /type/],
      [token({}, { key: other, header: { jwk: other.jwk } }), /signature/],
      [token({}, { key: makeKey("RS256"), header: { jku: `${issuer.url}/other` } }), /key that the issuer does not publish/],
      [token({ iss: "https://evil.example" }), /issuer/],
      [token({ iss: `${issuer.url}/` }), /issuer/],
      [token({ aud: "other" }), /audience/],
      [token({ aud: undefined }), /audience/],
      [token({ exp: seconds(-60) }), /expired/],
      [token({ exp: undefined }), /does not say when it expires/],
      [token({ nbf: seconds(120) }), /not valid yet/],
      [token({ iat: seconds(120) }), /not valid yet/],
      [token({ sub: undefined }), /account/],
      ["a.b.c", /well-formed/],
      [`${header}.${"A".repeat(20_000)}.x`, /too long/],
      ["opaque", /no kind/],
      ["dev:ann@acme", /no kind/],
      [`cs_mcp_0123456789abcdef_YWNtZQ_${"A".repeat(43)}`, /no kind/],
    ]) {
      await assertInvalid(await ask(gateway, text), reason, text.slice(0, 80));
    }
    await assertServed(await ask(gateway, token({ exp: seconds(-5) })), "clocks may differ a little");
    await assertInvalid(await ask(gateway, undefined, { headers: { authorization: "Basic YTpi" } }), /no kind/);
  });

  test("every algorithm that WebCrypto has is taken, with the key that it belongs to", async () => {
    const one = await startIssuer();
    const own = await startGateway({ vars: { AUTH_MODE: "oidc", OIDC_ISSUER: one.url, OIDC_AUDIENCE: "gateway", ORGANIZATION_NAME: "acme" } });
    try {
      const algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];
      one.keys = algorithms.map((alg) => makeKey(alg));
      for (const key of one.keys) {
        await assertServed(await ask(own, one.token({}, { key })), key.alg);
        await assertServed(await ask(own, one.token({ jti: "2" }, { key, header: { kid: undefined } })), `${key.alg} without a key id`);
        await assertInvalid(await ask(own, one.token({}, { key: makeKey(key.alg, key.kid) })), /signature/, key.alg);
      }
    } finally {
      await Promise.all([own.stop(), one.stop()]);
    }
  });

  test("a key that is not for verifying verifies nothing", async () => {
    const kept = issuer.keys;
    const keys = [
      makeKey("RS256", "enc", { use: "enc" }),
      makeKey("RS256", "ops", { use: undefined, key_ops: ["encrypt"] }),
      makeKey("RS256", "alg", { alg: "RS512" }),
    ];
    issuer.keys = [...kept, ...keys];
    for (const key of keys) await assertInvalid(await ask(gateway, token({}, { key })), /does not publish/, key.kid);
    issuer.keys = kept;
  });

  test("the role in the token opens the administration API, and does not decide", async () => {
    const admin = token({ realm: { roles: ["x", "boss"] } });
    const get = (path, bearer) => gateway.fetch(path, { headers: { authorization: `Bearer ${bearer}` } });
    assert.equal((await get("/api/sources", admin)).status, 200);
    assert.equal((await get("/api/sources", token())).status, 403);
    assert.equal((await get("/api/sources", "x.y.z")).status, 401);
    const session = await openSession(gateway, { token: admin });
    const { structuredContent: pause } = await session.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" });
    const path = `/api/mcp-sessions/${session.id}/executions/${pause.executionId}`;
    assert.equal((await get(path, admin)).status, 403);
    assert.equal((await gateway.fetch(path)).status, 401);
    const forged = await gateway.fetch(`${path}/resume`, { method: "POST", headers: { authorization: `Bearer ${admin}`, origin: new URL(gateway.url).origin, "content-type": "application/json" }, body: "{}" });
    assert.equal(forged.status, 403);
  });

  test("a token that names no organization is refused, and ends its own session only", async () => {
    const [mine, other] = [await openSession(gateway, { token: token({ sub: "mia" }) }), await openSession(gateway, { token: token({ sub: "otto" }) })];
    const removed = token({ sub: "mia", org: undefined });
    const ping = (bearer, id) => ask(gateway, bearer, { headers: { "mcp-session-id": id }, body: { jsonrpc: "2.0", id: 1, method: "ping" } });
    await assertError(await ping(removed, other.id), 403, -32001, /belongs to no organization.*Ask/);
    await assertServed(await ping(token({ sub: "otto" }), other.id), "somebody else's session stays");
    await assertServed(await ping(token({ sub: "mia", jti: "x" }), mine.id));
    await assertError(await ping(removed, mine.id), 403, -32001, /belongs to no organization/);
    await assertError(await ping(token({ sub: "mia" }), mine.id), 404, -32001, /^Session timed out, please reconnect$/);
    assert.deepEqual(gateway.logs("mcp_session_terminated").map(({ sessionId, reason }) => [sessionId, reason]), [[mine.id, "access_lost"]]);
    await assertError(await ping(token({ sub: "otto", org: "elsewhere" }), other.id), 403, -32003, /does not belong/);
  });
});

describe("keys of an issuer", () => {
  let issuer;
  let gateway;
  const start = async (vars = {}) => {
    issuer = await startIssuer({ alg: "ES256" });
    gateway = await startGateway({
      vars: { AUTH_MODE: "oidc", OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: "gateway", ORGANIZATION_NAME: "acme", IDENTITY_TIMEOUT_MS: "700", ...vars },
    });
  };
  const stop = () => Promise.all([gateway.stop(), issuer.stop()]);
  let numbers = 0;
  const fresh = (claims) => issuer.token({ jti: String(++numbers), ...claims });

  test("a rotated key is found at once, and a storm of unknown ones costs one reading", async (t) => {
    await start();
    t.after(stop);
    await assertServed(await ask(gateway, fresh()));
    assert.equal(issuer.requests("/jwks"), 1);
    const [old] = issuer.keys;
    issuer.keys = [makeKey("ES256"), old];
    const many = await Promise.all(Array.from({ length: 30 }, () => ask(gateway, fresh())));
    for (const response of many) await assertServed(response, "the new key");
    assert.equal(issuer.requests("/jwks"), 2, "requests at the same time read the keys once");
    const stranger = makeKey("ES256");
    const storm = await Promise.all(
      Array.from({ length: 200 }, () => ask(gateway, signJwt({ ...stranger, kid: randomBytes(8).toString("hex") }, { iss: issuer.url, aud: "gateway", sub: "ann", exp: seconds(60) }))),
    );
    for (const response of storm) await assertInvalid(response, /does not publish/);
    assert.equal(issuer.requests("/jwks"), 2);
    assert.equal(issuer.requests("/.well-known/openid-configuration"), 1);
    await assertServed(await ask(gateway, fresh()), "and nobody else notices");
  });

  test("while the issuer is away its keys count on, no session ends, and unknown keys cannot be told", async (t) => {
    await start({ KEY_SET_FRESH_MS: "1" });
    t.after(stop);
    const session = await openSession(gateway, { token: fresh() });
    await issuer.stop();
    for (let i = 0; i < 5; i += 1) {
      const response = await ask(gateway, fresh(), { headers: { "mcp-session-id": session.id }, body: { jsonrpc: "2.0", id: i, method: "ping" } });
      await assertServed(response, "a token that was not seen before");
    }
    const stranger = makeKey("ES256");
    const unknown = () => ask(gateway, signJwt(stranger, { iss: issuer.url, aud: "gateway", sub: "ann", exp: seconds(60) }), { headers: { "mcp-session-id": session.id } });
    await assertUnavailable(await unknown());
    await assertUnavailable(await unknown());
    await assertInvalid(await ask(gateway, fresh({ exp: seconds(-60) })), /expired/);
    assert.ok((await session.call("tools/list")).result);
    assert.deepEqual(gateway.logs("mcp_session_terminated"), []);
    await waitFor(() => gateway.logs("mcp_key_set_unavailable").length > 0, { what: "the log line" });
    await issuer.start();
    await assertServed(await ask(gateway, fresh()));
  });

  test("without any key the answer is 503, from the first moment to the last, and then all is well", async (t) => {
    await start();
    t.after(stop);
    for (const [what, mood] of [
      ["refuses", (_, response) => response.writeHead(500).end()],
      ["has no keys", (_, response, path) => path === "/jwks" && response.writeHead(200).end('{"keys":[]}')],
      ["is not JSON", (_, response) => response.writeHead(200).end("<html>")],
      ["redirects", (_, response) => response.writeHead(302, { location: `${issuer.url}/jwks` }).end()],
      ["is endless", (_, response, path) => path === "/jwks" && (response.writeHead(200), response.end("x".repeat(400_000)), true)],
      ["hangs", () => true],
    ]) {
      issuer.mood = (...all) => mood(...all) !== false;
      await assertUnavailable(await ask(gateway, fresh()), what);
      await gateway.restart();
    }
    issuer.mood = undefined;
    await assertServed(await ask(gateway, fresh()));
  });

  test("a slow issuer makes the first requests wait, and all of them read its keys once", async (t) => {
    await start({ IDENTITY_TIMEOUT_MS: "5000" });
    t.after(stop);
    issuer.mood = (request, response, path) => {
      if (path !== "/jwks") return false;
      void waitFor(() => issuer.released, { what: "the suite" }).then(() => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) })));
      return true;
    };
    const waiting = Array.from({ length: 10 }, () => ask(gateway, fresh()));
    await waitFor(() => issuer.requests("/jwks") === 1, { what: "the first reading" });
    issuer.released = true;
    for (const response of await Promise.all(waiting)) await assertServed(response);
    assert.equal(issuer.requests("/jwks"), 1);
  });

  test("metadata of another issuer is not believed", async (t) => {
    await start();
    t.after(stop);
    issuer.document = { issuer: "https://evil.example" };
    await assertUnavailable(await ask(gateway, fresh()));
    assert.match(gateway.logs("mcp_key_set_unavailable")[0].reason, /OIDC_ISSUER/);
  });

  test("metadata of RFC 8414 will do", async (t) => {
    await start();
    t.after(stop);
    issuer.mood = (_, response, path) => {
      if (path === "/.well-known/openid-configuration") return response.writeHead(404).end("{}");
      if (path !== "/.well-known/oauth-authorization-server") return false;
      return response.writeHead(200).end(JSON.stringify({ issuer: issuer.url, jwks_uri: `${issuer.url}/jwks` }));
    };
    await assertServed(await ask(gateway, fresh()));
  });

  test("whoever fails too often waits, and whoever is known goes on", async (t) => {
    await start({ AUTH_FAILURES_PER_MINUTE: "3", SESSIONS_PER_MINUTE: "2" });
    t.after(stop);
    const token = fresh();
    const session = await openSession(gateway, { token });
    for (let i = 0; i < 3; i += 1) await assertInvalid(await ask(gateway, `bad${i}`), /no kind/);
    const limited = await ask(gateway, "bad");
    await assertError(limited, 429, -32000, /Too many failed/);
    assert.ok(Number(limited.headers.get("retry-after")) >= 1);
    assert.equal((await gateway.fetch("/api/sources", { headers: { authorization: "Bearer bad" } })).status, 429);
    assert.ok((await session.call("tools/list")).result);
    await assertServed(await ask(gateway, token), "the second session");
    const many = await ask(gateway, token);
    await assertError(many, 429, -32000, /Too many new sessions/);
    assert.ok(Number(many.headers.get("retry-after")) >= 1);
  });
});

describe("a directory of members", () => {
  test("a definite no ends that account's session; whatever else it says ends nothing", async (t) => {
    const issuer = await startIssuer();
    const directory = await startBackend();
    let say = { status: 200, body: '{"member":true}' };
    directory.answer = (_, response) => (say === undefined ? undefined : response.writeHead(say.status).end(say.body));
    const gateway = await startGateway({
      vars: {
        AUTH_MODE: "oidc", OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: "gateway", ORGANIZATION_NAME: "acme", IDENTITY_TIMEOUT_MS: "500",
        DIRECTORY_URL: `${directory.url}/members?v=1`, DIRECTORY_TOKEN: "directory secret",
      },
    });
    t.after(() => Promise.all([gateway.stop(), issuer.stop(), directory.stop()]));
    const ping = (account, id) => ask(gateway, issuer.token({ sub: account, jti: randomBytes(4).toString("hex") }), { headers: { "mcp-session-id": id }, body: { jsonrpc: "2.0", id: 1, method: "ping" } });
    const sessions = {};
    for (const account of ["ann", "bob"]) sessions[account] = (await openSession(gateway, { token: issuer.token({ sub: account }) })).id;
    assert.equal((await ping("ann", sessions.ann)).status, 200);
    const asked = directory.take();
    assert.deepEqual(asked.map(({ target }) => target), ["ann", "bob"].map((account) => `/members?v=1&account=${account}&organization=acme`), "what it said is remembered");
    assert.equal(asked[0].headers.authorization, "Bearer directory secret");

    for (const answer of [{ status: 401, body: '{"member":false}' }, { status: 403, body: "" }, { status: 429, body: "" }, { status: 500, body: '{"member":false}' }, { status: 404, body: "no such page" }, { status: 200, body: "{}" }, undefined]) {
      say = answer;
      await gateway.restart();
      await assertUnavailable(await ping("ann", sessions.ann), JSON.stringify(answer));
    }
    assert.deepEqual(gateway.logs("mcp_session_terminated"), []);

    say = { status: 200, body: '{"member":false}' };
    await gateway.restart();
    await assertError(await ping("bob", sessions.ann), 403, -32001, /no access to the organization acme/);
    say = { status: 200, body: '{"member":true}' };
    await gateway.restart();
    assert.equal((await ping("ann", sessions.ann)).status, 200, "bob's loss is not ann's");
    say = { status: 404, body: '{"member":false}' };
    await gateway.restart();
    await assertError(await ping("ann", sessions.ann), 403, -32001, /no access/);
    say = { status: 200, body: '{"member":true,"admin":true}' };
    await gateway.restart();
    await assertError(await ping("ann", sessions.ann), 404, -32001, /timed out/);
    assert.equal((await ping("bob", sessions.bob)).status, 200, "bob's own session was not named");
    const admin = await gateway.fetch("/api/sources", { headers: { authorization: `Bearer ${issuer.token({ sub: "carl" })}` } });
    assert.equal(admin.status, 200, "the directory knows the role");
  });
});

describe("Cloudflare Access", () => {
  let access;
  let gateway;
  before(async () => {
    access = await startIssuer();
    gateway = await startGateway({
      vars: { AUTH_MODE: "access", ACCESS_TEAM_DOMAIN: access.url, ACCESS_AUDIENCE: "pages", ACCESS_MCP_AUDIENCE: "mcp", ORGANIZATION_NAME: "acme", ADMINS: "boss@acme.example,ci.access", DEMO: "true" },
    });
  });
  after(() => Promise.all([gateway.stop(), access.stop()]));
  const person = (email, aud) => access.token({ aud: [aud], email, type: "app", sub: "x" });
  const service = (aud) => access.token({ aud: [aud], common_name: "ci.access", sub: "", type: "app" });
  const vouched = (assertion, options) => ask(gateway, undefined, { headers: { "cf-access-jwt-assertion": assertion, ...options?.headers }, ...options });

  test("on /mcp it vouches for people and service tokens of its own application", async () => {
    await assertServed(await vouched(person("ann@acme.example", "mcp")));
    await assertServed(await vouched(person("ann@acme.example", "mcp")));
    await assertServed(await vouched(service("mcp")));
    await assertInvalid(await vouched(person("ann@acme.example", "pages")), /audience/, "a page's token calls no tools");
    await assertInvalid(await vouched(access.token({ aud: ["mcp"], email: "a@b.c", exp: seconds(-60) })), /expired/);
    await assertInvalid(await vouched(access.token({ aud: ["mcp"] })), /neither a person nor a service token/);
    await assertError(await ask(gateway, undefined, { headers: { cookie: `CF_Authorization=${person("ann@acme.example", "mcp")}` } }), 401, -32001, /Unauthorized/);
    await assertInvalid(await ask(gateway, person("ann@acme.example", "mcp")), /no kind/, "it is no bearer");
  });

  test("a person decides in the browser with the cookie; what was accepted on /mcp does not", async () => {
    const origin = new URL(gateway.url).origin;
    const tool = person("Ann@acme.example", "mcp");
    const session = await openSession(gateway, { token: null, headers: { "cf-access-jwt-assertion": tool } });
    const { structuredContent: pause } = await session.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" });
    const path = `/api/mcp-sessions/${session.id}/executions/${pause.executionId}`;
    assert.equal((await gateway.fetch(path, { headers: { "cf-access-jwt-assertion": tool } })).status, 401, "of the other application");
    assert.equal((await gateway.fetch(path, { headers: { "cf-access-jwt-assertion": person("ann@acme.example", "pages") } })).status, 403, "a program");
    assert.equal((await gateway.fetch(path, { headers: { cookie: `CF_Authorization=${tool}` } })).status, 401);
    const cookie = `CF_Authorization=${person("ann@acme.example", "pages")}`;
    const shown = await (await gateway.fetch(path, { headers: { cookie } })).json();
    const decide = (headers) => gateway.fetch(`${path}/resume`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify({ action: "decline", digest: shown.structured.digest }) });
    assert.equal((await decide({ cookie })).status, 403, "not from the gateway's own page");
    assert.equal((await decide({ cookie: `CF_Authorization=${service("pages")}`, origin })).status, 401, "a service token is no person");
    assert.equal((await decide({ cookie: `CF_Authorization=${person("bob@acme.example", "pages")}`, origin })).status, 403);
    assert.equal((await decide({ cookie, origin })).status, 200);
    const page = await gateway.fetch(`/sign-in?return_to=${encodeURIComponent("/resume/x")}`, { headers: { cookie }, redirect: "manual" });
    assert.deepEqual([page.status, page.headers.get("location")], [303, "/resume/x"]);
    assert.equal((await gateway.fetch("/sign-in", { redirect: "manual" })).status, 401);
  });

  test("with one application for pages and programs, nobody gets to /mcp by it", async () => {
    const own = await startGateway({ vars: { AUTH_MODE: "access", ACCESS_TEAM_DOMAIN: access.url, ACCESS_AUDIENCE: "pages", ORGANIZATION_NAME: "acme" } });
    try {
      const assertion = person("ann@acme.example", "pages");
      await assertInvalid(await ask(own, undefined, { headers: { "cf-access-jwt-assertion": assertion } }), /ACCESS_MCP_AUDIENCE/);
      assert.equal((await own.fetch("/", { headers: { cookie: `CF_Authorization=${assertion}` } })).status, 200, "the pages are there");
    } finally {
      await own.stop();
    }
  });

  test("administrators are named by a variable", async () => {
    const sources = (assertion) => gateway.fetch("/api/sources", { headers: { "cf-access-jwt-assertion": assertion } });
    assert.equal((await sources(person("boss@acme.example", "pages"))).status, 200);
    assert.equal((await sources(service("pages"))).status, 200);
    assert.equal((await sources(person("ann@acme.example", "pages"))).status, 403);
    const foreign = await gateway.fetch("/api/sources", { headers: { "cf-access-jwt-assertion": person("boss@acme.example", "pages"), origin: "https://evil.example" } });
    assert.equal(foreign.status, 403);
  });
});

describe("API keys", () => {
  let gateway;
  before(async () => {
    gateway = await startGateway({ vars: { AUTH_MODE: "keys", COUNTERSIGN_ADMIN_KEY: ADMIN_KEY, ORGANIZATION_NAME: "acme", DEMO: "true" } });
  });
  after(() => gateway.stop());
  const api = (path, { key = ADMIN_KEY, method = "GET", body, headers = {} } = {}) =>
    gateway.fetch(`/api/${path}`, {
      method,
      headers: { ...(key ? { authorization: `Bearer ${key}` } : {}), ...(body ? { "content-type": "application/json" } : {}), ...headers },
      body: body && JSON.stringify(body),
    });
  const make = async (body, options) => {
    const response = await api("keys", { method: "POST", body: { name: "suite", ...body }, ...options });
    return { status: response.status, ...(await response.json()) };
  };

  test("the operator makes the first key, which is shown once", async () => {
    const made = await make({ purpose: "mcp", account: "ann" });
    assert.equal(made.status, 201);
    assert.match(made.key, /^cs_mcp_[0-9a-f]{16}_YWNtZQ_[\w-]{43}$/);
    assert.deepEqual([made.name, made.purpose, made.account, made.createdBy, made.lastUsedAt], ["suite", "mcp", "ann", "operator", null]);
    await assertServed(await ask(gateway, made.key));
    const text = await (await api("keys?limit=1")).text();
    const secret = made.key.slice(-43);
    assert.ok(!text.includes(secret));
    assert.ok(JSON.parse(text).items[0].id);
    const all = [];
    for (let cursor = ""; ;) {
      const page = await (await api(`keys?limit=1${cursor}`)).json();
      all.push(...page.items);
      if (!page.nextCursor) break;
      cursor = `&cursor=${page.nextCursor}`;
    }
    assert.ok(all.find(({ id, lastUsedAt }) => id === made.id && lastUsedAt !== null));
    const audit = await (await api("audit")).text();
    assert.match(audit, /key\.create/);
    assert.ok(!audit.includes(secret));
    const [organization] = await gateway.objects("OrganizationDurableObject");
    const stored = JSON.stringify(await gateway.sql("OrganizationDurableObject", organization, "SELECT * FROM api_key"));
    assert.ok(stored.includes(made.id) && !stored.includes(secret));
    assert.ok(!gateway.output().includes(secret) && !gateway.output().includes(ADMIN_KEY));
  });

  test("each purpose does its own and nothing else", async () => {
    const keys = {};
    for (const purpose of ["mcp", "approve", "admin"]) keys[purpose] = (await make({ purpose, account: "ann" })).key;
    await assertError(await ask(gateway, keys.approve), 403, -32001, /cannot be used to call tools/);
    await assertError(await ask(gateway, keys.admin), 403, -32001, /cannot be used to call tools/);
    await assertError(await ask(gateway, ADMIN_KEY), 403, -32001, /cannot be used to call tools/);
    const session = await openSession(gateway, { token: keys.mcp });
    const { structuredContent: pause } = await session.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" });
    const path = `mcp-sessions/${session.id}/executions/${pause.executionId}`;
    for (const key of [keys.mcp, keys.admin, ADMIN_KEY]) assert.equal((await api(path, { key })).status, 403);
    const foreign = (await make({ purpose: "approve", account: "bob" })).key;
    assert.equal((await api(path, { key: foreign })).status, 403);
    const { structured } = await (await api(path, { key: keys.approve })).json();
    for (const key of [keys.mcp, keys.admin, foreign]) assert.equal((await api(`${path}/resume`, { key, method: "POST", body: { action: "accept", digest: structured.digest } })).status, 403);
    assert.equal((await api(`${path}/resume`, { key: keys.approve, method: "POST", body: { action: "accept", digest: structured.digest } })).status, 200);
    assert.equal((await session.tool("resume", { executionId: pause.executionId })).structuredContent.status, "completed");
    assert.equal((await api("sources", { key: keys.admin })).status, 200);
    for (const key of [keys.mcp, keys.approve]) assert.equal((await api("sources", { key })).status, 403);
    for (const key of [keys.mcp, keys.approve]) assert.equal((await make({ purpose: "mcp" }, { key })).error?.code, -32001);
    const mine = await make({ purpose: "approve" }, { key: keys.admin });
    assert.deepEqual([mine.status, mine.account], [201, "ann"], "whoever makes it, unless it says otherwise");
  });

  test("a revoked key is refused at once, and an expired one", async () => {
    const made = await make({ purpose: "mcp", account: "ann" });
    const session = await openSession(gateway, { token: made.key });
    assert.equal((await api(`keys/${made.id}`, { method: "DELETE" })).status, 200);
    await assertInvalid(await ask(gateway, made.key), /unknown, expired or revoked/);
    assert.equal((await session.del()).status, 401);
    assert.deepEqual(gateway.logs("mcp_session_terminated"), [], "a revoked key is no lost membership");
    assert.equal((await api(`keys/${made.id}`, { method: "DELETE" })).status, 404);
    const brief = await make({ purpose: "mcp", account: "ann", expiresAt: new Date(Date.now() + 1_500).toISOString() });
    await assertServed(await ask(gateway, brief.key));
    await waitFor(async () => (await ask(gateway, brief.key)).status === 401, { what: "the key to end" });
  });

  test("keys that nobody made are refused, and no organization comes into being for them", async () => {
    const { key } = await make({ purpose: "mcp", account: "ann" });
    const before = await gateway.objects("OrganizationDurableObject");
    const stranger = Buffer.from("elsewhere").toString("base64url");
    for (const forged of [
      key.slice(0, -43) + "A".repeat(43),
      key.replace("cs_mcp", "cs_approve").replace(/.{43}$/, "B".repeat(42) + "A"),
      key.replace(/_[0-9a-f]{16}_/, "_0123456789abcdef_"),
      key.replace("YWNtZQ", stranger),
      "cs_mcp_x",
      `${ADMIN_KEY}x`,
    ]) {
      await assertInvalid(await ask(gateway, forged), undefined, forged);
    }
    for (const id of await gateway.objects("OrganizationDurableObject")) {
      if (before.includes(id)) continue;
      const tables = await gateway.sql("OrganizationDurableObject", id, "SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'");
      assert.deepEqual(tables, [], "the object that was asked stores nothing");
    }
    // The stored purpose counts, whatever the text says.
    await assertServed(await ask(gateway, key.replace("cs_mcp", "cs_approve")));
  });

  test("what is wrong with a request names its field", async () => {
    for (const [body, status, field] of [
      [{ purpose: "owner" }, 400, "purpose"],
      [{ purpose: "mcp", name: "" }, 400, "name"],
      [{ purpose: "mcp", expiresAt: "2001-01-01T00:00:00Z" }, 400, "expiresAt"],
      [{ purpose: "mcp", scopes: [] }, 400, "scopes"],
    ]) {
      const made = await make(body);
      assert.deepEqual([made.status, made.error?.data?.field], [status, field], JSON.stringify(made));
    }
    assert.equal((await api("keys", { key: "" })).status, 401);
    assert.equal((await api("keys", { method: "PUT", body: {} })).headers.get("allow"), "GET, POST");
    assert.equal((await api("keys", { method: "POST", body: { name: "x", purpose: "mcp" }, headers: { origin: "https://evil.example" } })).status, 403);
  });

  test("keys are described, and are no tools", async () => {
    const document = await (await gateway.fetch("/api/openapi.json")).json();
    assert.deepEqual(Object.keys(document.paths["/api/keys"]), ["get", "post"]);
    const { items } = await (await api("tools?source=countersign&limit=200")).json();
    assert.ok(items.length > 5);
    assert.deepEqual(items.filter(({ address }) => /key/i.test(address)), []);
  });

  test("without a provider for people there is no sign-in, and the page says what to do", async () => {
    const home = await gateway.fetch("/", { redirect: "manual" });
    assert.deepEqual([home.status, home.headers.get("location")], [303, "/sign-in?return_to=%2F"]);
    const page = await gateway.fetch("/sign-in");
    assert.equal(page.status, 404);
    assert.match(await page.text(), /purpose approve/);
  });
});

describe("several ways at once", () => {
  test("providers are tried in their order, and what an agent holds makes no key that decides", async (t) => {
    const issuer = await startIssuer();
    const gateway = await startGateway({
      vars: { AUTH_MODE: "keys,oidc,dev", DEV_REQUIRE_TOKEN: "true", COUNTERSIGN_ADMIN_KEY: ADMIN_KEY, ORGANIZATION_NAME: "acme", OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: "gateway", OIDC_ADMIN_CLAIM: "role", OIDC_ADMIN_VALUE: "boss", MEMBERS: "ann" },
    });
    t.after(() => Promise.all([gateway.stop(), issuer.stop()]));
    const boss = issuer.token({ role: "boss" });
    const make = (bearer, purpose) =>
      gateway.fetch("/api/keys", { method: "POST", headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" }, body: JSON.stringify({ name: "x", purpose }) });
    for (const bearer of [boss, "dev:ann@acme:admin"]) {
      for (const purpose of ["approve", "admin"]) assert.equal((await make(bearer, purpose)).status, 403, `${bearer} ${purpose}`);
      assert.equal((await make(bearer, "mcp")).status, 201);
    }
    const { key } = await (await make(ADMIN_KEY, "mcp")).json();
    for (const bearer of [key, issuer.token(), "dev:eve@acme"]) await assertServed(await ask(gateway, bearer), bearer);
    await assertError(await ask(gateway, issuer.token({ sub: "eve" })), 403, -32001, /no access to the organization acme/);
    await assertError(await ask(gateway, undefined), 401, -32001, /Unauthorized/);
    await assertInvalid(await ask(gateway, "nonsense"), /no kind/);
  });

  test("a setting that is missing or contradictory stops everything, with its name", async () => {
    for (const [vars, name] of [
      [{ AUTH_MODE: "oidc" }, "OIDC_ISSUER"],
      [{ AUTH_MODE: "access" }, "ACCESS_TEAM_DOMAIN"],
      [{ AUTH_MODE: "keys,ldap" }, "AUTH_MODE"],
      [{ AUTH_MODE: "keys", COUNTERSIGN_ADMIN_KEY: "short" }, "COUNTERSIGN_ADMIN_KEY"],
    ]) {
      await assert.rejects(startGateway({ vars }), new RegExp(`variable ${name} `));
    }
  });
});

describe("people in browsers", () => {
  let issuer;
  let gateway;
  before(async () => {
    issuer = await startIssuer();
    gateway = await startGateway({
      vars: {
        AUTH_MODE: "oidc,keys", OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: "gateway", ORGANIZATION_NAME: "acme", OIDC_CLIENT_ID: issuer.client.id, OIDC_CLIENT_SECRET: issuer.client.secret,
        COUNTERSIGN_SECRET_KEY: SECRET_KEY, OIDC_ADMIN_CLAIM: "role", OIDC_ADMIN_VALUE: "boss", SIGN_IN_MS: "60000", DEMO: "true",
      },
    });
  });
  after(() => Promise.all([gateway.stop(), issuer.stop()]));
  const origin = () => new URL(gateway.url).origin;
  const get = (path, cookie) => gateway.fetch(path, { redirect: "manual", headers: cookie ? { cookie } : {} });

  /** Goes to the issuer and back; gives the callback's path and the cookie of the sign-in. */
  async function toIssuer(returnTo = "/") {
    const visit = await goToIssuer(gateway, { returnTo });
    assert.equal(visit.started.status, 303);
    assert.equal(visit.url.origin, origin());
    return visit;
  }
  async function signIn(person = { sub: "ann" }, returnTo) {
    issuer.person = person;
    const { path, cookie } = await toIssuer(returnTo);
    const done = await get(path, cookie);
    return { done, session: cookiePair(done, "__Host-countersign") };
  }

  test("a page sends a person to the issuer with PKCE, state and nonce, and back to the page", async () => {
    const page = await get("/resume/exec_x?mcp_session_id=0");
    assert.deepEqual([page.status, page.headers.get("location")], [303, `/sign-in?return_to=${encodeURIComponent("/resume/exec_x?mcp_session_id=0")}`]);
    const { location, started } = await toIssuer("/resume/exec_x?mcp_session_id=0");
    const asked = new URL(location).searchParams;
    assert.deepEqual([asked.get("response_type"), asked.get("client_id"), asked.get("code_challenge_method"), asked.get("redirect_uri")], ["code", "console", "S256", `${origin()}/sign-in/callback`]);
    assert.ok(asked.get("state").length >= 40 && asked.get("nonce").length >= 40 && asked.get("code_challenge").length === 43);
    assert.match(started.headers.getSetCookie()[0], /^__Host-[^;]+; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=600$/);
    const { done, session } = await signIn({ sub: "ann" }, "/resume/exec_x?mcp_session_id=0");
    assert.deepEqual([done.status, done.headers.get("location")], [303, "/resume/exec_x?mcp_session_id=0"]);
    assert.match(done.headers.getSetCookie().find((text) => text.startsWith("__Host-countersign=")), /; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=60$/);
    assert.match(await (await get("/", session)).text(), /Signed in as <b>ann@acme/);
  });

  test("a person decides on the own session, and nobody else", async () => {
    const agent = await openSession(gateway, { token: issuer.token() });
    const { structuredContent: pause } = await agent.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-2' })" });
    const path = new URL(pause.approvalUrl).pathname + new URL(pause.approvalUrl).search;
    const { session: bob } = await signIn({ sub: "bob" });
    assert.equal((await get(path, bob)).status, 403);
    const { session } = await signIn({ sub: "ann" });
    const html = await (await get(path, session)).text();
    const digest = /name="digest" value="([^"]+)"/.exec(html)?.[1] ?? /value="([^"]+)" name="digest"/.exec(html)?.[1];
    const post = (headers) => gateway.fetch(path, { method: "POST", redirect: "manual", headers: { "content-type": "application/x-www-form-urlencoded", ...headers }, body: new URLSearchParams({ action: "accept", digest }) });
    assert.equal((await post({ cookie: session, origin: "https://evil.example" })).status, 403);
    assert.equal((await post({ origin: origin() })).status, 401);
    assert.equal((await post({ origin: origin(), authorization: `Bearer ${issuer.token()}` })).status, 403, "the agent's own bearer");
    assert.equal((await post({ origin: origin(), cookie: `__Host-countersign=${issuer.token()}` })).status, 401, "the agent's own bearer as a cookie");
    assert.equal((await post({ cookie: session, origin: origin() })).status, 303);
    assert.equal((await agent.tool("resume", { executionId: pause.executionId })).structuredContent.status, "completed");
  });

  test("an administrator makes keys in the browser, from the gateway's own page only", async () => {
    const { session } = await signIn({ sub: "ann", role: "boss" });
    const make = (headers) => gateway.fetch("/api/keys", { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify({ name: "x", purpose: "approve" }) });
    assert.equal((await make({ cookie: session })).status, 403);
    assert.equal((await make({ cookie: session, origin: "https://evil.example" })).status, 403);
    const made = await make({ cookie: session, origin: origin() });
    assert.deepEqual([made.status, (await made.json()).account], [201, "ann"]);
    const { session: plain } = await signIn({ sub: "ann" });
    assert.equal((await make({ cookie: plain, origin: origin() })).status, 403);
  });

  test("an answer that is not this browser's, was forged, or comes twice signs nobody in", async () => {
    issuer.person = { sub: "ann" };
    const refused = async (path, cookie, what) => {
      const response = await get(path, cookie);
      assert.equal(response.status, 400, what);
      assert.equal(cookiePair(response, "__Host-countersign"), undefined, what);
    };
    const { path, cookie } = await toIssuer();
    await refused(path, undefined, "no sign-in in this browser");
    const other = await toIssuer();
    await refused(path, other.cookie, "another sign-in's state");
    await refused(path.replace(/iss=[^&]+/, "iss=https%3A%2F%2Fevil.example"), cookie, "another issuer");
    await refused(path.replace(/code=[^&]+/, "code=guess"), cookie, "a code that is none");
    await refused(path, `${cookie.slice(0, -3)}AAA`, "a forged cookie");
    assert.equal((await get(path, cookie)).status, 303);
    await refused(path, cookie, "the same code again");
    for (const [idToken, what] of [[{ nonce: "x" }, "nonce"], [{ aud: "gateway" }, "audience"], [{ iss: "https://evil.example" }, "issuer"], [{ exp: seconds(-60) }, "expired"], [{ azp: "x" }, "party"], [{ sub: undefined }, "account"]]) {
      issuer.idToken = idToken;
      const again = await toIssuer();
      await refused(again.path, again.cookie, what);
    }
    issuer.idToken = undefined;
    const denied = await toIssuer();
    await refused(`/sign-in/callback?error=access_denied&state=${denied.url.searchParams.get("state")}`, denied.cookie, "refused there");
    issuer.mood = (_, response, where) => where === "/token" && (response.writeHead(503).end(), true);
    const away = await toIssuer();
    const unavailable = await get(away.path, away.cookie);
    assert.deepEqual([unavailable.status, unavailable.headers.get("retry-after")], [503, "2"]);
    issuer.mood = undefined;
  });

  test("return_to leads nowhere else, and signing out ends it", async () => {
    for (const target of ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"]) {
      const { done } = await signIn({ sub: "ann" }, target);
      assert.equal(done.headers.get("location"), "/", target);
    }
    const { session } = await signIn();
    assert.equal((await gateway.fetch("/sign-out", { method: "POST", redirect: "manual", headers: { cookie: session, origin: "https://evil.example" } })).status, 403);
    assert.match(await (await get("/sign-out", session)).text(), /<form method="post" action="\/sign-out"/);
    const out = await gateway.fetch("/sign-out", { method: "POST", redirect: "manual", headers: { cookie: session, origin: origin() } });
    assert.equal(out.status, 303);
    assert.match(out.headers.getSetCookie().join("\n"), /__Host-countersign=; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=0/);
  });

  test("a cookie ends, and no other text is one", async () => {
    const { session } = await signIn();
    assert.equal((await get("/", session)).status, 200);
    for (const forged of [`${session}x`, session.replace(/.$/, (last) => (last === "A" ? "B" : "A")), session.split(".")[0], session.replace("__Host-countersign", "__Host-countersign-sign-in")]) {
      assert.equal((await get("/", forged)).status, 303, forged);
    }
    gateway.vars.SIGN_IN_MS = "1000";
    await gateway.restart();
    const { session: brief } = await signIn();
    await waitFor(async () => (await get("/", brief)).status === 303, { what: "the sign-in to end" });
    gateway.vars.SIGN_IN_MS = "60000";
    gateway.vars.COUNTERSIGN_SECRET_KEY = `${SECRET_KEY}2`;
    gateway.vars.COUNTERSIGN_SECRET_KEY_OLD = SECRET_KEY;
    await gateway.restart();
    assert.equal((await get("/", session)).status, 200, "the key before it still verifies");
  });
});
