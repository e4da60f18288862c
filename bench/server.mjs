// Starts one Worker in a workerd process of its own, and says what that process uses.

import { execFileSync, fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { ROOT } from "../scripts/lib/paths.mjs";
import { memoryOf } from "../tests/harness/process.mjs";

const RUNTIME = fileURLToPath(new URL("./runtime.mjs", import.meta.url));
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 10_000;
/** Linux counts a process's time in hundredths of a second. */
const TICKS_PER_SECOND = 100;

/** Hosts that run, and where each keeps its state. */
const running = new Map();
process.on("exit", () => {
  for (const [host, stateDir] of running) {
    killGroup(host);
    rmSync(stateDir, { recursive: true, force: true });
  }
});
for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]]) process.on(signal, () => process.exit(code));

/**
 * Resolves when the Worker listens, with `{url, memory(), cpuSeconds(), output(), stop()}`. `url` leads straight to the Worker; with
 * `throughEntry`, to the Worker that miniflare puts in front of it, as in `wrangler dev`.
 */
export async function startServer(worker, { throughEntry = false } = {}) {
  const stateDir = mkdtempSync(join(tmpdir(), "countersign-bench-"));
  // A group of its own, so that one signal reaches workerd as well; "advanced", because a Worker has its wasm module as bytes.
  const host = fork(RUNTIME, {
    cwd: ROOT,
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    execArgv: [],
    serialization: "advanced",
  });
  running.set(host, stateDir);
  const ended = new Promise((done) => host.once("close", done));
  let output = "";
  for (const stream of [host.stdout, host.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output = (output + text).slice(-20_000);
    });
  }
  const began = new Promise((ready, failed) => {
    host.on("message", (message) => {
      if (message.event === "ready") ready(message);
      if (message.event === "failed") failed(new Error(message.message));
    });
    host.once("close", () => failed(new Error("workerd ended before it was ready")));
    setTimeout(() => failed(new Error(`not ready within ${START_TIMEOUT_MS} ms`)), START_TIMEOUT_MS).unref();
  });
  host.send({ do: "start", worker, stateDir });

  const stop = async () => {
    const overdue = setTimeout(() => killGroup(host), STOP_TIMEOUT_MS);
    if (host.connected) host.send({ do: "stop" });
    await ended;
    clearTimeout(overdue);
    rmSync(stateDir, { recursive: true, force: true });
    running.delete(host);
  };
  try {
    const { url, entryUrl, pid } = await began;
    return {
      url: throughEntry ? entryUrl : url,
      memory: () => memoryOf(pid),
      cpuSeconds: () => cpuSecondsOf(pid),
      output: () => output,
      stop,
    };
  } catch (error) {
    await stop();
    throw new Error(`${worker.name} did not start: ${error.message}${output ? `\n--- the runtime said:\n${output}` : ""}`, { cause: error });
  }
}

function killGroup(host) {
  try {
    process.kill(-host.pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

/** Processor time of a process, all its threads, in its own code and in the kernel's. */
function cpuSecondsOf(pid) {
  if (process.platform === "linux") {
    // The second field is the program's name in brackets, and may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ");
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  }
  const parts = execFileSync("ps", ["-o", "time=", "-p", String(pid)], { encoding: "utf8" }).trim().split(/[-:]/);
  return parts.reduce((sum, part) => sum * 60 + Number(part), 0);
}
