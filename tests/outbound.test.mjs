// What the gateway sends to APIs, byte for byte; where it sends nothing; and what it makes of the answers.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, describe, test } from "node:test";
import { brotliCompressSync, gzipSync } from "node:zlib";

import { documents, wire, wireOfSwagger } from "./fixtures/wire.mjs";
import { startBackend } from "./harness/backend.mjs";
import { devToken, openSession, startGateway } from "./harness/index.mjs";

const KEY = "k3Jw0Zl8m1QxT5v9YbN2sRcU7eHgPa4D";
const LIMIT = 1 << 20;

let gateway;
let backend;
let other;
before(async () => {
  backend = await startBackend();
  other = await startBackend();
  gateway = await startGateway({
    vars: { ALLOW_LOCAL_NETWORK: "true", TOOL_TIMEOUT_MS: "2000", TOOL_RESPONSE_BYTES: String(LIMIT), COUNTERSIGN_SECRET_KEY: KEY },
  });
});
after(async () => {
  await gateway.stop();
  await backend.stop();
  await other.stop();
});

let organizations = 0;
function newOrganization() {
  return `outbound${(organizations += 1)}`;
}

async function administrate(organization, method, path, body, on = gateway) {
  const response = await on.fetch(`/api/${path}`, {
    method,
    headers: { authorization: `Bearer ${devToken({ organization, roles: ["admin"] })}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text), text };
}

async function putSource(organization, slug, source) {
  const { status, text } = await administrate(organization, "PUT", `sources/${slug}`, { kind: "openapi", ...source });
  assert.ok(status === 200 || status === 201, `${status} ${text}`);
}

/** An organization in which everything is allowed, with one source `api` of these paths, and a session of it. */
async function sourceOf(paths, { baseUrl = `${backend.url}/base`, headers, ...more } = {}) {
  const organization = newOrganization();
  const { status, text } = await administrate(organization, "PUT", "policies", [{ pattern: "**", action: "allow" }]);
  assert.equal(status, 200, text);
  await putSource(organization, "api", { spec: { openapi: "3.1.0", info: { title: "T", version: "1" }, paths }, baseUrl, ...more });
  const session = await openSession(gateway, { token: devToken({ organization }), query: { tool_mode: "direct" }, headers });
  const call = (name, args = {}, options) => session.tool(`api__${name}`, args, options);
  return { organization, session, call };
}

/** What the model reads of a failed call. */
function failure(result) {
  assert.equal(result.isError, true, JSON.stringify(result));
  return result.structuredContent?.error ?? result.content.map(({ text }) => text).join("\n");
}

const textOf = (value) => JSON.stringify(value);
const answering = (t, answer) => {
  backend.answer = answer;
  t.after(() => (backend.answer = undefined));
};

describe("requests on the wire", () => {
  for (const [slug, list] of [["wire", wire], ["old", wireOfSwagger]]) {
    test(`${list.length} operations of ${slug} send the bytes that the specification says`, async () => {
      const organization = newOrganization();
      await administrate(organization, "PUT", "policies", [{ pattern: "**", action: "allow" }]);
      await putSource(organization, slug, { spec: documents(backend.url)[slug], confirmedOrigins: [backend.origin] });
      const session = await openSession(gateway, { token: devToken({ organization }), query: { tool_mode: "direct" } });
      for (const { id, method, args, expected, path } of list) {
        backend.take();
        const result = await session.tool(`${slug}__${id}`, args);
        const named = `${id} ${method} ${path} ${JSON.stringify(args)}`;
        assert.equal(result.isError, false, `${named}: ${textOf(result)}`);
        const seen = backend.take();
        assert.equal(seen.length, 1, named);
        assert.equal(seen[0].method, method.toUpperCase(), named);
        assert.equal(seen[0].target, expected.target, named);
        for (const [name, value] of Object.entries(expected.headers ?? {})) assert.equal(seen[0].headers[name], value, `${named} ${name}`);
        if (expected.body !== undefined) assert.deepEqual(seen[0].body, Buffer.from(expected.body), `${named}: ${seen[0].body}`);
        if (expected.parts) assertParts(seen[0], expected.parts);
      }
    });
  }

  test("an argument never leaves its place", async () => {
    const { call } = await sourceOf({
      "/files/{name}": { get: { operationId: "file", parameters: [{ name: "name", in: "path", required: true, schema: { type: "string" } }] } },
      "/head": { get: { operationId: "head", parameters: [{ name: "X-A", in: "header", schema: { type: "string" } }, { name: "c", in: "cookie", style: "cookie", schema: { type: "string" } }] } },
    });
    backend.take();
    for (const name of [".", "..", ""]) assert.match(textOf(failure(await call("file", { name }))), /invalid_tool_arguments/, name);
    for (const value of ["a\r\nX-Evil: 1", "a\nb", "\u0000", "ü"]) assert.match(textOf(failure(await call("head", { "X-A": value }))), /invalid_tool_arguments/);
    assert.match(textOf(failure(await call("head", { c: "a; evil=1" }))), /invalid_tool_arguments/);
    assert.deepEqual(backend.take(), []);
    await call("file", { name: "../../admin?x#y" });
    assert.equal(backend.take()[0].target, "/base/files/..%2F..%2Fadmin%3Fx%23y");
  });

  test("servers of operations and paths are joined right", async () => {
    const organization = newOrganization();
    const get = (operationId, servers) => ({ get: { operationId, ...(servers && { servers }) } });
    await putSource(organization, "api", {
      spec: {
        openapi: "3.1.0", info: { title: "T", version: "1" }, servers: [{ url: `${backend.url}/{version}/`, variables: { version: { default: "v1" } } }],
        paths: {
          "/root": get("root"), "/own": get("own", [{ url: `${backend.url}/own//` }]), "/path": { servers: [{ url: `${backend.url}/of-path` }], ...get("path") },
          "/bare": get("bare", [{ url: backend.url }]), "/fixed?action=list": get("fixed"),
        },
      },
      confirmedOrigins: [backend.origin],
    });
    const session = await openSession(gateway, { token: devToken({ organization }), query: { tool_mode: "direct" } });
    for (const [name, target] of [["root", "/v1/root"], ["own", "/own/own"], ["path", "/of-path/path"], ["bare", "/bare"], ["fixed", "/v1/fixed?action=list"]]) {
      backend.take();
      await session.tool(`api__${name}`, {});
      assert.equal(backend.take()[0]?.target, target);
    }
  });

  test("nothing of the agent's own request goes along but its trace", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const { call } = await sourceOf({ "/x": { get: { operationId: "x" } } }, {
      headers: { cookie: "session=agent", "x-agent": "1", "x-forwarded-for": "9.9.9.9", "user-agent": "agent/1", traceparent, baggage: "k=v", referer: "https://agent.example/" },
    });
    backend.take();
    await call("x");
    const [{ headers }] = backend.take();
    for (const name of ["authorization", "cookie", "x-agent", "x-forwarded-for", "referer", "origin", "mcp-session-id", "mcp-protocol-version"]) assert.equal(headers[name], undefined, name);
    assert.doesNotMatch(Object.values(headers).join("\n"), /dev:|agent/);
    assert.equal(headers.traceparent, traceparent);
    assert.match(headers["user-agent"], /^countersign\//);
  });
});

