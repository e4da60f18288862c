// Requests that no client sends: mutated bodies, headers, methods and ids. Whatever comes in, an answer of the documented form
// goes out, nothing is stored for it, and other sessions do not notice.
// `HOSTILE_COUNT=10000 npm test -- hostile` sends more; HOSTILE_SEED repeats a run.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { Agent, request as httpRequest } from "node:http";
import { connect } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { devToken, openSession, seeded, startGateway, waitFor } from "./harness/index.mjs";

const COUNT = Number(process.env.HOSTILE_COUNT ?? 1_500);
const seed = Number(process.env.HOSTILE_SEED ?? randomInt(1 << 30));
const IN_FLIGHT = 16;
/** A program that was started, a wait for a decision, and sixteen neighbours on a small machine. */
const ANSWER_TIMEOUT_MS = 10_000;
const RESUME_WAIT_MS = 200;

/** What is made of random numbers. Each case has its own, so that it does not depend on the order of answers. */
function generator(state) {
  const next = seeded(state);
  const below = (limit) => Math.floor(next() * limit);
  return { below, chance: (probability) => next() < probability, pick: (list) => list[below(list.length)] };
}

// ---- JSON that JSON.stringify does not write ------------------------------------------------------------------------------

/** Text that is written as it is. */
class Raw {
  constructor(text) {
    this.text = text;
  }
}

/** An object as a list of pairs: keys may repeat. */
class Pairs {
  constructor(entries) {
    this.entries = entries;
  }
}

function toTree(value) {
  if (Array.isArray(value)) return value.map(toTree);
  if (value !== null && typeof value === "object") return new Pairs(Object.entries(value).map(([key, inner]) => [key, toTree(inner)]));
  return value;
}

function write(tree) {
  if (tree instanceof Raw) return tree.text;
  if (tree instanceof Pairs) return `{${tree.entries.map(([key, value]) => `${JSON.stringify(key)}:${write(value)}`).join(",")}}`;
  if (Array.isArray(tree)) return `[${tree.map(write).join(",")}]`;
  return JSON.stringify(tree);
}

