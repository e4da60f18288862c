// An MCP server to be put behind the gateway: both eras, with faults on demand, in a process of its own that can be killed.
//
// It is written from the specification and shares no code with the gateway.

import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

const SELF = fileURLToPath(import.meta.url);
const START_TIMEOUT_MS = 10_000;

/**
 * Starts a server and resolves when it listens. `era` is `session` or `stateless`. It has `url`, and:
 * - `set(faults)`: from now on, until set again: `{refuse: 404 | 400 | 401}` forgets all sessions and refuses with that status;
 *   `{hang: method}` never answers it; `{garbage: method}` answers what is no JSON; `{endless: true}` has pages without end;
 *   `{cut: "lost" | "resumable"}` breaks the stream of a call before its answer; `{tools: name}` has that tool besides;
 *   `{header: name}` wants the argument of `region` in the header of that name; `{otherVersion: n}` refuses n requests because of their version.
 * - `calls(method?)`: the requests that came, `{method, params, headers}`; `sessions()`: how many are open.
 * - `changed(what)`: tells all open streams that a list changed.
 * - `kill()`: SIGKILL; `start()`: again on the same port, with nothing remembered. `stop()`.
 */
export async function startUpstream({ era = "session" } = {}) {
  const upstream = new Upstream(era);
  await upstream.start();
  return upstream;
}

class Upstream {
  #era;
  #port = 0;
  #child;
  #asked = new Map();

  constructor(era) {
    this.#era = era;
  }

  async start() {
    const child = fork(SELF, [this.#era, String(this.#port)], { stdio: ["ignore", "inherit", "inherit", "ipc"], execArgv: [] });
    this.#child = child;
    this.#port = await new Promise((ready, failed) => {
      const overdue = setTimeout(() => failed(new Error("the upstream did not start")), START_TIMEOUT_MS);
      child.once("exit", () => failed(new Error("the upstream ended")));
      child.on("message", ({ id, value, listening }) => {
        if (listening) clearTimeout(overdue), ready(listening);
        this.#asked.get(id)?.(value);
        this.#asked.delete(id);
      });
    });
    this.url = `http://127.0.0.1:${this.#port}/mcp`;
  }

  #ask(question, argument) {
    const id = randomUUID();
    return new Promise((resolve) => {
      this.#asked.set(id, resolve);
      this.#child.send({ id, question, argument });
    });
  }

  set(faults) {
    return this.#ask("set", faults);
  }

  async calls(method) {
    const calls = await this.#ask("calls");
    return method === undefined ? calls : calls.filter((call) => call.method === method);
  }

  sessions() {
    return this.#ask("sessions");
  }

  changed(what) {
    return this.#ask("changed", what);
  }

  async kill() {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  stop() {
    return this.kill();
  }
}

// ---- in the child ---------------------------------------------------------------------------------------------------------

const later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds, "nobody answered"));
const text = (value) => ({ content: [{ type: "text", text: value }] });
const object = (properties, required = []) => ({ type: "object", properties, ...(required.length > 0 ? { required } : {}) });
const ODD_BLOCKS = [
  { type: "text", text: "one", annotations: { priority: 0.5 } },
  { type: "image", data: "AA==", mimeType: "image/png" },
  { type: "resource_link", uri: "note://one", name: "one" },
  { type: "resource", resource: { uri: "note://two", text: "note://two" } },
];

