// The gateway as an authorization server: a real client from discovery to a tool call, and everything that must not work.
// The person is development mode's, dev@dev, or the owner with a passphrase.

import assert from "node:assert/strict";
import { randomBytes, scryptSync } from "node:crypto";
import { after, before, test } from "node:test";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";

import { startGateway } from "./harness/index.mjs";

const VARS = { COUNTERSIGN_SECRET_KEY: randomBytes(32).toString("base64"), DEV_REQUIRE_TOKEN: "true" };
const CALLBACK = "http://127.0.0.1:39999/callback";
/** The example of RFC 7636, appendix B. */
const VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { ...VARS, AUTH_MODE: "dev,oauth" } });
});
after(() => gateway.stop());

const origin = () => gateway.url.replace(/\/$/, "");
const post = (path, fields, headers = {}) =>
  gateway.fetch(path, { method: "POST", redirect: "manual", headers, body: new URLSearchParams(fields) });
const json = async (response) => ({ status: response.status, body: await response.json() });
const hidden = (html, name) => new RegExp(`name="${name}" value="([^"]*)"`).exec(html)?.[1];

async function register(metadata = {}) {
  const response = await gateway.fetch("/oauth/register", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: "Tester", redirect_uris: [CALLBACK], token_endpoint_auth_method: "none", ...metadata }),
  });
  assert.equal(response.status, 201);
  return response.json();
}

const query = (changes = {}) => {
  const members = { response_type: "code", redirect_uri: CALLBACK, code_challenge: CHALLENGE, code_challenge_method: "S256", state: "s1", ...changes };
  return new URLSearchParams(Object.entries(members).filter(([, value]) => value !== undefined));
};
const authorizeUrl = (clientId, changes) => `/oauth/authorize?${query({ client_id: clientId, ...changes })}`;

/** What a person does who reads the page and presses a button; gives where the browser is sent. */
async function answer(url, action, headers = {}) {
  const path = url.toString().replace(origin(), "");
  const page = await gateway.fetch(path, { headers, redirect: "manual" });
  assert.equal(page.status, 200, await page.clone().text());
  const pending = hidden(await page.text(), "pending");
  const answered = await post("/oauth/authorize", { pending, action }, { origin: origin(), ...headers });
  assert.equal(answered.status, 303, await answered.clone().text());
  return new URL(answered.headers.get("location"));
}

async function codeFor(client, changes) {
  const target = await answer(authorizeUrl(client.client_id, changes), "allow");
  assert.equal(target.searchParams.get("iss"), origin());
  assert.equal(target.searchParams.get("state"), "s1");
  return target.searchParams.get("code");
}

const exchange = (client, code, changes = {}) =>
  post("/oauth/token", { grant_type: "authorization_code", client_id: client.client_id, code, code_verifier: VERIFIER, redirect_uri: CALLBACK, ...changes }).then(json);
const refresh = (client, token, changes = {}) =>
  post("/oauth/token", { grant_type: "refresh_token", client_id: client.client_id, refresh_token: token, ...changes }).then(json);

async function tokens(client, changes) {
  const { status, body } = await exchange(client, await codeFor(client, changes));
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

const initialize = (token, path = "/mcp") =>
  gateway.fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...(token ? { authorization: `Bearer ${token}` } : {}) },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } } }),
  });

/** A client of the SDK that keeps what it gets, and sends the browser to a person who presses `action`. */
class Keeper {
  redirectUrl = CALLBACK;
  clientMetadata = { client_name: "SDK", redirect_uris: [CALLBACK], token_endpoint_auth_method: "none" };
  clientInformation = () => this.client;
  saveClientInformation = (client) => void (this.client = client);
  tokens = () => this.kept;
  saveTokens = (kept) => void (this.kept = kept);
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  codeVerifier = () => this.verifier;
  async redirectToAuthorization(url) {
    this.target = await answer(url, "allow");
  }
}

