// The counting pass: what one MCP request costs Countersign in requests to Durable Objects and in written rows.

import { Failure } from "../scripts/lib/report.mjs";
import { Client } from "./client.mjs";
import { workerOf } from "./implementations.mjs";
import { startServer } from "./server.mjs";

const COUNTS_PATH = "/__bench/counts";
/** Requests of each kind. All of it is over within the minute in which a session notes its activity once. */
const REQUESTS = 100;
const METHOD =
  "a wrapper around the Durable Object classes: calls of fetch; rowsWritten of each SQL cursor, one more for each key-value write or alarm";

/**
 * Resolves with `{method, requests, operations}`; for each operation, counted over `REQUESTS` of them on an open session: per
 * request `objectRequests`, `rowsWritten` and `statements`, and the same `byClass`.
 */
export async function countCosts({ bundle, operations, query, tool }) {
  const server = await startServer(await workerOf("countersign", { bundle, counting: true }));
  const client = new Client("countersign", server, { query, tool });
  try {
    await client.open(1);
    // That session was opened through the wrapper; if it saw nothing then, its zeros mean nothing either.
    const opened = Object.values(await counts(server));
    if (!opened.some(({ requests, rows }) => requests > 0 && rows > 0)) {
      throw new Failure("The counting pass sees no Durable Object at work.");
    }
    const counted = {};
    for (const operation of operations) {
      // The first request may load what later ones find in memory.
      await client.load(operation, { count: 1 });
      const before = await counts(server);
      await client.load(operation, { count: REQUESTS });
      const after = await counts(server);
      counted[operation] = perRequest(before, after);
    }
    return { method: METHOD, requests: REQUESTS, operations: counted };
  } finally {
    await client.close();
    await server.stop();
  }
}

async function counts(server) {
  const response = await fetch(new URL(COUNTS_PATH, server.url));
  if (!response.ok) throw new Failure(`The counting pass does not work: ${COUNTS_PATH} answered ${response.status}.`);
  return response.json();
}

function perRequest(before, after) {
  const byClass = Object.fromEntries(
    Object.entries(after).map(([name, count]) => {
      const difference = (what) => (count[what] - before[name][what]) / REQUESTS;
      return [name, { objectRequests: difference("requests"), rowsWritten: difference("rows"), statements: difference("statements") }];
    }),
  );
  const total = (what) => Object.values(byClass).reduce((sum, each) => sum + each[what], 0);
  return { objectRequests: total("objectRequests"), rowsWritten: total("rowsWritten"), statements: total("statements"), byClass };
}
