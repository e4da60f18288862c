// Starts the built gateway in workerd, kills it, starts it again on the same state.

import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { bundleFolder, ROOT } from "../../scripts/lib/paths.mjs";
import { loadBindings } from "./bindings.mjs";
import { memoryOf } from "./process.mjs";

const RUNTIME = fileURLToPath(new URL("./runtime.mjs", import.meta.url));
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 5_000;
const KEPT_OUTPUT_LINES = 2_000;

const running = new Set();
process.on("exit", () => {
  for (const host of running) killGroup(host);
});
for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]]) {
  // Only when nobody else decides what the signal means; `exit` above then clears up.
  process.on(signal, () => {
    if (process.listenerCount(signal) === 1) process.exit(code);
  });
}

/**
 * Starts a gateway on the bundle in build/ (or the one for `features`) and resolves when it has answered /health.
 *
 * - `vars`: settings, on top of wrangler.toml and development mode; `undefined` takes one away.
 * - `stateDir`: where the Durable Objects' SQLite files are; by default a new folder that goes away with `stop`.
 * - `port`: 0 is any free one, and `restart` keeps it.
 * - `bundle`: another folder with index.js and index_bg.wasm.
 * - `wrapper`: the text of a module that is loaded in front of the bundle: it imports ./index.js and exports what that one does.
 *
 * The gateway has `url`, `stateDir`, `vars` (changes count from the next start), `firstAnswerMs` (from "listening" to the
 * first answer), and:
 * - `kill()`: SIGKILL to workerd; resolves when it is dead. `stop()`: ends it in good order.
 * - `start()`, `restart()`: the same port and state again.
 * - `logs(event?)`: the JSON lines that the Worker logged since the first start, parsed. `output()`: all it said, as text.
 * - `fetch(path, init)`. `memory()`: resident memory of workerd, in bytes.
 * - `objects(className)`: the ids of the Durable Objects that have storage. `evict(className, id)`: takes one out of memory, as an
 *   idle object is. `sql(className, id, query, ...bindings)`: rows of its SQLite storage, read from the file, so that it neither
 *   wakes the object nor needs a running gateway; undefined when the object has stored nothing.
 */
export async function startGateway({ vars = {}, stateDir, port = 0, features = [], bundle, wrapper } = {}) {
  const gateway = new Gateway({ vars, stateDir, port, bundle: resolve(ROOT, bundle ?? bundleFolder(features)), wrapper });
  await gateway.start();
  return gateway;
}

class Gateway {
  #host;
  #ended;
  #workerd;
  #port;
  #bundle;
  #wrapper;
  #ownsState;
  #asked = new Map();
  #logs = [];
  #output = [];

  constructor({ vars, stateDir, port, bundle, wrapper }) {
    // GATEWAY_VARS: settings of a run as a whole, such as the tool mode of a bundle that has another default.
    this.vars = { AUTH_MODE: "dev", ...JSON.parse(process.env.GATEWAY_VARS ?? "{}"), ...vars };
    this.#port = port;
    this.#bundle = bundle;
    this.#wrapper = wrapper;
    this.#ownsState = stateDir === undefined;
    this.stateDir = stateDir ? resolve(stateDir) : mkdtempSync(join(tmpdir(), "countersign-"));
  }

  get running() {
    return this.#host !== undefined;
  }