test("a real client goes from discovery to a tool call, and on with a refreshed token", async () => {
  const keeper = new Keeper();
  const connect = async () => {
    const transport = new StreamableHTTPClientTransport(new URL("/mcp?tool_mode=direct", gateway.url), { authProvider: keeper });
    const client = new Client({ name: "sdk", version: "1" });
    await client.connect(transport);
    return { client, transport };
  };
  await assert.rejects(connect(), UnauthorizedError);
  assert.ok(keeper.client.client_id, "it registered itself");
  const unfinished = new StreamableHTTPClientTransport(new URL("/mcp?tool_mode=direct", gateway.url), { authProvider: keeper });
  await unfinished.finishAuth(keeper.target.searchParams.get("code"));
  const { client } = await connect();
  const { tools } = await client.listTools();
  const list = tools.find(({ name }) => name.includes("listItems"));
  const result = await client.callTool({ name: list.name, arguments: {} });
  assert.ok(!result.isError, JSON.stringify(result));
  await client.close();

  const before = keeper.kept.access_token;
  keeper.kept = { ...keeper.kept, access_token: "cs_access_x.y" };
  const again = await connect();
  assert.ok((await again.client.listTools()).tools.length > 0);
  assert.notEqual(keeper.kept.access_token, "cs_access_x.y", "the SDK refreshed it");
  assert.notEqual(keeper.kept.access_token, before);
  await again.client.close();
});

test("whoever has no token is told where to get one", async () => {
  const refused = await initialize();
  assert.equal(refused.status, 401);
  const challenge = refused.headers.get("www-authenticate");
  const metadata = /resource_metadata="([^"]+)"/.exec(challenge)[1];
  assert.match(challenge, /scope="mcp"/);
  assert.doesNotMatch(challenge, /error=/);
  const resource = await (await fetch(metadata)).json();
  assert.equal(resource.resource, `${origin()}/mcp`);
  assert.deepEqual(resource.authorization_servers, [origin()]);
  const toolkit = await (await gateway.fetch("/.well-known/oauth-protected-resource/mcp/toolkits/ops")).json();
  assert.equal(toolkit.resource, `${origin()}/mcp/toolkits/ops`);
  const server = await gateway.fetch("/.well-known/oauth-authorization-server");
  assert.equal(server.headers.get("access-control-allow-origin"), "*");
  const described = await server.json();
  assert.equal(described.issuer, origin());
  assert.deepEqual(described.code_challenge_methods_supported, ["S256"]);
  for (const member of ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"]) {
    const preflight = await fetch(described[member], { method: "OPTIONS", headers: { origin: "https://inspector.example" } });
    if (member !== "authorization_endpoint") assert.equal(preflight.headers.get("access-control-allow-origin"), "*", member);
  }
  const bad = await initialize("cs_access_e30.AAAA");
  assert.equal(bad.status, 401);
  assert.match(bad.headers.get("www-authenticate"), /error="invalid_token"/);
});

test("a token is good for the endpoint that it was asked for, and decides nothing", async () => {
  const client = await register();
  const own = await tokens(client);
  assert.equal(own.token_type, "Bearer");
  assert.ok(own.expires_in > 0 && own.expires_in <= 3_600);
  assert.equal((await initialize(own.access_token)).status, 200);
  assert.equal((await initialize(own.access_token, "/mcp/toolkits/ops")).status, 401);
  const other = await tokens(client, { resource: `${origin()}/mcp/toolkits/ops` });
  assert.equal((await initialize(other.access_token)).status, 401);
  // There is no such toolkit, but the token is good for it.
  assert.notEqual((await initialize(other.access_token, "/mcp/toolkits/ops")).status, 401);

  const session = (await initialize(own.access_token)).headers.get("mcp-session-id");
  const call = await gateway.fetch("/mcp", {
    method: "POST",
    headers: { authorization: `Bearer ${own.access_token}`, "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-session-id": session },
    body: JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "execute", arguments: { code: "return await tools.demo.deleteItem({ id: 'item-1' })" } } }),
  });
  const pause = JSON.parse(/^data: (\{.*"result".*)$/m.exec(await call.text())[1]).result.structuredContent;
  assert.equal(pause.status, "user_approval_required");
  const decision = await gateway.fetch(`/api/mcp-sessions/${session}/executions/${pause.executionId}/resume`, {
    method: "POST",
    headers: { authorization: `Bearer ${own.access_token}`, "content-type": "application/json" },
    body: JSON.stringify({ action: "accept", digest: "x" }),
  });
  assert.equal(decision.status, 403);
  assert.equal((await gateway.fetch(pause.approvalUrl.slice(origin().length), { headers: { authorization: `Bearer ${own.access_token}` } })).status, 403);
  for (const kind of ["refresh_token"]) assert.equal((await initialize(own[kind])).status, 401, "a refresh token calls nothing");
});

