// The load: a fixed number of requests in flight over connections that stay open, as many as come back until time is up.

import { Pool } from "undici";

/** Requests in flight, one to a connection. */
export const IN_FLIGHT = 8;

/** A pool of connections to a server; close it with `close()`. */
export function connect(url) {
  return new Pool(url, { connections: IN_FLIGHT, pipelining: 1, headersTimeout: 30_000, bodyTimeout: 30_000 });
}

/** Sends one request and reads the answer to its end. Resolves with `{status, headers, text}`. */
export function send(pool, { path, headers, body }) {
  return new Promise((resolve, reject) => {
    let answer;
    const chunks = [];
    // The lowest layer of undici: what the load generator does itself takes time away from the server.
    pool.dispatch(
      { path, method: "POST", headers, body },
      {
        onRequestStart() {},
        onResponseStart(_controller, status, received) {
          answer = { status, headers: received };
        },
        onResponseData(_controller, chunk) {
          chunks.push(chunk);
        },
        onResponseEnd() {
          resolve({ ...answer, text: (chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)).toString("utf8") });
        },
        onResponseError(_controller, error) {
          reject(error);
        },
      },
    );
  });
}

/**
 * Sends requests until `seconds` are over or `count` are done; every answer is checked. `next()` gives a request with a
 * `check(answer)` that throws. Resolves with `{requests, seconds, latencies, clientSeconds}`: latencies in ms as they came, and the
 * processor time that this process took itself.
 */
export async function load(pool, next, { seconds = Infinity, count = Infinity, inFlight = IN_FLIGHT }) {
  const latencies = [];
  const cpu = process.cpuUsage();
  const began = performance.now();
  const deadline = began + seconds * 1000;
  let sent = 0;
  let failed = false;
  const line = async () => {
    for (let now = performance.now(); !failed && now < deadline && sent < count; ) {
      sent += 1;
      const request = next();
      const answer = await send(pool, request);
      const at = performance.now();
      latencies.push(at - now);
      request.check(answer);
      now = performance.now();
    }
  };
  const lines = Array.from({ length: Math.min(inFlight, count) }, () =>
    line().catch((error) => {
      failed = true;
      throw error;
    }),
  );
  await Promise.all(lines);
  const { user, system } = process.cpuUsage(cpu);
  return { requests: latencies.length, seconds: (performance.now() - began) / 1000, latencies, clientSeconds: (user + system) / 1e6 };
}
