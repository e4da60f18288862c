// The floor: the least that a Durable Object behind an MCP endpoint can do.
//
// It routes by session id, parses the message and answers it. It knows no account, checks nothing and stores nothing, so
// no real server can be as quick; it shows what the platform itself costs.

import { DurableObject } from "cloudflare:workers";

const ECHO = {
  name: "echo",
  description: "Gives back its message.",
  inputSchema: { type: "object", properties: { message: { type: "string" } }, required: ["message"] },
};

export class BareDurableObject extends DurableObject {
  async fetch(request) {
    const { id, method, params } = await request.json();
    if (id === undefined) return new Response(null, { status: 202 });
    switch (method) {
      case "initialize":
        return answer(
          id,
          { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "bare", version: "1" } },
          { "mcp-session-id": this.ctx.id.toString() },
        );
      case "ping":
        return answer(id, {});
      case "tools/list":
        return answer(id, { tools: [ECHO] });
      case "tools/call":
        return answer(id, { content: [{ type: "text", text: params.arguments.message }] });
      default:
        return Response.json({ jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } });
    }
  }
}

function answer(id, result, headers) {
  return Response.json({ jsonrpc: "2.0", id, result }, { headers });
}

export default {
  fetch(request, env) {
    const session = request.headers.get("mcp-session-id");
    const id = session === null ? env.SESSION.newUniqueId() : env.SESSION.idFromString(session);
    return env.SESSION.get(id).fetch(request);
  },
};