test("a person who declines is heard", async () => {
  const client = await register();
  const target = await answer(authorizeUrl(client.client_id), "deny");
  assert.equal(target.searchParams.get("error"), "access_denied");
  assert.equal(target.searchParams.get("code"), null);
  assert.equal(target.searchParams.get("iss"), origin());
});

test("the page shows who asks and where the answer goes, and opening it grants nothing", async () => {
  const client = await register({ client_name: "<img src=x onerror=alert(1)>\u202e", redirect_uris: ["cursor://anysphere.cursor/cb", CALLBACK] });
  const page = await gateway.fetch(authorizeUrl(client.client_id, { redirect_uri: "cursor://anysphere.cursor/cb" }));
  const html = await page.text();
  assert.doesNotMatch(html, /<img src=x|\u202e/);
  assert.match(html, /cursor:\/\/anysphere\.cursor\/cb/);
  assert.match(html, /dev@dev/);
  const security = page.headers.get("content-security-policy");
  assert.match(security, /form-action 'self' cursor:;/);
  assert.match(security, /frame-ancestors 'none'/);
  assert.equal(page.headers.get("cross-origin-opener-policy"), null, "the client's page may be the opener");
  assert.equal(page.headers.get("cache-control"), "no-store");
});

test("the answer is taken from the gateway's own page, for the person who was asked", async () => {
  const client = await register();
  const pending = hidden(await (await gateway.fetch(authorizeUrl(client.client_id))).text(), "pending");
  const fields = { pending, action: "allow" };
  for (const headers of [{}, { origin: "https://evil.example" }, { origin: "null" }]) {
    assert.equal((await post("/oauth/authorize", fields, headers)).status, 403, JSON.stringify(headers));
  }
  const own = { origin: origin() };
  assert.equal((await post("/oauth/authorize", fields, { ...own, cookie: "countersign-dev=eve@acme" })).status, 403, "somebody else");
  assert.equal((await post("/oauth/authorize", { ...fields, pending: `${pending}x` }, own)).status, 400);
  assert.equal((await post("/oauth/authorize", { pending }, own)).status, 400);
});

test("requests that cannot be answered stay on the page, all others go back to the client", async () => {
  const client = await register();
  const unsafe = [
    authorizeUrl(undefined),
    authorizeUrl("nobody"),
    authorizeUrl("https://127.0.0.1/client.json"),
    authorizeUrl(client.client_id, { redirect_uri: "https://evil.example/cb" }),
    `${authorizeUrl(client.client_id)}&redirect_uri=${encodeURIComponent(CALLBACK)}`,
  ];
  for (const url of unsafe) {
    const response = await gateway.fetch(url, { redirect: "manual" });
    assert.equal(response.status, 400, url);
    assert.match(response.headers.get("content-type"), /text\/html/);
  }
  for (const [changes, error] of [
    [{ response_type: "token" }, "unsupported_response_type"],
    [{ code_challenge: undefined }, "invalid_request"],
    [{ code_challenge_method: "plain" }, "invalid_request"],
    [{ resource: "https://other.example/mcp" }, "invalid_target"],
    [{ resource: `${origin()}/mcp/` }, "invalid_target"],
  ]) {
    const response = await gateway.fetch(authorizeUrl(client.client_id, changes), { redirect: "manual" });
    assert.equal(response.status, 303, JSON.stringify(changes));
    const target = new URL(response.headers.get("location"));
    assert.equal(target.searchParams.get("error"), error);
    assert.equal(target.searchParams.get("state"), "s1");
  }
  // A loopback client gets another port each time (RFC 8252).
  const page = await gateway.fetch(authorizeUrl(client.client_id, { redirect_uri: "http://127.0.0.1:51234/callback" }));
  assert.equal(page.status, 200);
});

