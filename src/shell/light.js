// The way of nearly every request, a small POST to a session, with as little as can be between the platform and the Rust code:
// each side is called once, and nothing waits in wasm. Everything else goes the bindings' way. The build puts this around the
// module that worker-build makes (scripts/lib/bundle.mjs).

import { describe, FailedCall, objectUrl, stubOf } from "./http.js";

const CONTEXT_HEADER = "x-countersign-context";
/** How a context begins whose request is a small POST: a version and the second field (src/internal.rs). */
const QUICK = /^\d+\tquick\t/;
/** A body in a header needs no stream and no promise to be read. The platform's own logs leave out headers that are named secret. */
const BODY_HEADER = "x-countersign-secret-body";
const BODY_IN_HEADER = 4096;
/** What a header carries unchanged: printable ASCII without a space at either end. */
const PLAIN = /^[!-~]([ -~]*[!-~])?$/;

/**
 * The Worker's entry, from the class that the bindings export. A plain object: of a class the platform makes one for every request.
 */
export function lightEntry({ prototype: entry }) {
  return {
    fetch(request, env, ctx) {
      if (request.method === "POST") {
        const started = Date.now();
        let handed;
        try {
          handed = entry.quick(describe(request), env);
        } catch {
          // The slow way says what is wrong.
        }
        if (handed !== undefined) {
          const end = handed.indexOf("\n");
          const session = handed.slice(0, end);
          const stub = stubOf(env.SESSION, session);
          if (stub !== undefined) return answer(entry, request, stub, handed.slice(end + 1), session, started);
        }
      }
      return entry.fetch.call({ env, ctx }, request);
    },
  };
}

async function answer(entry, request, stub, context, sessionId, started) {
  let body;
  try {
    body = await request.arrayBuffer();
  } catch {
    return entry.settle(request, new FailedCall());
  }
  let response;
  try {
    response = await stub.fetch(objectUrl(request.url), carrying(body, context));
  } catch (error) {
    return entry.settle(request, new FailedCall(error, body));
  }
  const line = { event: "mcp_request", method: "POST", status: response.status, durationMs: Date.now() - started, sessionId };
  console.log(JSON.stringify(line));
  return response;
}

// A byte order mark stays, so that what is decoded is what came in.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a body; undefined where it is not UTF-8. */
function textOf(body) {
  try {
    return decoder.decode(body);
  } catch {
    return undefined;
  }
}

function carrying(body, context) {
  if (body.byteLength <= BODY_IN_HEADER) {
    const text = textOf(body);
    if (text !== undefined && PLAIN.test(text)) return { method: "POST", headers: { [CONTEXT_HEADER]: context, [BODY_HEADER]: text } };
  }
  return { method: "POST", headers: { [CONTEXT_HEADER]: context }, body };
}

/** How often an alarm that came early is waited for; a clock cannot be behind for that long. */
const EARLY_WAITS = 10;

/**
 * A class of the bindings whose alarms ring at their time or later by the clock of this machine: the one that rings them may be
 * ahead of it, and what is set anew for the same time would be lost (`set_alarm` in runner.rs).
 */
export function onTime(Bound) {
  const { alarm } = Bound.prototype;
  Bound.prototype.alarm = async function (info) {
    for (let waits = 0; waits < EARLY_WAITS; waits++) {
      const early = info?.scheduledTime - Date.now();
      if (!(early > 0)) break;
      await new Promise((resolve) => setTimeout(resolve, early));
    }
    return alarm.call(this);
  };
  return Bound;
}

/** The class of the session objects, around the one of the bindings. */
export function lightObject(Bound) {
  let headers;
  const jsonHeaders = () => {
    headers ??= new Headers(Bound.jsonHeaders().split("\n").map((line) => line.split(/:(.*)/s, 2)));
    return headers;
  };
  return class {
    constructor(state, env) {
      this.bound = new Bound(state, env);
    }

    fetch(request) {
      const context = request.headers.get(CONTEXT_HEADER);
      if (context === null || !QUICK.test(context)) return this.bound.fetch(request);
      const text = request.headers.get(BODY_HEADER);
      if (text !== null) return this.quick(request, context, text, text);
      return request.arrayBuffer().then((body) => this.quick(request, context, textOf(body), body));
    }

    quick(request, context, text, body) {
      const answer = text === undefined ? undefined : this.bound.quick(context, text);
      if (typeof answer === "string") return new Response(answer, { headers: jsonHeaders() });
      if (answer !== undefined) return answer;
      return this.bound.fetch(new Request(request.url, { method: "POST", headers: { [CONTEXT_HEADER]: context }, body }));
    }

    alarm(info) {
      return this.bound.alarm(info);
    }

    webSocketMessage(socket, message) {
      return this.bound.webSocketMessage(socket, message);
    }

    webSocketClose(socket, code, reason, wasClean) {
      return this.bound.webSocketClose(socket, code, reason, wasClean);
    }

    webSocketError(socket, error) {
      return this.bound.webSocketError(socket, error);
    }
  };
}
