// What a request costs is mostly calls across the border between Rust and JavaScript; here several are made into one.

// Two habits of the Rust bindings that cost more than the rest of a small request, measured in a profile of `npm run bench`.
// They read `cf` of every request that they are handed, and nobody here wants it.
Object.defineProperty(Request.prototype, "cf", { configurable: true, get: () => undefined });
// They wake every task by queueMicrotask, which the platform wraps; a settled promise does the same without.
globalThis.queueMicrotask = (task) => void Promise.resolve().then(task);

const HEADERS = [
  "accept", "access-control-request-headers", "authorization", "baggage", "cf-ray", "content-length", "content-type", "last-event-id", "mcp-protocol-version",
  "mcp-session-id", "origin", "traceparent", "tracestate",
];

/** Method, URL, and a line for each header that is there and that the gateway looks at. No header value has a line break. */
export function describe({ method, url, headers }) {
  let text = `${method}\n${url}`;
  for (const name of HEADERS) {
    const value = headers.get(name);
    if (value !== null) text += `\n${name}:${value}`;
  }
  return text;
}

/** What a call to an object came to, when it failed; `body` is that of the request, where it was held. */
export class FailedCall {
  constructor(error, body) {
    this.error = error;
    this.body = body;
  }
}

/**
 * Hands a request to the object with that id; null where the id is not one of this namespace. Nothing that came in goes with
 * it but the body and what `context` says. With `hold` the body is read first, into a buffer of the platform's.
 */
export function forward(namespace, id, request, context, upgrade, hold) {
  let stub;
  try {
    stub = namespace.get(namespace.idFromString(id));
  } catch {
    return null;
  }
  const headers = { "x-countersign-context": context };
  if (upgrade) headers.upgrade = "websocket";
  const { url, method } = request;
  return send(stub, url, { method, headers, body: hold ? undefined : request.body }, hold ? request : undefined);
}

async function send(stub, url, init, held) {
  try {
    if (held) init.body = await held.arrayBuffer();
  } catch {
    return new FailedCall(undefined, undefined);
  }
  try {
    return await stub.fetch(url, init);
  } catch (error) {
    return new FailedCall(error, held ? init.body : undefined);
  }
}