test("a code is good once, for its client, with its verifier", async () => {
  const client = await register();
  const other = await register();
  for (const [changes, error] of [
    [{ code_verifier: "x".repeat(43) }, "invalid_grant"],
    [{ client_id: other.client_id }, "invalid_grant"],
    [{ redirect_uri: "http://127.0.0.1:39999/elsewhere" }, "invalid_grant"],
    [{ client_id: "nobody" }, "invalid_client"],
    [{ code: "cs_code_e30.AAAA" }, "invalid_grant"],
    [{ grant_type: "password" }, "unsupported_grant_type"],
  ]) {
    const { status, body } = await exchange(client, await codeFor(client), changes);
    assert.equal(body.error, error, JSON.stringify({ changes, body }));
    assert.equal(status, error === "invalid_client" ? 401 : 400);
    assert.equal(typeof body.error_description, "string");
  }
  const code = await codeFor(client);
  const first = await exchange(client, code);
  assert.equal(first.status, 200);
  const second = await exchange(client, code);
  assert.equal(second.body.error, "invalid_grant");
  assert.equal((await refresh(client, first.body.refresh_token)).body.error, "invalid_grant", "the second use ended the grant");
});

test("refresh tokens rotate; one that is used again ends them all", async () => {
  const client = await register();
  const first = await tokens(client);
  const second = await refresh(client, first.refresh_token);
  assert.equal(second.status, 200);
  assert.equal((await initialize(second.body.access_token)).status, 200);
  // The answer was lost: the client asks again, and what it did not get is worth nothing.
  const third = await refresh(client, first.refresh_token);
  assert.equal(third.status, 200);
  assert.equal((await refresh(client, second.body.refresh_token)).body.error, "invalid_grant");
  assert.equal((await refresh(client, third.body.refresh_token)).body.error, "invalid_grant", "the grant is over");
});

test("a client ends its grant, and nobody else's", async () => {
  const client = await register();
  const other = await register();
  const { refresh_token: token } = await tokens(client);
  assert.equal((await post("/oauth/revoke", { token, client_id: other.client_id })).status, 200);
  const next = await refresh(client, token);
  assert.equal(next.status, 200, "another client cannot end it");
  assert.equal((await post("/oauth/revoke", { token: next.body.refresh_token, client_id: client.client_id })).status, 200);
  assert.equal((await refresh(client, next.body.refresh_token)).body.error, "invalid_grant");
  assert.equal((await post("/oauth/revoke", { token: "nonsense", client_id: client.client_id })).status, 200);
});

test("a client with a secret has to show it", async () => {
  const client = await register({ token_endpoint_auth_method: "client_secret_basic" });
  const code = await codeFor(client);
  assert.equal((await exchange(client, code)).body.error, "invalid_client");
  const fields = { grant_type: "authorization_code", code, code_verifier: VERIFIER, redirect_uri: CALLBACK };
  const basic = (secret) => ({ authorization: `Basic ${Buffer.from(`${encodeURIComponent(client.client_id)}:${secret}`).toString("base64")}` });
  const wrong = await post("/oauth/token", fields, basic("wrong"));
  assert.equal(wrong.status, 401);
  assert.match(wrong.headers.get("www-authenticate"), /^Basic /);
  const right = await post("/oauth/token", fields, basic(client.client_secret));
  assert.equal(right.status, 200, await right.clone().text());
  assert.equal(right.headers.get("cache-control"), "no-store");
});

