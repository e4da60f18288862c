// The host's side of a sandbox: starts a Dynamic Worker and hands its turns to Rust.
import { exports, RpcTarget } from "cloudflare:workers";

// Characters of one turn, all pieces together.
const TURN_LIMIT = 48 * 1024 * 1024;
// Characters of one message: the platform takes 32 MiB, and a string with any character beyond Latin-1 counts double.
const PIECE = 4 * 1024 * 1024;

// What the sandbox may call. Errors are values: a rejected call would end in the sandbox, not here.
class Host extends RpcTarget {
  #turn;
  #heard = "";
  #outgoing = [];

  constructor(turn) {
    super();
    this.#turn = turn;
  }

  // A piece of a turn that is too long for one message.
  part(text) {
    if (typeof text === "string" && this.#heard.length + text.length <= TURN_LIMIT) this.#heard += text;
  }

  // The last piece of a turn; answered when there is a result, or with "" when the sandbox is to end.
  async turn(text) {
    if (typeof text !== "string" || this.#heard.length + text.length > TURN_LIMIT) return "";
    const whole = this.#heard + text;
    this.#heard = "";
    const answer = await new Promise((resolve) => this.#turn(whole, resolve));
    return answer === "" ? "" : this.send(answer);
  }

  // The next piece of the last answer.
  more() {
    return this.#outgoing.shift() ?? ".";
  }

  // Cuts a text; gives its first piece and keeps the others.
  send(text) {
    const pieces = [];
    for (let at = 0; at === 0 || at < text.length; at += PIECE) {
      const last = at + PIECE >= text.length;
      pieces.push((last ? "." : "+") + text.slice(at, at + PIECE));
    }
    this.#outgoing = pieces;
    return this.#outgoing.shift();
  }
}

// Starts a sandbox. `turn(text, answer)` is told each turn; `lost(message)` is called once when the program's isolate
// ends, in whatever way.
export function start_sandbox(code, prelude, program, boot, turn, lost) {
  let running;
  let ended = false;
  const end = (message) => {
    if (ended) return;
    ended = true;
    lost(message);
  };
  try {
    const worker = {
      ...JSON.parse(code),
      mainModule: "main.js",
      modules: { "main.js": prelude, "program.js": program },
      env: {},
      globalOutbound: null,
    };
    const host = new Host(turn);
    running = exports.SandboxLauncher.run(worker, host, host.send(boot));
    running.then(() => end("it ended"), (error) => end(String(error?.message ?? error)));
  } catch (error) {
    // Not at once: the caller has not got the handle yet.
    Promise.resolve().then(() => end(String(error?.message ?? error)));
  }
  return {
    drop() {
      ended = true;
      try { running?.[Symbol.dispose]?.(); } catch { /* it is gone already */ }
    },
  };
}