function assertParts(seen, parts) {
  const boundary = /^multipart\/form-data; boundary=([\w-]+)$/.exec(seen.headers["content-type"])[1];
  const expected = parts.flatMap(([head, bytes]) => [Buffer.from(`--${boundary}\r\n${head.join("\r\n")}\r\n\r\n`), Buffer.from(bytes), Buffer.from("\r\n")]);
  assert.deepEqual(seen.body, Buffer.concat([...expected, Buffer.from(`--${boundary}--\r\n`)]), String(seen.body));
}

describe("redirects", () => {
  const paths = { "/go": Object.fromEntries(["get", "post", "put", "delete"].map((method) => [method, { operationId: method, ...(/p/.test(method) && { requestBody: { required: true, content: { "text/plain": {} } } }) }])) };

  test("the same origin is followed, with the method that Fetch says", async (t) => {
    const { call } = await sourceOf(paths);
    for (const [method, status, then, body] of [
      ["get", 302, "GET", ""], ["post", 301, "GET", ""], ["post", 302, "GET", ""], ["post", 303, "GET", ""], ["post", 307, "POST", "b"], ["post", 308, "POST", "b"],
      ["put", 302, "PUT", "b"], ["put", 303, "GET", ""], ["delete", 303, "GET", ""], ["delete", 307, "DELETE", ""],
    ]) {
      answering(t, (request, response) => {
        if (request.url === "/base/go") response.writeHead(status, { location: "../other/place?x=1#y" }).end();
        else response.writeHead(200, { "content-type": "application/json" }).end('{"arrived":true}');
      });
      backend.take();
      const result = await call(method, /p/.test(method) ? { body: "b" } : {});
      assert.deepEqual(result.structuredContent, { arrived: true }, `${method} ${status} ${textOf(result)}`);
      const [first, second] = backend.take();
      assert.deepEqual([first.target, second.method, second.target, String(second.body)], ["/base/go", then, "/other/place?x=1", body], `${method} ${status}`);
      assert.equal(second.headers["content-type"], body ? "text/plain" : undefined);
    }
  });

  test("another origin, a loop and a redirect to nowhere are failures that say so", async (t) => {
    const { call } = await sourceOf(paths, { auth: { kind: "bearer", token: "the-token-of-redirects" } });
    for (const location of [`${other.url}/steal`, `//${new URL(other.url).host}/steal`, "http://169.254.169.254/latest", "file:///etc/passwd", `http://user:pass@${new URL(backend.url).host}/`, undefined]) {
      answering(t, (request, response) => response.writeHead(302, location === undefined ? {} : { location }).end());
      assert.match(textOf(failure(await call("get"))), /redirect/, String(location));
    }
    assert.deepEqual(other.take(), []);
    answering(t, (request, response) => response.writeHead(302, { location: "/base/go" }).end());
    backend.take();
    assert.match(textOf(failure(await call("get"))), /redirect/);
    assert.equal(backend.take().length, 6, "the request and five redirects");
  });
});