test("a grant survives a restart, and no token is in storage or in the log", async () => {
  const own = await startGateway({ vars: { ...VARS, AUTH_MODE: "dev,oauth" } });
  const before = gateway;
  try {
    gateway = own;
    const client = await register();
    const first = await tokens(client);
    await own.restart();
    const second = await refresh(client, first.refresh_token);
    assert.equal(second.status, 200, JSON.stringify(second.body));
    const [organization] = await own.objects("OrganizationDurableObject");
    const rows = JSON.stringify(await own.sql("OrganizationDurableObject", organization, "SELECT * FROM oauth_grant"));
    for (const secret of [first.access_token, first.refresh_token, second.body.refresh_token]) {
      assert.ok(!rows.includes(secret) && !own.output().includes(secret));
    }
  } finally {
    gateway = before;
    await own.stop();
  }
});

test("an owner signs in with a passphrase, and whoever guesses is stopped", async () => {
  const hashOf = (passphrase) => {
    const salt = randomBytes(16);
    const hash = scryptSync(passphrase, salt, 32, { N: 2 ** 14, r: 8, p: 1, maxmem: 2 ** 28 });
    return ["scrypt", 14, 8, 1, salt.toString("base64url"), hash.toString("base64url")].join(":");
  };
  const vars = { COUNTERSIGN_SECRET_KEY: VARS.COUNTERSIGN_SECRET_KEY, AUTH_MODE: "oauth", ORGANIZATION_NAME: "home" };
  const own = await startGateway({ vars: { ...vars, OWNER_PASSPHRASE_HASH: hashOf("correct horse battery staple"), DEMO: "true" } });
  const before = gateway;
  try {
    gateway = own;
    const client = await register();
    const url = authorizeUrl(client.client_id);
    const sent = await own.fetch(url, { redirect: "manual" });
    assert.equal(sent.status, 303);
    const form = await own.fetch(sent.headers.get("location"));
    assert.equal(form.headers.get("cross-origin-opener-policy"), null);
    const returnTo = hidden(await form.text(), "return_to").replaceAll("&#38;", "&");
    assert.equal(returnTo, url);
    const signIn = (passphrase, headers = {}) =>
      post("/sign-in", { passphrase, return_to: returnTo }, { origin: origin(), "cf-connecting-ip": "192.0.2.1", ...headers });

    assert.equal((await signIn("correct horse battery staple", { origin: "https://evil.example" })).status, 403);
    for (const wrong of ["", "correct horse battery stapl", "x".repeat(2_000), "Correct horse battery staple"]) {
      assert.equal((await signIn(wrong)).status, 403, wrong);
    }
    const signedIn = await signIn("correct horse battery staple");
    assert.equal(signedIn.status, 303);
    assert.equal(signedIn.headers.get("location"), url);
    const set = signedIn.headers.get("set-cookie");
    for (const attribute of [/^__Host-countersign=/, /; Secure/, /; HttpOnly/, /; SameSite=Lax/, /; Path=\//]) assert.match(set, attribute);
    const cookie = set.split(";")[0];

    const target = await answer(url, "allow", { cookie });
    const { status, body } = await exchange(client, target.searchParams.get("code"));
    assert.equal(status, 200);
    assert.equal((await initialize(body.access_token)).status, 200);
    assert.equal((await own.fetch("/", { headers: { cookie: `${cookie}x` }, redirect: "manual" })).status, 303, "a forged cookie is nobody's");

    // The sign-in above forgave what had failed. Five tries more, and it waits; from elsewhere it does not.
    const tries = await Promise.all(Array.from({ length: 8 }, () => signIn("a guess of somebody")));
    assert.deepEqual(tries.map((response) => response.status).sort(), [403, 403, 403, 403, 403, 429, 429, 429]);
    const limited = await signIn("correct horse battery staple");
    assert.equal(limited.status, 429);
    assert.ok(Number(limited.headers.get("retry-after")) > 0);
    assert.equal((await signIn("correct horse battery staple", { "cf-connecting-ip": "198.51.100.7" })).status, 303);
    assert.ok(!own.output().includes("correct horse"));

    // A new passphrase signs out whoever knew the old one.
    own.vars = { ...own.vars, OWNER_PASSPHRASE_HASH: hashOf("another passphrase of the owner") };
    await own.restart();
    assert.equal((await own.fetch("/", { headers: { cookie }, redirect: "manual" })).status, 303);
  } finally {
    gateway = before;
    await own.stop();
  }
});
