// The process that hosts one workerd, started by server.mjs and never by hand.
//
// miniflare reads workerd's log here, so that this work does not fall on the process that makes the load. When workerd or
// the parent goes away, so does this process.

import childProcess from "node:child_process";

const { spawn } = childProcess;
let workerd;
let stopping = false;
childProcess.spawn = (...args) => {
  workerd = spawn(...args);
  // miniflare would start it again; a server that died during a measurement must stay dead.
  workerd.once("exit", () => process.exit(stopping ? 0 : 1));
  return workerd;
};
const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = await import("miniflare");

let miniflare;

async function start({ worker, stateDir }) {
  miniflare = new Miniflare({
    ...convertV4MiniflareOptions({ workers: [{ ...worker, unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }] }] }),
    host: "127.0.0.1",
    port: 0,
    resourcePersistencePath: stateDir,
    log: new Log(LogLevel.WARN),
    // Nothing here may ask the internet for anything.
    cf: false,
    telemetry: { enabled: false },
    enableDevRegistry: false,
    logRequests: false,
    handleStructuredLogs: ({ level, message }) => {
      if (level === "error") process.stderr.write(`${message}\n`);
    },
  });
  const entry = await miniflare.ready;
  const direct = await miniflare.unsafeGetDirectURL(worker.name);
  process.send({ event: "ready", url: direct.origin, entryUrl: entry.origin, pid: workerd.pid });
}

process.on("disconnect", () => {
  workerd?.kill("SIGKILL");
  process.exit(1);
});
process.on("message", async (message) => {
  try {
    if (message.do === "start") await start(message);
    if (message.do === "stop") {
      stopping = true;
      await miniflare?.dispose();
      process.exit(0);
    }
  } catch (error) {
    process.send({ event: "failed", message: String(error?.message ?? error) });
  }
});