describe("answers", () => {
  test("what comes back is what was sent", async (t) => {
    const { call } = await sourceOf({ "/x": { get: { operationId: "x" }, head: { operationId: "h" } } });
    const bytes = Buffer.from([0, 255, 1, 254]);
    for (const [status, headers, body, data] of [
      [200, { "content-type": "application/json" }, '{"n":12345678901234567890,"f":1.10,"e":1e400}', { raw: '{"n":12345678901234567890,"f":1.10,"e":1e400}' }],
      [200, { "content-type": "application/hal+json; charset=utf-8" }, '{"a":"ü"}', { a: "ü" }],
      [200, { "content-type": "application/json;charset=utf-8;charset=utf-8" }, "{\"a\":1}", { a: 1 }],
      [200, { "content-type": "application/json" }, "not json", "not json"],
      [200, { "content-type": "text/html" }, '{"a":1}', '{"a":1}'],
      [200, {}, '{"a":1}', { a: 1 }],
      [200, { "content-type": "text/plain; charset=iso-8859-1" }, Buffer.from([0x67, 0x72, 0xfc, 0x6e]), "grün"],
      [200, { "content-type": "text/plain" }, "grün\n", "grün\n"],
      [200, { "content-type": "text/plain" }, Buffer.from([0x61, 0xff]), { mimeType: "text/plain", encoding: "base64", data: "Yf8=" }],
      [200, { "content-type": "image/png", "content-disposition": 'attachment; filename="a b.png"' }, bytes, { name: "a b.png", mimeType: "image/png", encoding: "base64", data: bytes.toString("base64") }],
      [200, { "content-type": "application/json", "content-encoding": "gzip" }, gzipSync('{"zip":true}'), { zip: true }],
      [200, { "content-type": "application/json", "content-encoding": "br" }, brotliCompressSync('{"br":true}'), { br: true }],
      [201, { "content-type": "application/json" }, "", null], [204, {}, "", null], [205, {}, "", null], [304, {}, "", null],
    ]) {
      answering(t, (request, response) => response.writeHead(status, headers).end(body));
      const result = await call("x");
      const named = `${status} ${JSON.stringify(headers)} ${body}: ${textOf(result)}`;
      assert.equal(result.isError, false, named);
      const text = result.content.map((block) => block.text ?? "").join("");
      // Digits stay; an exponent may get a sign.
      if (data?.raw) assert.equal(text.replace(/\s/g, "").replace("e+", "e"), data.raw, named);
      else if (typeof data === "string") assert.ok(text.includes(data), named);
      else if (data !== null && result.structuredContent) assert.deepEqual(result.structuredContent, data, named);
      else if (data !== null) assert.ok(textOf(result).includes(data.data), named);
    }
    answering(t, (request, response) => response.writeHead(200, { "content-type": "application/json", "content-length": "700" }).end());
    assert.equal((await call("h")).isError, false);
  });

  test("an error has the status and what the API said of it", async (t) => {
    const { call } = await sourceOf({ "/x": { get: { operationId: "x" } } });
    for (const [status, type, body, said] of [
      [400, "application/json", '{"message":"name is required"}', "name is required"], [404, "text/plain", "no such thing", "no such thing"],
      [422, "application/problem+json", '{"title":"Bad","detail":"too long"}', "too long"], [500, "text/html", "<html>oops</html>", "500"], [503, "text/plain", "", "503"],
      [400, "application/json", `{"message":"m","more":"${"x".repeat(200_000)}"}`, "bytes in all"],
    ]) {
      answering(t, (request, response) => response.writeHead(status, { "content-type": type }).end(body));
      const said_ = textOf(failure(await call("x")));
      assert.ok(said_.includes(String(status)) && said_.includes(said) && said_.length < 40_000, `${status} ${said_.slice(0, 500)}`);
    }
  });

  test("too much, too late and broken off are told apart, and a call that may have been carried out says so", async (t) => {
    const { call } = await sourceOf({ "/x": { get: { operationId: "get" }, post: { operationId: "post" }, put: { operationId: "put" } } });
    const ends = [
      ["result_too_large", "result_too_large", (request, response) => response.writeHead(200, { "content-type": "text/plain" }).end("x".repeat(LIMIT + 1))],
      ["result_too_large", "result_too_large", (request, response) => response.writeHead(200, { "content-type": "text/plain", "content-encoding": "gzip" }).end(gzipSync("x".repeat(LIMIT + 1)))],
      ["upstream_timeout", "outcome_unknown", () => {}],
      ["upstream_timeout", "outcome_unknown", (request, response) => response.writeHead(200, { "content-type": "text/plain" }).write("x")],
      ["upstream_unreachable", "outcome_unknown", (request) => request.socket.destroy()],
      ["upstream_unreachable", "outcome_unknown", (request, response) => { response.writeHead(200, { "content-length": "100" }).write("x", () => request.socket.destroy()); }],
    ];
    for (const [read, write, answer] of ends) {
      answering(t, answer);
      for (const [name, code] of [["get", read], ["post", write], ["put", write]]) {
        const said = textOf(failure(await call(name)));
        assert.ok(said.includes(code), `${name} ${answer}: ${said}`);
      }
    }
  });

  test("a request that nobody waits for any more is ended", async (t) => {
    const { call } = await sourceOf({ "/x": { get: { operationId: "x" } } });
    const closed = new Promise((done) => answering(t, (request) => request.socket.once("close", done)));
    await call("x");
    await closed;
  });
});

