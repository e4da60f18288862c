// The host's side of a sandbox: starts a Dynamic Worker and hands its turns to Rust.
import { RpcTarget } from "cloudflare:workers";

const TURN_LIMIT = 48 * 1024 * 1024;

class Host extends RpcTarget {
  #turn;
  constructor(turn) {
    super();
    this.#turn = turn;
  }
  // Errors are values: a rejected callback would end in the sandbox, not here.
  turn(text) {
    if (typeof text !== "string" || text.length > TURN_LIMIT) return "";
    return new Promise((resolve) => this.#turn(text, resolve));
  }
}

// Starts a sandbox. `turn(text, answer)` is told each turn; `lost(message)` is called once
// when the program's isolate ends, in whatever way.
export function start_sandbox(loader, id, code, prelude, program, boot, turn, lost) {
  let entrypoint;
  let ended = false;
  const end = (message) => {
    if (ended) return;
    ended = true;
    lost(message);
  };
  try {
    const worker = loader.get(id, async () => ({
      ...JSON.parse(code),
      mainModule: "main.js",
      modules: { "main.js": prelude, "program.js": program },
      env: {},
      globalOutbound: null,
    }));
    entrypoint = worker.getEntrypoint();
    entrypoint.run(new Host(turn), boot).then(() => end("it ended"), (error) => end(String(error?.message ?? error)));
  } catch (error) {
    // Not at once: the caller has not got the handle yet.
    Promise.resolve().then(() => end(String(error?.message ?? error)));
  }
  return {
    drop() {
      ended = true;
      try { entrypoint?.[Symbol.dispose]?.(); } catch { /* it is gone already */ }
    },
  };
}
