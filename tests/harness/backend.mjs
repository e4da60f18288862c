// An HTTP server that a suite calls through the gateway: it remembers what arrived, byte for byte, and answers as it is told.

import { createServer } from "node:http";

/**
 * Starts one, by default at any free port. `answer(request, response, seen)` answers; by default with `{"ok":true}`.
 *
 * It has `url`, `origin`, `seen` (each `{method, target, headers, raw, body}`: the target as on the request line, the headers by
 * their names in lower case, the raw ones as pairs, the body as a Buffer), `take()` (what was seen since, and forgets it), and `stop()`.
 */
export async function startBackend(answer, port = 0) {
  const seen = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    try {
      for await (const chunk of request) chunks.push(chunk);
    } catch {
      return;
    }
    const raw = [];
    for (let at = 0; at < request.rawHeaders.length; at += 2) raw.push([request.rawHeaders[at], request.rawHeaders[at + 1]]);
    const one = { method: request.method, target: request.url, headers: request.headers, raw, body: Buffer.concat(chunks) };
    seen.push(one);
    if (backend.answer) return backend.answer(request, response, one);
    response.writeHead(200, { "content-type": "application/json" }).end('{"ok":true}');
  });
  await new Promise((ready) => server.listen(port, "127.0.0.1", ready));
  const url = `http://127.0.0.1:${server.address().port}`;
  const backend = {
    url,
    origin: url,
    seen,
    answer,
    take: () => seen.splice(0),
    stop: () => {
      server.closeAllConnections();
      return new Promise((done) => server.close(done));
    },
  };
  return backend;
}