const addresses = ["http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/", "http://2130706433:1/", "http://0x7f.1:1/", "http://169.254.169.254/", "http://metadata.google.internal/", "http://[::ffff:10.0.0.1]/"];
test("local addresses are not called unless that is allowed", async () => {
  const strict = await startGateway({ vars: { COUNTERSIGN_SECRET_KEY: KEY } });
  try {
    const organization = newOrganization();
    for (const [index, baseUrl] of addresses.entries()) {
      const answer = await administrate(organization, "PUT", `sources/s${index}`, { kind: "openapi", baseUrl, spec: { openapi: "3.1.0", info: { title: "T", version: "1" }, paths: { "/x": { get: { operationId: "x" } } } } }, strict);
      if (answer.status >= 400) continue;
      const session = await openSession(strict, { token: devToken({ organization }), query: { tool_mode: "direct" } });
      assert.match(textOf(failure(await session.tool(`s${index}__x`, {}))), /address_refused/, baseUrl);
    }
  } finally {
    await strict.stop();
  }
});

describe("credentials", () => {
  const anything = { "/x": { get: { operationId: "x", parameters: [
    { name: "X-Api-Key", in: "header", schema: { type: "string" } }, { name: "api key", in: "query", schema: { type: "string" } },
    { name: "sid", in: "cookie", schema: { type: "string" } }, { name: "other", in: "cookie", schema: { type: "string" } },
  ] } } };
  const args = { "X-Api-Key": "of-the-model", "api_key": "of-the-model", sid: "of-the-model", other: "1" };
  const basic = `Basic ${Buffer.from("me:pässword-1").toString("base64")}`;
  for (const [auth, check] of [
    [{ kind: "bearer", token: "tok-1234567890" }, ({ headers }) => assert.equal(headers.authorization, "Bearer tok-1234567890")],
    [{ kind: "basic", username: "me", password: "pässword-1" }, ({ headers }) => assert.equal(headers.authorization, basic)],
    [{ kind: "header", name: "X-Api-Key", value: "key-1234567890" }, ({ headers }) => assert.equal(headers["x-api-key"], "key-1234567890")],
    [{ kind: "header", name: "Cookie", value: "sid=cookie-12345" }, ({ headers }) => assert.equal(headers.cookie, "other=1; sid=cookie-12345")],
    [{ kind: "query", name: "api key", value: "a&b=c d/ü" }, ({ target }) => assert.match(target, /\?api%20key=a%26b%3Dc%20d%2F%C3%BC$/)],
  ]) {
    test(`${auth.kind} ${auth.name ?? ""} is put in, and no argument replaces it`, async () => {
      const { call, organization } = await sourceOf(anything, { auth });
      backend.take();
      assert.equal((await call("x", args)).isError, false);
      const seen = backend.take();
      check(seen[0]);
      const shown = await administrate(organization, "GET", "sources/api");
      for (const secret of [auth.token, auth.password, auth.value].filter(Boolean)) assert.ok(!shown.text.includes(secret), shown.text);
    });
  }

  test("a credential goes to no origin that was not confirmed, and nobody is asked", async () => {
    const { call } = await sourceOf(
      { "/x": { get: { operationId: "x" } }, "/y": { servers: [{ url: other.url }], get: { operationId: "y" }, post: { operationId: "z" } } },
      { auth: { kind: "bearer", token: "tok-1234567890" }, baseUrl: undefined, confirmedOrigins: [backend.origin], servers: undefined },
    ).catch((error) => { throw error; });
    other.take();
    for (const name of ["y", "z"]) assert.match(textOf(failure(await call(name))), /origin_not_confirmed|confirmed/);
    assert.deepEqual(other.take(), []);
  });

  test("an echo of a secret is redacted in every form", async (t) => {
    const token = "S3cr3t+tok/en=with.parts~1";
    const { call } = await sourceOf({ "/x": { get: { operationId: "x" } } }, { auth: { kind: "bearer", token } });
    const forms = [
      token, encodeURIComponent(token), encodeURIComponent(token).replace(/%../g, (escape) => escape.toLowerCase()), ...["", "a", "ab"].flatMap((before) => [Buffer.from(`${before}${token}zz`).toString("base64"), Buffer.from(`${before}${token}`).toString("base64url")]),
      token.replaceAll("/", "\\/"), Buffer.from(token).toString("hex"),
    ];
    const parts = ["S3cr3t", "tok/en", "tok%2fen", "UzNjcjN0", "with.parts", Buffer.from(token).toString("hex").slice(4, 20), "M2NyM3Qrd", "zY3IzdCt0"];
    for (const [status, type, write] of [
      [200, "application/json", (form) => `{"echo":"Bearer ${form}","keep":"kept"}`], [200, "text/plain", (form) => `${form} kept`], [403, "application/json", (form) => `{"message":"bad ${form}","keep":"kept"}`],
      [200, "application/octet-stream", (form) => `\u0000\u00ff ${form} kept`], [500, "text/html", (form) => `<p>${form}</p>kept`],
    ]) {
      for (const form of forms) {
        answering(t, (request, response) => response.writeHead(status, { "content-type": type, "x-echo": token }).end(Buffer.from(write(form), "latin1")));
        const said = textOf(await call("x"));
        const decoded = [...said.matchAll(/[A-Za-z0-9+/]{16,}={0,2}/g)].map(([text]) => Buffer.from(text, "base64").toString("latin1")).join();
        for (const part of parts) assert.ok(!said.includes(part) && !decoded.includes(part), `${type} ${form}: ${said}`);
        assert.ok(said.includes("redacted") || decoded.includes("redacted"), said);
      }
    }
    answering(t, (request, response) => response.writeHead(302, { location: `https://elsewhere.example/?t=${encodeURIComponent(token)}` }).end());
    assert.ok(!textOf(await call("x")).includes("S3cr3t"));
    assert.ok(!gateway.output().includes("S3cr3t"));
  });

  test("secrets are readable under the old key, and unreadable without it", async () => {
    const own = await startGateway({ vars: { ALLOW_LOCAL_NETWORK: "true", COUNTERSIGN_SECRET_KEY: KEY } });
    const next = "Zm9x-8sQw2Er5Ty7Ui9Op1As3Df6Gh0Jk";
    try {
      const organization = newOrganization();
      const token = devToken({ organization });
      const put = (auth) => administrate(organization, "PUT", "sources/api", { kind: "openapi", baseUrl: backend.url, auth, spec: { openapi: "3.1.0", info: { title: "T", version: "1" }, paths: { "/x": { get: { operationId: "x" } } } } }, own);
      assert.ok((await put({ kind: "bearer", token: "tok-1234567890" })).status < 300);
      const call = async () => (await openSession(own, { token, query: { tool_mode: "direct" } })).tool("api__x", {});
      // Each is a deployment with other keys: does the credential still work there, and can it be written again?
      for (const [vars, works, writes] of [
        [{ COUNTERSIGN_SECRET_KEY: next }, false, undefined],
        [{ COUNTERSIGN_SECRET_KEY: next, COUNTERSIGN_SECRET_KEY_OLD: KEY }, true, true],
        [{ COUNTERSIGN_SECRET_KEY: next, COUNTERSIGN_SECRET_KEY_OLD: undefined }, true, true],
        [{ COUNTERSIGN_SECRET_KEY: "short", COUNTERSIGN_SECRET_KEY_OLD: undefined }, false, false],
        [{ COUNTERSIGN_SECRET_KEY: undefined }, false, false],
      ]) {
        Object.assign(own.vars, vars);
        await own.kill();
        await own.start();
        const named = Object.values(vars).join();
        backend.take();
        const result = await call();
        const [seen] = backend.take();
        if (works) assert.equal(seen?.headers.authorization, "Bearer tok-1234567890", `${named} ${textOf(result)}`);
        else assert.match(textOf(failure(result)), /credential_unavailable/);
        if (!works) assert.equal(seen, undefined, named);
        if (writes === undefined) continue;
        const { status, text } = await put({ kind: "bearer", token: "tok-1234567890" });
        assert.equal(status < 300, writes, `${named} ${text}`);
        assert.equal(/COUNTERSIGN_SECRET_KEY/.test(text), !writes, text);
        assert.ok(!text.includes("tok-"), text);
      }
    } finally {
      await own.stop();
    }
  });
});

