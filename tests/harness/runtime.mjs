// The process that hosts one workerd, started by gateway.mjs and never by hand.
//
// It exists so that workerd can be killed without killing the test: SIGKILL on workerd is what a crash is. When workerd or the
// parent goes away, so does this process; nothing is left behind.

import childProcess from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

let workerd;
let stopping = false;

// miniflare keeps workerd's process to itself and starts it again when it dies; both must not be.
const { spawn } = childProcess;
childProcess.spawn = (...args) => {
  const child = spawn(...args);
  workerd = child;
  child.once("exit", (code, signal) => {
    tell({ event: "ended", code, signal });
    process.exit(stopping || signal === "SIGKILL" ? 0 : 1);
  });
  tell({ event: "spawned", pid: child.pid });
  return child;
};
const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = await import("miniflare");

function tell(message) {
  if (process.connected) process.send(message);
}

function endAtOnce() {
  workerd?.kill("SIGKILL");
  process.exit(1);
}

let miniflare;
let worker;

async function start({ bindings, vars, bundle, wrapper, stateDir, port }) {
  worker = bindings.name;
  // The first module is the Worker. The wrapper is no file: its name only says what its imports are relative to.
  const front = wrapper === undefined ? [] : [{ type: "ESModule", path: join(bundle, "wrapper.js"), contents: wrapper }];
  const options = convertV4MiniflareOptions({
    workers: [
      {
        ...bindings,
        bindings: { ...bindings.bindings, ...vars },
        modulesRoot: bundle,
        modules: [
          ...front,
          { type: "ESModule", path: join(bundle, "index.js") },
          { type: "CompiledWasm", path: join(bundle, "index_bg.wasm"), contents: readFileSync(join(bundle, "index_bg.wasm")) },
        ],
      },
    ],
  });
  miniflare = new Miniflare({
    ...options,
    host: "127.0.0.1",
    port,
    resourcePersistencePath: stateDir,
    log: new Log(LogLevel.WARN),
    // Nothing here may ask the internet for anything.
    cf: false,
    telemetry: { enabled: false },
    enableDevRegistry: false,
    logRequests: false,
    handleStructuredLogs: ({ timestamp, level, message }) => tell({ event: "log", timestamp, level, message }),
    handleUncaughtError: (error) => tell({ event: "log", timestamp: Date.now(), level: "error", message: error.stack }),
  });
  const url = await miniflare.ready;
  tell({ event: "ready", url: url.origin });
}

/** Looks at Durable Objects, or takes one out of memory. */
const QUESTIONS = {
  objects: ({ className }) => miniflare.listDurableObjectIds(className, worker),
  evict: ({ className, id }) => miniflare.unsafeEvictDurableObject(worker, className, { id }),
};

process.on("disconnect", endAtOnce);
process.on("message", async (message) => {
  if (message.question) {
    const answer = await QUESTIONS[message.do](message).then((value) => ({ value }), (error) => ({ error: String(error?.message ?? error) }));
    tell({ event: "answer", id: message.question, ...answer });
    return;
  }
  try {
    if (message.do === "start") await start(message);
    if (message.do === "stop") {
      stopping = true;
      await miniflare?.dispose();
      process.exit(0);
    }
  } catch (error) {
    console.error(error);
    tell({ event: "failed", message: String(error?.message ?? error) });
    endAtOnce();
  }
});
