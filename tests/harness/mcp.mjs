// A raw MCP client over fetch: it sends what it is told and shows what came back, so that a suite can see statuses, headers
// and the order of messages which SDK clients hide. And the approval API, as a program with an `approve` credential uses it.

/** A development-mode bearer: `dev:<account>@<organization>[:role,…]`. */
export function devToken({ account = "ada", organization = "acme", roles = [] } = {}) {
  return `dev:${account}@${organization}${roles.length > 0 ? `:${roles.join(",")}` : ""}`;
}

/**
 * Initialises a session. `gateway` is anything with a `url`; `query` is an object (`{elicitation_mode: "model"}`).
 *
 * The session has `id`, `initialized` (the result of initialize), and:
 * - `call(method, params, {id, headers, signal, onMessage})` → `{status, headers, result, error, messages}`; `messages` are those
 *   that came on the stream before the answer, and `onMessage` sees each as it comes. Works for JSON and SSE answers.
 * - `tool(name, args, options)` → the tool's result; a JSON-RPC error is an exception.
 * - `notify(method, params)`, `answer(id, result)`, `send(body, options)` → the Response.
 * - `stream({lastEventId, signal})` → the GET stream as an async iterator of `{id, event, data}`.
 * - `del()` → the Response of DELETE.
 */
export async function openSession(
  gateway,
  { token = devToken(), query = {}, path = "/mcp", protocolVersion = "2025-11-25", clientInfo = { name: "harness", version: "1" }, capabilities = {}, headers = {} } = {},
) {
  const session = new Session(gateway, { token, query, path, headers });
  const { status, headers: answered, result, error } = await session.call("initialize", { protocolVersion, clientInfo, capabilities });
  if (!result) throw new Error(`initialize answered ${status}: ${JSON.stringify(error)}`);
  session.id = answered.get("mcp-session-id") ?? undefined;
  session.protocolVersion = result.protocolVersion;
  session.initialized = result;
  const accepted = await session.notify("notifications/initialized");
  if (accepted.status !== 202) throw new Error(`notifications/initialized answered ${accepted.status}`);
  return session;
}

class Session {
  #gateway;
  #url;
  #token;
  #headers;
  #nextId = 1;

  constructor(gateway, { token, query, path, headers }) {
    this.#gateway = gateway;
    this.#url = `${path}?${new URLSearchParams(query)}`.replace(/\?$/, "");
    this.#token = token;
    this.#headers = headers;
  }

  request(method, { headers = {}, body, signal } = {}) {
    const common = {
      ...(this.#token ? { authorization: `Bearer ${this.#token}` } : {}),
      ...(this.id ? { "mcp-session-id": this.id } : {}),
      ...(this.protocolVersion ? { "mcp-protocol-version": this.protocolVersion } : {}),
    };
    // The URL is looked up each time: a gateway that was started again may have another one.
    return fetch(new URL(this.#url, this.#gateway.url), { method, headers: { ...common, ...this.#headers, ...headers }, body, signal });
  }

  send(message, { headers = {}, signal } = {}) {
    return this.request("POST", {
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
      body: typeof message === "string" ? message : JSON.stringify(message),
      signal,
    });
  }

  async call(method, params, { id = this.#nextId++, onMessage, ...options } = {}) {
    const response = await this.send({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) }, options);
    const messages = [];
    for await (const message of messagesOf(response)) {
      if (message.method === undefined && (message.id === id || message.id === null)) {
        return { status: response.status, headers: response.headers, result: message.result, error: message.error, messages };
      }
      messages.push(message);
      await onMessage?.(message);
    }
    const { status, headers } = response;
    return { status, headers, result: undefined, error: undefined, messages };
  }

  async tool(name, args = {}, options) {
    const { status, result, error } = await this.call("tools/call", { name, arguments: args }, options);
    if (!result) throw Object.assign(new Error(`${name} answered ${status}: ${error?.message ?? "nothing"}`), { status, code: error?.code });
    return result;
  }

  notify(method, params) {
    return this.send({ jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) });
  }

  answer(id, result) {
    return this.send({ jsonrpc: "2.0", id, result });
  }

  async *stream({ lastEventId, signal } = {}) {
    const headers = { accept: "text/event-stream", ...(lastEventId ? { "last-event-id": lastEventId } : {}) };
    const response = await this.request("GET", { headers, signal });
    if (!response.ok) throw Object.assign(new Error(`GET answered ${response.status}`), { status: response.status });
    yield* eventsOf(response.body);
  }

  del() {
    return this.request("DELETE");
  }
}

/** The JSON-RPC messages of an answer, whatever its form. A body that is no JSON gives none. */
async function* messagesOf(response) {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("text/event-stream")) {
    for await (const { data } of eventsOf(response.body)) if (data !== "") yield JSON.parse(data);
    return;
  }
  const text = await response.text();
  if (!type.startsWith("application/json") || text === "") return;
  const parsed = JSON.parse(text);
  yield* Array.isArray(parsed) ? parsed : [parsed];
}

/** The JSON-RPC message in an event; an event without data has an empty one. */
export const messageOf = ({ data }) => (data === "" ? {} : JSON.parse(data));

/** The server-sent events of a body, as they come; comments (keep-alives) are left out. */
export async function* eventsOf(body) {
  let pending = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    pending += chunk;
    const blocks = pending.split(/\r?\n\r?\n/);
    pending = blocks.pop();
    for (const block of blocks) {
      const fields = { id: undefined, event: "message", data: undefined };
      for (const line of block.split(/\r?\n/)) {
        const [, name, value] = /^(\w+): ?([^]*)$/.exec(line) ?? [];
        if (name === "data") fields.data = fields.data === undefined ? value : `${fields.data}\n${value}`;
        else if (name) fields[name] = value;
      }
      if (fields.data !== undefined) yield fields;
    }
  }
}

