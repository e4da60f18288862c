// An MCP client for many sessions of one server: opens them, makes requests as real clients send them, checks the answers.

import { Failure } from "../scripts/lib/report.mjs";
import { connect, load, send } from "./load.mjs";

const PROTOCOL_VERSION = "2025-11-25";
/** The sessions belong to so many accounts. */
const ACCOUNTS = 50;

/** What can be measured. `initialize` opens a new session each time, the others are spread over those that are open. */
export const OPERATIONS = ["initialize", "tools/list", "tools/call", "ping"];

export class Client {
  #pool;
  #path;
  #tool;
  #sessions = [];
  #turn = 0;
  #lastId = 0;
  #seen = new Set();

  /** `query` goes with every request; `tool` is the name of the tool that gives back its `message`. */
  constructor(name, server, { query = "", tool = "echo" } = {}) {
    this.name = name;
    this.server = server;
    this.#path = query ? `/mcp?${query}` : "/mcp";
    this.#tool = tool;
    this.#pool = connect(server.url);
  }

  get sessionCount() {
    return this.#sessions.length;
  }

  /** A request of `operation`: to the next session, or for a new one. */
  request(operation) {
    if (operation === "initialize") return this.#initialize();
    const session = this.#sessions[this.#turn++ % this.#sessions.length];
    const id = ++this.#lastId;
    switch (operation) {
      case "ping":
        return this.#call(session, id, "ping", undefined, '"result":{}');
      case "tools/list":
        return this.#call(session, id, "tools/list", {}, `"name":"${this.#tool}"`);
      case "tools/call": {
        const message = `This is message ${id} of the benchmark.`;
        return this.#call(session, id, "tools/call", { name: this.#tool, arguments: { message } }, message);
      }
      default:
        throw new Error(`there is no operation ${operation}`);
    }
  }

  load(operation, limits) {
    return load(this.#pool, () => this.request(operation), limits);
  }

  /** Opens sessions until there are `count`, each as a client does: it initialises, says so, and looks at the tools. */
  async open(count) {
    const missing = Math.max(0, count - this.#sessions.length);
    await load(this.#pool, () => this.#initialize((session) => this.#sessions.push(session)), { count: missing });
    for (const what of [(session) => this.#initialized(session), (session) => this.#list(session)]) {
      let next = count - missing;
      await load(this.#pool, () => what(this.#sessions[next++]), { count: missing });
    }
  }

  /**
   * Opens the first session and looks at one answer of each operation more closely than the load can afford. Gives the bytes of
   * their bodies. Without the tool unlike things would be compared, so that ends it.
   */
  async inspect(operations) {
    await this.open(1);
    const list = this.#list(this.#sessions[0]);
    const listed = await send(this.#pool, list);
    list.check(listed);
    const names = messageIn(listed).result.tools.map(({ name }) => name);
    if (!names.includes(this.#tool)) {
      throw new Failure(`${this.name} has no tool "${this.#tool}" at ${this.#path}; there are: ${names.join(", ")}.`);
    }
    const bytes = {};
    for (const operation of operations) {
      const request = this.request(operation);
      const answer = await send(this.#pool, request);
      request.check(answer);
      if (operation === "tools/call" && messageIn(answer).result.content?.[0]?.type !== "text") {
        throw new Failure(`${this.name}: ${this.#tool} does not answer with text: ${answer.text}`);
      }
      bytes[operation] = Buffer.byteLength(answer.text);
    }
    return bytes;
  }

  close() {
    return this.#pool.destroy();
  }

  /** `got` is told of the new session. */
  #initialize(got = () => {}) {
    const id = ++this.#lastId;
    const account = `user-${this.#seen.size % ACCOUNTS}`;
    const headers = [
      ...["content-type", "application/json"],
      ...["accept", "application/json, text/event-stream"],
      ...["user-agent", "countersign-bench"],
      // All three get it, only Countersign looks at it.
      ...["authorization", `Bearer dev:${account}@bench`],
    ];
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: { name: "bench", version: "1" } };
    return {
      path: this.#path,
      headers,
      body: JSON.stringify({ jsonrpc: "2.0", id, method: "initialize", params }),
      check: (answer) => {
        this.#check(answer, id, `"protocolVersion":"${PROTOCOL_VERSION}"`);
        const session = answer.headers["mcp-session-id"];
        if (!session || this.#seen.has(session)) throw this.#wrong("has no session id of its own", answer);
        this.#seen.add(session);
        got([...headers, "mcp-session-id", session, "mcp-protocol-version", PROTOCOL_VERSION]);
      },
    };
  }

  #initialized(headers) {
    return {
      path: this.#path,
      headers,
      body: '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      check: (answer) => {
        if (answer.status !== 202) throw this.#wrong("is not 202", answer);
      },
    };
  }

  #list(headers) {
    return this.#call(headers, ++this.#lastId, "tools/list", {}, '"tools":');
  }

  #call(headers, id, method, params, expected) {
    return {
      path: this.#path,
      headers,
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
      check: (answer) => this.#check(answer, id, expected),
    };
  }

  /** By text and not by parsing: thousands a second have to be checked without taking time from the server. */
  #check(answer, id, expected) {
    const { status, text } = answer;
    if (status !== 200) throw this.#wrong("is not 200", answer);
    if (!text.includes(`"id":${id}`)) throw this.#wrong("is for another request", answer);
    if (!text.includes(expected) || text.includes('"isError":true')) throw this.#wrong(`has no ${expected}`, answer);
  }

  #wrong(problem, { status, text }) {
    return new Failure(`${this.name}: an answer ${problem}: ${status} ${text.slice(0, 500)}`);
  }
}

/** The JSON-RPC message in an answer, whatever its form. */
function messageIn({ headers, text }) {
  if (!headers["content-type"].startsWith("text/event-stream")) return JSON.parse(text);
  return JSON.parse(/^data: ?(\{.*)$/m.exec(text)[1]);
}
