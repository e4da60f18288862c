// What a request costs is mostly calls across the border between Rust and JavaScript; here several are made into one.

// Two habits of the Rust bindings that cost more than the rest of a small request, measured in a profile of `npm run bench`.
// They read `cf` of every request that they are handed, and nobody here wants it.
Object.defineProperty(Request.prototype, "cf", { configurable: true, get: () => undefined });
// They wake every task by queueMicrotask, which the platform wraps; a settled promise does the same without.
globalThis.queueMicrotask = (task) => void Promise.resolve().then(task);

// Each look at a header is a call into the platform, so only those are read that matter to the method.
const ALWAYS = ["authorization", "cf-ray", "mcp-session-id", "origin", "traceparent", "baggage"];
const BY_METHOD = {
  POST: ["accept", "content-length", "content-type", "mcp-protocol-version"],
  GET: ["accept", "last-event-id", "mcp-protocol-version"],
  OPTIONS: ["access-control-request-headers"],
};

/** Has `describe` tell of one more header. */
export function alsoRead(name) {
  if (!ALWAYS.includes(name)) ALWAYS.push(name);
}

/** Method, URL, and a line for each header that is there and that the gateway looks at. No header value has a line break. */
export function describe({ method, url, headers }) {
  let text = `${method}\n${url}`;
  const add = (name) => {
    const value = headers.get(name);
    if (value !== null) text += `\n${name}:${value}`;
    return value;
  };
  let traced = false;
  for (const name of ALWAYS) if (add(name) !== null && name === "traceparent") traced = true;
  if (traced) add("tracestate");
  for (const name of BY_METHOD[method] ?? []) add(name);
  return text;
}

// Objects are found by id; all that they read of the URL is its query.
const OBJECT_URL = "http://session/";

/** What a call to an object came to, when it failed; `body` is that of the request, where it was held. */
export class FailedCall {
  constructor(error, body) {
    this.error = error;
    this.body = body;
  }
}

/** The object with that id; undefined where the id is not one of this namespace. */
export function stubOf(namespace, id) {
  try {
    return namespace.get(namespace.idFromString(id));
  } catch {
    return undefined;
  }
}

/**
 * Hands a request to the object with that id; null where the id is not one of this namespace. Nothing that came in goes with
 * it but the body and what `context` says. With `hold` the body is read first, into a buffer of the platform's.
 */
export function forward(namespace, id, request, context, upgrade, hold) {
  const stub = stubOf(namespace, id);
  if (stub === undefined) return null;
  const headers = { "x-countersign-context": context };
  if (upgrade) headers.upgrade = "websocket";
  const { url, method } = request;
  return send(stub, objectUrl(url), { method, headers, body: method === "POST" && !hold ? request.body : undefined }, hold ? request : undefined);
}

/** Reads a body and throws it away, up to `limit` bytes. It is refused already: whatever happens here changes nothing. */
export async function drain({ body }, limit) {
  try {
    const reader = body.getReader();
    for (let arrived = 0; arrived <= limit; ) {
      const { done, value } = await reader.read();
      if (done) return;
      arrived += value.byteLength;
    }
  } catch {
    // The client is gone, or sends its body on after the answer.
  }
}

/** The URL of a request to an object that stands for one with this URL. */
export function objectUrl(url) {
  const query = url.indexOf("?");
  return query < 0 ? OBJECT_URL : OBJECT_URL + url.slice(query);
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