describe("OAuth client credentials", () => {
  const paths = { "/x": { get: { operationId: "x" }, post: { operationId: "p" } } };
  const auth = (more = {}) => ({ kind: "oauth2_client_credentials", tokenUrl: `${other.url}/token`, clientId: "me", clientSecret: "client-secret-1", scope: "a b", ...more });
  let issued = 0;
  const issues = (t, answer) => {
    other.answer = answer ?? ((request, response) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ access_token: `access-token-${(issued += 1)}`, token_type: "Bearer", expires_in: 3600 })));
    other.take();
    t.after(() => (other.answer = undefined));
  };

  test("a token is fetched once, kept, and fetched anew when it is refused", async (t) => {
    issues(t);
    const { call } = await sourceOf(paths, { auth: auth() });
    backend.take();
    for (let round = 0; round < 3; round += 1) assert.equal((await call("x")).isError, false);
    const asked = other.take();
    assert.equal(asked.length, 1);
    assert.equal(asked[0].headers.authorization, `Basic ${Buffer.from("me:client-secret-1").toString("base64")}`);
    assert.equal(String(asked[0].body), "grant_type=client_credentials&scope=a+b");
    const [first] = backend.take().map(({ headers }) => headers.authorization);
    assert.match(first, /^Bearer access-token-/);
    answering(t, (request, response) => response.writeHead(request.headers.authorization === first ? 401 : 200, { "content-type": "application/json" }).end("{}"));
    assert.equal((await call("p")).isError, false, "a 401 says that the call was not carried out");
    assert.equal(backend.take().length, 2);
    assert.equal(other.take().length, 1);
    answering(t, (request, response) => response.writeHead(401).end());
    assert.match(textOf(failure(await call("p"))), /401/);
    assert.equal(backend.take().length, 2, "once more, and not again");
  });

  test("a server that takes the client's secret in the body only gets it there", async (t) => {
    issues(t, (request, response, seen) => {
      const inBody = /client_id=me&client_secret=client-secret-1/.test(String(seen.body));
      response.writeHead(inBody ? 200 : 401, { "content-type": "application/json" }).end(inBody ? '{"access_token":"body-token-1"}' : '{"error":"invalid_client"}');
    });
    const { call } = await sourceOf(paths, { auth: auth() });
    backend.take();
    assert.equal((await call("x")).isError, false);
    assert.equal(backend.take()[0].headers.authorization, "Bearer body-token-1");
  });

  test("without a token the call is not sent, and the reason has no secret", async (t) => {
    const { call } = await sourceOf(paths, { auth: auth() });
    for (const [status, body, headers = {}] of [
      [400, '{"error":"invalid_scope","error_description":"client-secret-1 may not"}'], [500, "oops"], [200, "{}"], [200, '{"access_token":"a\\nb"}'], [302, "", { location: `${backend.url}/steal` }],
      [200, JSON.stringify({ access_token: "x", filler: "y".repeat(100_000) })],
    ]) {
      issues(t, (request, response) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(body));
      backend.take();
      const said = textOf(failure(await call("p")));
      assert.match(said, /credential_unavailable/, `${status} ${body.slice(0, 50)}: ${said}`);
      assert.doesNotMatch(said, /client-secret-1/);
      assert.deepEqual(backend.take(), []);
    }
  });
});

test("a body that is cut short is not taken for a whole one", async () => {
  const cut = createServer((socket) => socket.once("data", () => socket.end('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{"a":[1,2\r\n')));
  await new Promise((ready) => cut.listen(0, "127.0.0.1", ready));
  try {
    const { call } = await sourceOf({ "/x": { get: { operationId: "x" } } }, { baseUrl: `http://127.0.0.1:${cut.address().port}` });
    assert.match(textOf(failure(await call("x"))), /upstream_unreachable/);
  } finally {
    cut.close();
  }
});
