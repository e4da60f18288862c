// The same tool on `McpAgent` of the package `agents`, written as its documentation says.

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { McpAgent } from "agents/mcp";
import { z } from "zod";

export class EchoAgent extends McpAgent {
  server = new McpServer({ name: "mcp-agent", version: "1" });

  async init() {
    const description = { description: "Gives back its message.", inputSchema: { message: z.string() } };
    this.server.registerTool("echo", description, async ({ message }) => ({ content: [{ type: "text", text: message }] }));
  }
}

export default EchoAgent.serve("/mcp", { binding: "SESSION" });