  async start() {
    if (this.running) throw new Error("this gateway is running already");
    if (!existsSync(join(this.#bundle, "index.js"))) {
      throw new Error(`there is no bundle in ${this.#bundle}: build it first (npm run build, with its --features)`);
    }
    const bindings = await loadBindings();
    mkdirSync(this.stateDir, { recursive: true });
    this.#workerd = undefined;
    // A group of its own, so that one signal reaches workerd as well.
    const host = fork(RUNTIME, { cwd: ROOT, detached: true, stdio: ["ignore", "pipe", "pipe", "ipc"], execArgv: [] });
    running.add(host);
    this.#host = host;
    this.#ended = new Promise((done) => {
      host.once("close", () => {
        running.delete(host);
        if (this.#host === host) this.#host = undefined;
        done();
      });
    });
    for (const stream of [host.stdout, host.stderr]) stream.setEncoding("utf8").on("data", (text) => this.#heard(text));

    const began = new Promise((ready, failed) => {
      host.on("message", (message) => {
        if (message.event === "spawned") this.#workerd = message.pid;
        if (message.event === "log") this.#logged(message);
        if (message.event === "ready") ready(message.url);
        if (message.event === "answer") this.#asked.get(message.id)?.(message);
        if (message.event === "failed") failed(new Error(message.message));
      });
      host.once("close", () => failed(new Error("workerd ended before it was ready")));
      setTimeout(() => failed(new Error(`not ready within ${START_TIMEOUT_MS} ms`)), START_TIMEOUT_MS).unref();
    });
    const vars = Object.fromEntries(Object.entries(this.vars).filter(([, value]) => value !== undefined));
    host.send({ do: "start", bindings, vars, bundle: this.#bundle, wrapper: this.#wrapper, stateDir: this.stateDir, port: this.#port });
    try {
      this.url = await began;
      this.#port = Number(new URL(this.url).port);
      const listening = performance.now();
      const health = await this.fetch("/health", { signal: AbortSignal.timeout(START_TIMEOUT_MS) });
      this.firstAnswerMs = performance.now() - listening;
      if (!health.ok) throw new Error(`/health answered ${health.status}: ${await health.text()}`);
      await health.body?.cancel();
    } catch (error) {
      await this.kill();
      const said = this.output().trim();
      throw new Error(`the gateway did not start: ${error.message}${said ? `\n--- the runtime said:\n${said}` : ""}`, { cause: error });
    }
  }

  /** SIGKILL to workerd itself; resolves when it is dead and has let go of port and files. */
  async kill() {
    if (!this.running) return;
    const ended = this.#ended;
    try {
      process.kill(this.#workerd ?? this.#host.pid, "SIGKILL");
    } catch (error) {
      if (error.code !== "ESRCH") throw error;
    }
    await ended;
  }

  /** Ends workerd in good order, and removes the state folder if it was made for this gateway. */
  async stop() {
    await this.#end();
    if (this.#ownsState) rmSync(this.stateDir, { recursive: true, force: true });
  }

  async restart() {
    await this.#end();
    await this.start();
  }

  async #end() {
    const host = this.#host;
    if (!host) return;
    const overdue = setTimeout(() => killGroup(host), STOP_TIMEOUT_MS);
    if (host.connected) host.send({ do: "stop" });
    await this.#ended;
    clearTimeout(overdue);
  }

  fetch(path, init) {
    return fetch(new URL(path, this.url), init);
  }

  memory() {
    return memoryOf(this.#workerd);
  }

  objects(className) {
    return this.#ask({ do: "objects", className });
  }

  evict(className, id) {
    return this.#ask({ do: "evict", className, id });
  }

  async sql(className, id, query, ...bindings) {
    const { DatabaseSync } = await import("node:sqlite");
    const file = readdirSync(this.stateDir, { recursive: true }).find((path) => path.endsWith(join(`-${className}`, `${id}.sqlite`)));
    if (!file) return undefined;
    const database = new DatabaseSync(join(this.stateDir, file), { readOnly: true });
    try {
      return database.prepare(query).all(...bindings).map((row) => ({ ...row }));
    } finally {
      database.close();
    }
  }

  async #ask(question) {
    if (!this.running) throw new Error("this gateway is not running");
    const id = randomUUID();
    const host = this.#host;
    try {
      const { error, value } = await new Promise((answered) => {
        this.#asked.set(id, answered);
        host.once("close", () => answered({ error: "the gateway ended" }));
        host.send({ ...question, question: id });
      });
      if (error) throw new Error(error);
      return value;
    } finally {
      this.#asked.delete(id);
    }
  }

  logs(event) {
    return event === undefined ? [...this.#logs] : this.#logs.filter((line) => line.event === event);
  }

  output() {
    return this.#output.join("");
  }

  #heard(text) {
    this.#output.push(text);
    if (this.#output.length > KEPT_OUTPUT_LINES) this.#output.splice(0, this.#output.length - KEPT_OUTPUT_LINES);
  }

  #logged({ timestamp, level, message }) {
    this.#heard(`[${level}] ${message}\n`);
    if (!message.startsWith("{")) return;
    try {
      this.#logs.push({ ...JSON.parse(message), at: timestamp, level });
    } catch {
      // A line that only looks like JSON stays in the output.
    }
  }
}

function killGroup(host) {
  try {
    process.kill(-host.pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}