const TOOLS = [
  { name: "echo", title: "Echo", description: "Gives back what it gets", inputSchema: object({ text: { type: "string" }, "odd key": { type: "integer" } }), annotations: { readOnlyHint: true } },
  { name: "count-up", description: "Counts how often it was called", inputSchema: object({}), annotations: { idempotentHint: false } },
  { name: "notes/list", description: "Text that is JSON", inputSchema: object({}), annotations: { readOnlyHint: true } },
  { name: "fail", description: "Reports an error", inputSchema: object({}), annotations: { readOnlyHint: true } },
  { name: "refuse", description: "Answers with a JSON-RPC error", inputSchema: object({}), annotations: { readOnlyHint: true } },
  { name: "blocks", description: "Blocks of many kinds", inputSchema: object({}), annotations: { readOnlyHint: true } },
  { name: "talk", description: "Progress and log messages first", inputSchema: object({}), annotations: { readOnlyHint: true } },
  { name: "ask", description: "Asks the client something", inputSchema: object({ what: { type: "string", enum: ["form", "fields", "url", "sampling", "roots"] }, patience: { type: "integer" } }), annotations: { readOnlyHint: true } },
  { name: "region", description: "Has an argument that is a header too", inputSchema: object({ region: { type: "string", "x-mcp-header": "Region" } }, ["region"]), annotations: { readOnlyHint: true } },
  { name: "lying-output", description: "Has an output schema that its results do not keep to", inputSchema: object({}), outputSchema: object({ n: { type: "integer" } }, ["n"]), annotations: { readOnlyHint: true } },
];

const QUESTIONS = {
  form: { method: "elicitation/create", params: { message: "Which colour?", requestedSchema: object({ colour: { type: "string" } }, ["colour"]) } },
  fields: {
    method: "elicitation/create",
    params: {
      message: "Who are you? <script>alert(1)</script>",
      requestedSchema: object({
        name: { type: "string", title: "Your name", minLength: 2 },
        age: { type: "integer", minimum: 18 },
        agree: { type: "boolean" },
        colour: { type: "string", oneOf: [{ const: "r", title: "Red" }, { const: "g", title: "Green" }] },
        tags: { type: "array", minItems: 1, items: { type: "string", enum: ["a", "b", "c"] } },
      }, ["name", "tags"]),
    },
  },
  url: { method: "elicitation/create", params: { mode: "url", message: "Sign in", url: "https://example.com/sign-in", elicitationId: "e1" } },
  sampling: { method: "sampling/createMessage", params: { messages: [{ role: "user", content: { type: "text", text: "Say hello" } }], maxTokens: 10 } },
  roots: { method: "roots/list", params: {} },
};