/**
 * What waits in a pause, as its approver is shown it: the body of GET, and `digest`, which a decision on all of it must name.
 * `pause` is what `execute` answered (or anything with `executionId`, and `approvalUrl` or `sessionId`).
 */
export async function shownPause(gateway, pause, { token = approverToken() } = {}) {
  const response = await fetch(new URL(approvalPath(pause), gateway.url), { headers: { authorization: `Bearer ${token}` } });
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(`the approval API answered ${response.status}: ${JSON.stringify(body)}`), { status: response.status });
  return { ...body, digest: body.structured?.digest ?? body.digest };
}

/** Posts a decision as it is; resolves with `{status, body}` whatever the status. `decision` must bring its digest. */
export async function decide(gateway, pause, decision, { token = approverToken() } = {}) {
  const response = await fetch(new URL(`${approvalPath(pause)}/resume`, gateway.url), {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(decision),
  });
  return { status: response.status, body: await response.json().catch(() => undefined) };
}

/** Approves all that waits in a pause: looks at it, then decides with the digest of what was shown. */
export async function approve(gateway, pause, options) {
  return decideOnWhatIsShown(gateway, pause, { action: "accept" }, options);
}

/** Declines all that waits in a pause, for a reason that the program is told. */
export async function decline(gateway, pause, reason, options) {
  return decideOnWhatIsShown(gateway, pause, { action: "decline", reason }, options);
}

async function decideOnWhatIsShown(gateway, pause, decision, options) {
  const { digest, ...shown } = await shownPause(gateway, pause, options);
  if (typeof digest !== "string") throw new Error(`the approval API shows no digest: ${JSON.stringify(shown)}`);
  return decide(gateway, pause, { ...decision, digest }, options);
}

function approverToken() {
  return devToken({ roles: ["approver"] });
}

function approvalPath({ executionId, sessionId, approvalUrl }) {
  const owner = sessionId ?? new URL(approvalUrl).searchParams.get("mcp_session_id");
  return `/api/mcp-sessions/${owner}/executions/${executionId}`;
}

/** Asks the administration API as `token`: `api(method, path, body?, token?)` gives `{status, text, body}`; of lines the first is the body. */
export function adminApi(gateway, token) {
  return async (method, path, body, as = token) => {
    const response = await gateway.fetch(`/api/${path}`, {
      method,
      headers: { authorization: `Bearer ${as}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, text, body: text.startsWith("{") ? JSON.parse(text.split("\n")[0]) : undefined };
  };
}