const KEYS = ["", "\u0000", ..."__proto__ constructor toJSON id jsonrpc method params result error _meta name arguments cursor".split(" ")];
const NUMBERS = [
  ..."-0 0.1 1e3 1e308 1e999 -1e999 1e-999 00 +1 .5 0x10 NaN Infinity".split(" "),
  ...["9007199254740993", "-9223372036854775809", "18446744073709551616", `1${"0".repeat(400)}`],
];
const STRINGS = ['"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '""', '"\\u202e\\u200b"', '"é💥\\ufffe"', '"\\x"', '"\u2028"', '"a\tb"', "'a'"];
const NOTHINGS = ["null", "true", "false", "{}", "[]", "[[]]", "undefined", "//", "/**/1", "[1,]", "{,}"];

function hostileValue({ below, pick }) {
  switch (below(6)) {
    case 0:
      return new Raw(pick(NUMBERS));
    case 1:
      return new Raw(pick(STRINGS));
    case 2:
      return new Raw(pick(NOTHINGS));
    case 3: {
      const depth = pick([2, 100, 255, 257, 3_000]);
      return new Raw(pick([() => `${"[".repeat(depth)}${"]".repeat(depth)}`, () => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`])());
    }
    case 4:
      return pick(["x", "é", "💥", "\\", "\n"]).repeat(pick([10, 1_025, 20_000]));
    default:
      return new Pairs([
        [pick(KEYS), 1],
        [pick(KEYS), new Raw(pick(NUMBERS))],
      ]);
  }
}

/** Changes one place of a tree; gives the tree. */
function mutateTree(tree, random) {
  const { below, chance, pick } = random;
  const children = tree instanceof Pairs ? tree.entries.length : Array.isArray(tree) ? tree.length : 0;
  if (children > 0 && chance(0.75)) {
    const index = below(children);
    if (tree instanceof Pairs) tree.entries[index][1] = mutateTree(tree.entries[index][1], random);
    else tree[index] = mutateTree(tree[index], random);
    return tree;
  }
  if (tree instanceof Pairs && chance(0.6)) {
    const index = below(tree.entries.length + 1);
    const known = tree.entries[index] ?? [pick(KEYS), 1];
    switch (below(4)) {
      case 0:
        tree.entries.splice(index, 1);
        break;
      case 1:
        tree.entries.push([known[0], hostileValue(random)]);
        break;
      case 2:
        tree.entries.unshift([known[0], hostileValue(random)]);
        break;
      default:
        if (tree.entries[index]) tree.entries[index][0] = pick([...KEYS, known[0].toUpperCase(), `${known[0]} `]);
    }
    return tree;
  }
  return chance(0.15) ? [tree] : hostileValue(random);
}

const BYTES = [
  [0xff],
  [0xc0, 0x80],
  [0xed, 0xa0, 0x80],
  [0xf4, 0x90, 0x80, 0x80],
  [0xe2, 0x28],
  [0x00],
  [0x22],
  [0x5c],
  [0x7b],
  [0x5d],
  [0xef, 0xbb, 0xbf],
];

function mutateBytes(bytes, { below, pick }) {
  const at = below(bytes.length + 1);
  const to = Math.min(bytes.length, at + 1 + below(20));
  const splice = (middle) => Buffer.concat([bytes.subarray(0, at), middle, bytes.subarray(to)]);
  switch (below(9)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return bytes.subarray(at);
    case 2:
      return splice(Buffer.from(pick(BYTES)));
    case 3:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from(pick(BYTES)), bytes.subarray(at)]);
    case 4:
      return splice(Buffer.concat([bytes.subarray(at, to), bytes.subarray(at, to)]));
    case 5:
      return Buffer.concat([bytes, bytes]);
    case 6: {
      const flipped = Buffer.from(bytes);
      if (at < flipped.length) flipped[at] ^= 1 << below(8);
      return flipped;
    }
    case 7:
      return Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes]);
    default:
      return pick([
        () => Buffer.from(bytes.toString("utf8"), "utf16le"),
        () => gzipSync(bytes),
        () => Buffer.alloc(0),
        () => Buffer.concat([Buffer.alloc(2_000, " "), bytes, Buffer.alloc(2_000, "\n")]),
      ])();
  }
}

// ---- requests that are fine -----------------------------------------------------------------------------------------------

const VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/** The sessions that are attacked. */
const VICTIMS = [
  ...VERSIONS.map((version) => ({ version, query: { elicitation_mode: "model" } })),
  { version: "2025-11-25", query: { elicitation_mode: "native" } },
  { version: "2025-06-18", query: { elicitation_mode: "model", tool_mode: "direct" } },
];

const MESSAGES = [
  [
    3,
    ({ pick }) => ({
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: {
        protocolVersion: pick([...VERSIONS, "2026-07-28", "x"]),
        capabilities: { elicitation: { form: {} } },
        clientInfo: { name: "hostile", version: "1" },
      },
    }),
  ],
  [2, () => ({ jsonrpc: "2.0", id: "p", method: "ping" })],
  [3, () => ({ jsonrpc: "2.0", id: 2, method: "tools/list", params: { cursor: null, _meta: { progressToken: 7 } } })],
  [3, () => ({ jsonrpc: "2.0", id: 3, method: "tools/call", params: { name: "skills", arguments: { name: "approvals" } } })],
  [1, ({ pick }) => ({ jsonrpc: "2.0", id: 4, method: "tools/call", params: { name: "execute", arguments: { code: pick(PROGRAMS) } } })],
  [
    1,
    ({ pick }) => ({
      jsonrpc: "2.0",
      id: 4,
      method: "tools/call",
      params: {
        name: `demo__${pick(["getItem", "listItems", "updateItem"])}`,
        arguments: { id: "item-1", quantity: 2 },
        _meta: { progressToken: pick([1, "x"]) },
      },
    }),
  ],
  [
    3,
    ({ pick }, world) => ({
      jsonrpc: "2.0",
      id: 5,
      method: "tools/call",
      params: {
        name: "resume",
        arguments: { executionId: pick(world.executionIds), action: pick(["accept", "decline", "cancel"]), content: { reason: "x" } },
      },
    }),
  ],
  [1, () => ({ jsonrpc: "2.0", id: 6, method: "server/discover", params: { _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } } })],
  [
    1,
    ({ pick }) => ({
      jsonrpc: "2.0",
      id: 6,
      method: pick(["resources/list", "prompts/get", "logging/setLevel", "completion/complete", "tasks/list", "roots/list", "subscriptions/listen"]),
      params: { name: "x", level: "debug", uri: "x:" },
    }),
  ],
  [
    2,
    ({ pick }) => ({
      jsonrpc: "2.0",
      method: `notifications/${pick(["initialized", "progress", "roots/list_changed"])}`,
      params: { progressToken: 1, progress: 2 },
    }),
  ],
  [2, ({ pick }) => ({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: pick([1, 4, 5, "x"]), reason: "x" } })],
  [1, () => ({ jsonrpc: "2.0", id: 8, result: { action: "accept", content: { a: 1 } } })],
  [1, () => ({ jsonrpc: "2.0", id: 8, error: { code: -1, message: "no", data: [1] } })],
  [
    2,
    (random) =>
      Array.from({ length: random.pick([1, 2, 5, 100, 101]) }, (_, index) => ({
        jsonrpc: "2.0",
        id: random.pick([1, index]),
        method: random.pick(["ping", "tools/list", "nothing"]),
      })),
  ],
];
const PROGRAMS = [
  "return 1",
  "return await tools.search({ query: 'item' })",
  "return (await tools.demo.getItem({ id: 'item-1' })).ok",
  "return await tools.demo.deleteItem({ id: 'item-1' })",
  "throw new Error('x')",
  "for (;;) {}",
];

/** One of `[weight, value]`. */
function weighted(list, { below }) {
  let rest = below(list.reduce((sum, [weight]) => sum + weight, 0));
  return list.find(([weight]) => (rest -= weight) < 0)[1];
}

const HEADERS = {
  accept: [
    "",
    "text/html",
    "*/*;q=0",
    "application/json;q=0, text/event-stream;q=0",
    "text/event-stream",
    "application/json",
    "a/b,".repeat(2_000),
    "*/*;q=,;;,",
    "\t,\t",
  ],
  "content-type": [
    "",
    "text/plain",
    "application/json; charset=utf-16",
    "application/json;".repeat(500),
    "APPLICATION/JSON",
    "application/jsonx",
    "multipart/form-data; boundary=x",
    "application/json, application/json",
  ],
  "mcp-session-id": [
    "",
    "x",
    "0".repeat(64),
    "f".repeat(64),
    "F".repeat(64),
    "0".repeat(63),
    "z".repeat(64),
    "../../../etc/passwd",
    "a".repeat(5_000),
    "é".repeat(10),
    "null",
    "undefined",
  ],
  "mcp-protocol-version": ["", "2025-03-26", "2026-07-28", "1999-01-01", "9999-99-99", "x".repeat(3_000), "é", "2025-11-25, 2025-11-25", "-1"],
  "last-event-id": [
    "",
    "0-0",
    "1-0",
    "1-1",
    "-1-0",
    "1",
    "99999999999999999999-1",
    "1-99999999999",
    "1-0-0",
    "x".repeat(3_000),
    "é-1",
    "01-1",
    "1e3-0",
  ],
  origin: [
    "",
    "null",
    "https://evil.example",
    "http://localhost:1",
    "http://",
    "file:///",
    "é",
    "http://127.0.0.1.evil.example",
    "x".repeat(3_000),
    "http://[::1",
  ],
  authorization: [
    "",
    "Bearer",
    "Bearer ",
    "Basic eDp5",
    "bearer dev:ada@acme",
    "Bearer dev:",
    "Bearer dev:@",
    "Bearer dev:eve@acme",
    "Bearer dev:ada@other",
    "Bearer dev:ada@acme:approver",
    "Bearer dev:a@b@c",
    `Bearer ${"x".repeat(6_000)}`,
    "Bearer é",
    "Bearer dev:\u00e9@acme",
    "Bearer dev:ada@acme:admin,approver,x",
  ],
  "x-countersign-context": [
    "",
    "x",
    "e30=",
    Buffer.from(
      JSON.stringify({
        version: 2,
        asked: {},
        principal: { account: "ada", organization: "acme", admin: true, purpose: "mcp" },
        resource: "default",
        public_origin: "x",
        operation: { name: "open" },
      }),
    ).toString("base64"),
    "\u00ff",
  ],
  "x-countersign-anything": ["1", "é"],
  "mcp-method": ["tools/call", "", "é", "=?base64?AAAA?="],
  "mcp-name": ["execute", "=?base64?!!!?=", "é"],
  "content-encoding": ["gzip", "br", "x"],
  traceparent: ["00-0-0-0", `00-${"a".repeat(32)}-${"b".repeat(16)}-01`, "é", "x".repeat(3_000)],
  tracestate: ["a=b,".repeat(600), "é"],
  baggage: ["é", "=,;"],
  cookie: ["countersign_dev=%ff", "é", "=;="],
  "cf-connecting-ip": ["x"],
  "access-control-request-headers": ["mcp-param-é", "mcp-param-a,".repeat(500)],
};
const METHODS = ["PUT", "PATCH", "OPTIONS", "HEAD", "REPORT", "GET", "DELETE", "POST"];
const PATHS = [
  "/mcp/",
  "/mcp?",
  "/mcp?elicitation_mode=model",
  "/mcp?elicitation_mode=%ff",
  "/mcp?tool_mode=x&tool_mode=code",
  "/mcp?%00=%ff&&=",
  `/mcp?${"a=b&".repeat(500)}`,
  "/mcp/toolkits/x",
  "/mcp/toolkits/%ff",
  "/mcp/x",
  "/mcp//",
];

/** One request: a fine one, changed in a few places. `world` has what the gateway gave out. */
function makeCase(random, world) {
  const { chance, pick } = random;
  const session = pick(world.sessions);
  const headers = {
    authorization: `Bearer ${devToken()}`,
    "content-type": "application/json",
    accept: pick(["application/json, text/event-stream", "application/json, text/event-stream", "application/json", "*/*"]),
    "mcp-session-id": session.id,
    "mcp-protocol-version": session.version,
  };
  const made = { method: "POST", path: "/mcp", headers, body: Buffer.alloc(0) };
  if (chance(0.04)) return makePageCase(made, random, world);
  if (chance(0.1)) {
    made.method = pick(METHODS);
    if (made.method === "DELETE" && chance(0.8)) headers["mcp-session-id"] = pick(HEADERS["mcp-session-id"]);
    if (chance(0.7)) headers["last-event-id"] = pick(HEADERS["last-event-id"]);
  }
  if (made.method === "POST" || chance(0.3)) {
    const message = weighted(MESSAGES, random)(random, world);
    const isInitialize = message.method === "initialize";
    // Clients do keep stale ids, but most have none when they initialise.
    if (isInitialize && chance(0.7)) for (const name of ["mcp-session-id", "mcp-protocol-version"]) delete headers[name];
    let tree = toTree(message);
    if (chance(0.6)) for (let left = pick([1, 1, 2, 4]); left > 0; left--) tree = mutateTree(tree, random);
    made.body = Buffer.from(write(tree) ?? "");
    if (chance(0.3)) for (let left = pick([1, 1, 3]); left > 0; left--) made.body = mutateBytes(made.body, random);
    if (chance(0.003)) made.body = Buffer.concat([made.body, Buffer.alloc(pick([4 << 20, 5 << 20]), pick([" ", "[", "x"]))]);
  }
  if (chance(0.35)) {
    for (let left = pick([1, 1, 2, 5]); left > 0; left--) {
      const name = pick(Object.keys(HEADERS));
      if (chance(0.2)) delete headers[name];
      // An id of the right form that is not one: of another namespace, of a wrong digit.
      else if (name === "mcp-session-id" && chance(0.5))
        headers[name] = pick([
          world.foreignId,
          session.id.replace(/^./, (digit) => (digit === "0" ? "1" : "0")),
          session.id.toUpperCase(),
          `${session.id},${session.id}`,
          world.strangerId,
        ]);
      else headers[name] = chance(0.1) ? [pick(HEADERS[name]), pick(HEADERS[name])] : pick(HEADERS[name]);
    }
  }
  if (chance(0.08)) made.path = pick(PATHS);
  return made;
}

/** The approval API and pages: fewer rules, but never a failure. */
function makePageCase(made, random, world) {
  const { chance, pick } = random;
  const execution = pick([...world.executionIds, "x", "%ff"]);
  const session = pick([world.pauseSession, "0".repeat(64), "x"]);
  made.path = pick([
    `/api/mcp-sessions/${session}/executions/${execution}/resume`,
    `/api/mcp-sessions/${session}/executions/${execution}`,
    `/resume/${execution}?mcp_session_id=${session}`,
    "/api/x",
    "/.well-known/oauth-protected-resource/mcp/x",
    "/%ff",
    "/assets/x",
  ]);
  made.method = pick(["GET", "POST", "PUT"]);
  made.headers = {
    "content-type": pick(["application/json", "application/x-www-form-urlencoded", ""]),
    ...(chance(0.8) ? { authorization: `Bearer ${devToken({ roles: ["approver"] })}` } : {}),
  };
  let tree = toTree(
    pick([{ action: "accept", digest: "f".repeat(64), reason: "x" }, { decisions: [{ call: 0, digest: "f".repeat(64), action: "decline" }] }]),
  );
  if (chance(0.8)) tree = mutateTree(tree, random);
  if (made.method !== "GET") made.body = chance(0.2) ? mutateBytes(Buffer.from(write(tree)), random) : Buffer.from(write(tree));
  return made;
}

// ---- sending and judging --------------------------------------------------------------------------------------------------

/** Sends what fetch would refuse to. Reads the answer to its end, except for a stream that GET opened: that one is cancelled. */
function exchange(gateway, agent, { method, path, headers, body }) {
  const latin = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
  if (body.length > 0) latin["content-length"] = String(body.length);
  return new Promise((resolve, reject) => {
    const request = httpRequest(new URL(gateway.url), { agent, method, path, headers: latin });
    const overdue = setTimeout(() => request.destroy(new Error(`no answer within ${ANSWER_TIMEOUT_MS} ms`)), ANSWER_TIMEOUT_MS);
    const done = (response, chunks, whole) => {
      clearTimeout(overdue);
      resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(chunks).toString("utf8"), whole });
    };
    request.once("error", (error) => {
      clearTimeout(overdue);
      reject(error);
    });
    request.once("response", (response) => {
      const chunks = [];
      if (method === "GET" && response.headers["content-type"]?.startsWith("text/event-stream")) {
        done(response, chunks, false);
        request.on("error", () => {});
        response.on("error", () => {});
        request.destroy();
        return;
      }
      response.on("data", (chunk) => chunks.push(chunk));
      response.once("end", () => done(response, chunks, true));
      response.once("error", reject);
    });
    request.end(body);
  });
}

const STATUSES = new Set([200, 202, 204, 400, 401, 403, 404, 405, 406, 413, 415, 500]);
const PAGE_STATUSES = new Set([...STATUSES, 303, 409]);

function assertMessage(message, expectedId) {
  assert.equal(message?.jsonrpc, "2.0");
  if (message.method !== undefined) return;
  assert.ok((message.result === undefined) !== (message.error === undefined), "either a result or an error");
  if (message.error) {
    assert.ok(Number.isInteger(message.error.code) && typeof message.error.message === "string" && message.error.message !== "");
  }
  assert.ok(message.id === null || ["string", "number"].includes(typeof message.id));
  if (expectedId !== undefined && message.id !== null) assert.deepEqual(message.id, expectedId, "the answer has the request's id");
  if (message.result !== undefined) assert.notEqual(message.id, null);
}

/** Holds an answer against what every answer has to be. Gives the JSON-RPC errors in it. */
function judge({ method, path, body }, { status, headers, text, whole }) {
  const onMcp = /^\/mcp\/*($|\?|\/toolkits\/[^/]+$)/.test(path);
  assert.ok((onMcp ? STATUSES : PAGE_STATUSES).has(status), `status ${status} is none of the documented ones`);
  if (onMcp) {
    assert.equal(headers["access-control-allow-origin"], "*", "CORS");
    assert.match(headers["access-control-expose-headers"] ?? "", /mcp-session-id/, "CORS");
  }
  if (onMcp && !path.includes("/toolkits/") && !["GET", "POST", "DELETE", "OPTIONS"].includes(method)) {
    assert.equal(status, 405, `${method} is no method of /mcp`);
    assert.match(headers.allow ?? "", /GET, POST, DELETE, OPTIONS/);
  }
  const type = headers["content-type"] ?? "";
  if (method === "HEAD") return [];
  if (status === 202 || status === 204) {
    assert.equal(text, "");
    return [];
  }
  if (!onMcp && !type.startsWith("application/json")) return [];
  let sent;
  try {
    sent = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    // No JSON was sent.
  }
  const expectedId = ["string", "number"].includes(typeof sent?.id) ? sent.id : undefined;
  let messages;
  if (type === "text/event-stream") {
    if (!whole) return [];
    messages = text
      .split("\n\n")
      .map((block) =>
        block
          .split("\n")
          .filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).trim())
          .join("\n"),
      )
      .filter((data) => data !== "")
      .flatMap((data) => JSON.parse(data));
  } else if (text === "") {
    assert.equal(status, 200, "only a DELETE without a session is answered with nothing");
    return [];
  } else {
    assert.equal(type, "application/json");
    const parsed = JSON.parse(text);
    messages = Array.isArray(parsed) ? parsed : [parsed];
    if (!onMcp && status < 400) return [];
    if (status >= 400) assert.ok(!Array.isArray(parsed) && parsed.error, "an error status has an error");
  }
  for (const message of messages) assertMessage(message, Array.isArray(sent) ? undefined : expectedId);
  return messages.flatMap(({ error }) => error ?? []);
}

function describe(index, { method, path, headers, body }, answer) {
  const short = (text) => (text.length > 1_500 ? `${text.slice(0, 1_500)}… (${text.length})` : text);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${short(JSON.stringify(value))}`);
  return `HOSTILE_SEED=${seed}, request ${index}:\n${method} ${short(path)}\n${lines.join("\n")}\n\n${short(JSON.stringify(body.toString("latin1")))}\n--- answer: ${answer ? `${answer.status} ${short(answer.text)}` : "none"}`;
}

test("a method that the gateway does not know is refused like any other that is not its own", async (t) => {
  const gateway = await startGateway();
  t.after(() => gateway.stop());
  const session = await openSession(gateway);
  for await (const _ of (
    await session.send({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "execute", arguments: { code: "return 1" } } })
  ).body);
  // All that the runtime itself lets through.
  for (const method of [
    "HEAD",
    "PUT",
    "PATCH",
    "COPY",
    "LOCK",
    "MKCOL",
    "MOVE",
    "PROPFIND",
    "PROPPATCH",
    "SEARCH",
    "UNLOCK",
    "ACL",
    "REPORT",
    "MKACTIVITY",
    "CHECKOUT",
    "MERGE",
    "NOTIFY",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PURGE",
  ]) {
    const answer = await exchange(gateway, undefined, {
      method,
      path: "/mcp",
      headers: { authorization: `Bearer ${devToken()}`, accept: "text/event-stream", "mcp-session-id": session.id, "last-event-id": "1-0" },
      body: Buffer.alloc(0),
    });
    assert.equal(answer.status, 405, `${method}: ${answer.text}`);
    assert.equal(answer.headers.allow, "GET, POST, DELETE, OPTIONS", method);
    assert.equal(answer.headers["access-control-allow-origin"], "*", method);
  }
  assert.equal((await session.call("ping")).status, 200);
});

test("a client that goes away in the middle of its request is no internal error", async (t) => {
  const gateway = await startGateway();
  t.after(() => gateway.stop());
  const session = await openSession(gateway, { token: devToken() });
  const { host, hostname, port } = new URL(gateway.url);
  const hangUp = (id, framing, body) =>
    new Promise((done, failed) => {
      const head = [
        "POST /mcp HTTP/1.1",
        `Host: ${host}`,
        `Authorization: Bearer ${devToken()}`,
        ...(id ? [`Mcp-Session-Id: ${id}`] : []),
        "Content-Type: application/json",
        framing,
      ];
      const socket = connect(Number(port), hostname, () => socket.write(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy()));
      socket.once("close", done).once("error", failed);
    });
  for (let times = 0; times < 5; times++) {
    for (const id of [undefined, session.id]) {
      await hangUp(id, "Content-Length: 500", '{"jsonrpc":');
      await hangUp(id, "Content-Length: 500000", '{"jsonrpc":');
      await hangUp(id, "Transfer-Encoding: chunked", "5\r\n[1,2,\r\n");
      assert.equal((await session.call("ping")).status, 200);
    }
  }
  assert.deepEqual(gateway.logs("mcp_internal_error"), []);
});

test(`${COUNT} hostile requests (HOSTILE_SEED=${seed})`, { timeout: 60_000 + COUNT * 50 }, async (t) => {
  const gateway = await startGateway({
    vars: { DEV_REQUIRE_TOKEN: "true", RESUME_WAIT_MS: String(RESUME_WAIT_MS), APPROVAL_WINDOW_MS: "5000", EXECUTION_TIMEOUT_MS: "5000" },
  });
  t.after(() => gateway.stop());
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
  t.after(() => agent.destroy());

  // Everything that was opened, by whoever: nothing else may be stored.
  const opened = new Set();
  const open = async (options) => {
    const session = await openSession(gateway, options);
    opened.add(session.id);
    return session;
  };
  const openVictim = async ({ version, query }) => ({
    id: (await open({ protocolVersion: version, query, capabilities: { elicitation: { form: {}, url: {} } } })).id,
    version,
    query,
  });
  const neighbour = await open({ token: devToken({ account: "nora", organization: "next-door" }) });
  const stranger = await open({ token: devToken({ account: "eve" }) });
  const paused = await open();
  const pause = (await paused.tool("execute", { code: PROGRAMS[3] })).structuredContent;
  assert.match(pause.executionId, /^exec_/);
  await neighbour.tool("execute", { code: PROGRAMS[1] });
  const [foreignId] = await gateway.objects("OrganizationDurableObject");
  const idOf = (object) => `exec_${Buffer.concat([Buffer.from(object, "hex"), Buffer.alloc(12)]).toString("base64url")}`;
  const world = {
    sessions: await Promise.all(VICTIMS.map(openVictim)),
    strangerId: stranger.id,
    foreignId,
    pauseSession: paused.id,
    // One that waits, two of sessions without such a pause, one of no session, and what is none at all.
    executionIds: [
      pause.executionId,
      idOf(neighbour.id),
      idOf(stranger.id),
      idOf(foreignId),
      idOf("0".repeat(64)),
      "exec_",
      `exec_${"A".repeat(59)}`,
    ],
  };

  const probed = new Set();
  const findings = new Map();
  const correlations = [];
  const statuses = new Map();
  // A few of each kind: one that is frequent must not hide the others.
  const find = (index, made, answer, error) => {
    const kind = findings.get(error.message) ?? [];
    findings.set(error.message, kind);
    if (kind.length < 2) kind.push(describe(index, made, answer));
  };
  let next = 0;
  let attacking = true;
  const attack = async () => {
    while (next < COUNT) {
      const index = next++;
      const made = makeCase(generator(seed + Math.imul(index, 0x9e3779b1)), world);
      for (const id of [made.headers["mcp-session-id"]].flat()) if (id !== undefined) probed.add(id);
      let answer;
      try {
        answer = await exchange(gateway, agent, made);
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        const id = answer.headers["mcp-session-id"];
        if (id !== undefined) opened.add(id);
        for (const { code, message } of judge(made, answer)) {
          if (code !== -32603) continue;
          const correlation = /[0-9a-f]{16}/.exec(message)?.[0];
          assert.ok(correlation, `an internal error has a correlation id: ${message}`);
          correlations.push(correlation);
          find(index, made, answer, new Error("internal error"));
        }
        assert.notEqual(answer.status, 500, "internal error");
        // A request with the right id, bearer and method is a real DELETE.
        if (made.method === "DELETE" && answer.status === 200) {
          const gone = world.sessions.findIndex((session) => session.id === made.headers["mcp-session-id"]);
          if (gone >= 0) world.sessions[gone] = await openVictim(world.sessions[gone]);
        }
      } catch (error) {
        find(index, made, answer, error);
      }
    }
  };
  let visits = 0;
  let slowest = 0;
  const live = async () => {
    while (attacking) {
      const since = performance.now();
      assert.deepEqual((await neighbour.call("ping")).result, {});
      assert.equal((await neighbour.call("tools/list")).result.tools.length, 3);
      if (visits % 10 === 0) assert.equal((await neighbour.tool("execute", { code: PROGRAMS[2] })).structuredContent.result, true);
      slowest = Math.max(slowest, performance.now() - since);
      visits += 1;
    }
  };
  const living = live();
  living.catch(() => {});
  const since = performance.now();
  await Promise.all(Array.from({ length: IN_FLIGHT }, attack));
  attacking = false;
  await living;
  t.diagnostic(
    `${Math.round(COUNT / ((performance.now() - since) / 1_000))} requests a second; ${[...statuses]
      .sort(([a], [b]) => a - b)
      .map(([status, count]) => `${status}: ${count}`)
      .join(", ")}; the neighbour's slowest of ${visits} visits took ${Math.round(slowest)} ms`,
  );

  for (const correlation of correlations) {
    await waitFor(() => gateway.logs("mcp_internal_error").some(({ correlationId }) => correlationId === correlation), {
      what: `${correlation} is in the log`,
    });
  }
  if (findings.size > 0) assert.fail([...findings].map(([message, cases]) => [message, ...cases].join("\n\n")).join("\n\n\n"));
  assert.doesNotMatch(gateway.output(), /panic|RuntimeError|unreachable/i);
  assert.ok(visits > 0 && slowest < ANSWER_TIMEOUT_MS);

  const unknown = (await gateway.objects("SessionDurableObject")).filter((id) => !opened.has(id));
  assert.deepEqual(
    unknown.filter((id) => probed.has(id)),
    [],
    "no object was started for an id that was not given out",
  );
  // The object of an initialize that was refused has been started, but has stored nothing.
  for (const id of unknown) assert.deepEqual(await gateway.sql("SessionDurableObject", id, "SELECT name FROM sqlite_master"), [], id);
  const survivors = await Promise.all(
    world.sessions.map(({ id, version }) =>
      gateway.fetch("/mcp", {
        method: "POST",
        headers: { authorization: `Bearer ${devToken()}`, "content-type": "application/json", "mcp-session-id": id, "mcp-protocol-version": version },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
      }),
    ),
  );
  assert.deepEqual(
    survivors.map(({ status }) => status),
    VICTIMS.map(() => 200),
    "the attacked sessions still work",
  );
  assert.equal((await stranger.call("ping")).status, 200, "and so does one that they had no right to");
});