function serve(era, port) {
  let faults = {};
  let counted = 0;
  const calls = [];
  const sessions = new Map();
  const streams = new Set();
  const kept = new Map();

  const tools = () => {
    const region = { type: "string", "x-mcp-header": faults.header ?? "Region" };
    const known = TOOLS.map((tool) => (tool.name === "region" ? { ...tool, inputSchema: object({ region }, ["region"]) } : tool));
    return faults.tools ? [...known, { name: faults.tools, inputSchema: object({}) }] : known;
  };

  function page(list, cursor, key, size) {
    const from = Number(cursor ?? 0);
    if (faults.endless) return { [key]: list.slice(0, size), nextCursor: String(from + 1) };
    const next = from + size;
    return { [key]: list.slice(from, next), ...(next < list.length ? { nextCursor: String(next) } : {}) };
  }

  /** What a request is answered with; `talk` sends a notification, `ask` asks the client. */
  async function answer({ method, params = {} }, talk, ask) {
    const { name, arguments: args = {} } = params;
    switch (method) {
      case "ping":
      case "logging/setLevel":
        return {};
      case "server/discover":
        return { supportedVersions: ["2026-07-28"], capabilities: { tools: {}, resources: {}, prompts: {}, completions: {}, logging: {} } };
      case "tools/list":
        return page(tools(), params.cursor, "tools", 4);
      case "resources/list":
        return page([{ uri: "note://one", name: "one" }, { uri: "note://two", name: "two" }, { uri: "note://three", name: "three" }], params.cursor, "resources", 2);
      case "resources/templates/list":
        return { resourceTemplates: [{ uriTemplate: "note://{id}", name: "note" }] };
      case "resources/read":
        if (!params.uri.startsWith("note://")) throw { code: era === "session" ? -32002 : -32602, message: "Resource not found" };
        return { contents: [{ uri: params.uri, text: `the note ${params.uri}` }] };
      case "prompts/list":
        return { prompts: [{ name: "greet", arguments: [{ name: "who", required: true }] }] };
      case "prompts/get":
        if (name !== "greet") throw { code: -32602, message: "Unknown prompt" };
        return { messages: [{ role: "user", content: { type: "text", text: `Greet ${args.who}` } }] };
      case "completion/complete":
        return { completion: { values: [`${params.ref.name ?? params.ref.uri}:${params.argument.value}`] } };
      case "tools/call":
        break;
      default:
        throw { code: -32601, message: "Method not found" };
    }
    switch (name) {
      case "echo":
        return { ...text(JSON.stringify(args)), structuredContent: args };
      case "count-up":
        counted += 1;
        return text(String(counted));
      case "notes/list":
        return text('{"notes": [{"n": 12345}]}');
      case "fail":
        return { ...text("It went wrong"), isError: true };
      case "refuse":
        throw { code: -32602, message: "Never", data: { why: "because" } };
      case "blocks":
        return { content: ODD_BLOCKS };
      case "talk":
        for (const step of [1, 2]) talk("notifications/progress", { progressToken: params._meta?.progressToken, progress: step, total: 2, message: `step ${step}` });
        talk("notifications/message", { level: "error", logger: "upstream", data: { said: "hello" } });
        return text("talked");
      case "ask":
        // With patience it waits so many milliseconds for the answer and goes on without.
        return { structuredContent: { answer: await Promise.race([ask(QUESTIONS[args.what]), ...(args.patience ? [later(args.patience)] : [])]) }, content: [] };
      case "lying-output":
        return { structuredContent: { n: "no number" }, content: [] };
      default:
        return { structuredContent: { called: name, args }, content: [] };
    }
  }

  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const { headers } = request;
    const send = (status, value, more = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...more });
      response.end(value === undefined ? undefined : JSON.stringify(value));
    };
    const refuse = (status, code, message, id = null) => send(status, { jsonrpc: "2.0", id, error: { code, message } });
    const events = () => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      streams.add(response);
      response.on("close", () => streams.delete(response));
    };
    const session = sessions.get(headers["mcp-session-id"]);
    if (request.method === "DELETE") {
      calls.push({ method: "DELETE", headers });
      sessions.delete(headers["mcp-session-id"]);
      return send(200);
    }
    if (request.method === "GET") {
      if (era === "stateless" || !session) return refuse(405, -32000, "Method not allowed");
      const last = headers["last-event-id"];
      events();
      if (last) {
        calls.push({ method: "GET", headers });
        kept.get(last)?.(response);
      }
      return undefined;
    }
    let message;
    try {
      message = JSON.parse(body);
    } catch {
      return refuse(400, -32700, "Parse error");
    }
    const { id, method, params = {} } = message;
    calls.push({ method: method ?? "answer", params: params ?? message.result, headers, message });
    if (faults.refuse && method !== "initialize" && method !== "server/discover") {
      const status = faults.refuse;
      if (status !== 401) faults = { ...faults, refuse: undefined };
      sessions.clear();
      return status === 404 ? refuse(404, -32001, "Session not found") : refuse(status, -32000, "Bad Request: No valid session ID provided");
    }
    if (era === "stateless") {
      const meta = params?._meta ?? {};
      if (meta["io.modelcontextprotocol/protocolVersion"] !== "2026-07-28") return refuse(400, -32602, "no version in _meta", id);
      const decoded = (value) => /^=\?base64\?(.*)\?=$/.exec(value)?.[1] ?? undefined;
      const header = (name) => (headers[name] && decoded(headers[name]) !== undefined ? Buffer.from(decoded(headers[name]), "base64").toString() : headers[name]);
      const wanted = params.name ?? params.uri;
      const fits = headers["mcp-method"] === method && headers["mcp-protocol-version"] === "2026-07-28" && (!["tools/call", "prompts/get", "resources/read"].includes(method) || header("mcp-name") === wanted);
      const wantedHeader = `mcp-param-${(faults.header ?? "region").toLowerCase()}`;
      const region = method === "tools/call" && params.name === "region" ? header(wantedHeader) === params.arguments.region : true;
      if (faults.otherVersion > 0 && method !== "server/discover") {
        faults = { ...faults, otherVersion: faults.otherVersion - 1 };
        return send(400, { jsonrpc: "2.0", id, error: { code: -32022, message: "Unsupported protocol version", data: { supported: ["2026-07-28"], requested: "2026-07-28" } } });
      }
      if (!fits || !region) return refuse(400, -32020, "Header mismatch", id);
    } else if (method === "initialize") {
      const made = randomUUID();
      sessions.set(made, { capabilities: params.capabilities, questions: new Map() });
      const result = { protocolVersion: params.protocolVersion, capabilities: { tools: { listChanged: true }, resources: {}, prompts: {}, completions: {}, logging: {} }, serverInfo: { name: "upstream", version: "1" } };
      return send(200, { jsonrpc: "2.0", id, result }, { "mcp-session-id": made });
    } else if (!session) {
      return headers["mcp-session-id"] ? refuse(404, -32001, "Session not found") : refuse(400, -32000, "Bad Request: Server not initialized");
    }
    if (method && faults.hang === method) return undefined;
    if (method && faults.garbage === method) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end("<html>no json");
    }
    if (method === undefined) {
      session.questions.get(message.id)?.(message);
      return send(202);
    }
    if (id === undefined) return send(202);
    let opened = false;
    const write = (value, eventId) => {
      if (!opened) events();
      opened = true;
      response.write(`${eventId ? `id: ${eventId}\n` : ""}data: ${JSON.stringify(value)}\n\n`);
    };
    const talk = (noteMethod, noteParams) => write({ jsonrpc: "2.0", method: noteMethod, params: noteParams });
    const ask = (question) => {
      const questionId = `q-${randomUUID()}`;
      return new Promise((resolve) => {
        session.questions.set(questionId, ({ result, error }) => resolve(error ? { error: error.message } : result));
        write({ jsonrpc: "2.0", id: questionId, ...question });
      });
    };
    if (era === "stateless" && params.name === "ask") {
      const { inputResponses, requestState } = params;
      if (!inputResponses) return send(200, { jsonrpc: "2.0", id, result: { resultType: "input_required", requestState: "state-1", inputRequests: { only: QUESTIONS[params.arguments.what] } } });
      return send(200, { jsonrpc: "2.0", id, result: { resultType: "complete", content: [], structuredContent: { answer: inputResponses.only, requestState } } });
    }
    let reply;
    try {
      const result = await answer(message, talk, ask);
      reply = { jsonrpc: "2.0", id, result: era === "stateless" ? { resultType: "complete", ...result } : result };
    } catch (error) {
      reply = { jsonrpc: "2.0", id, error };
    }
    if (faults.cut && method === "tools/call") {
      const eventId = `e-${randomUUID()}`;
      if (faults.cut === "resumable") {
        kept.set(eventId, (later) => later.end(`data: ${JSON.stringify(reply)}\n\n`));
        write({ jsonrpc: "2.0", method: "notifications/other" }, eventId);
      } else {
        write({ jsonrpc: "2.0", method: "notifications/other" });
      }
      return setImmediate(() => response.destroy());
    }
    if (!opened) return send(reply.error?.code === -32601 && era === "stateless" ? 404 : 200, reply);
    write(reply);
    return response.end();
  });

  process.on("message", ({ id, question, argument }) => {
    let value = true;
    if (question === "set") faults = argument;
    if (question === "calls") value = calls.map(({ message, ...call }) => call);
    if (question === "sessions") value = sessions.size;
    if (question === "changed") {
      const note = `data: ${JSON.stringify({ jsonrpc: "2.0", method: `notifications/${argument}/list_changed` })}\n\n`;
      for (const stream of streams) stream.write(note);
      value = streams.size;
    }
    process.send({ id, value });
  });
  process.on("disconnect", () => process.exit());
  server.listen(port, "127.0.0.1", () => process.send({ listening: server.address().port }));
}

if (process.argv[1] === SELF && process.send) serve(process.argv[2], Number(process.argv[3]));
