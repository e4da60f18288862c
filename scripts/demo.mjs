// `npm run demo [-- --approve | --decline] [--kill]`: the smallest whole story, told by a real client.
//
// An agent (the official TypeScript SDK) runs a program that deletes something. The gateway stops the program before the
// delete, a person decides, and the program goes on. With --kill the runtime dies by SIGKILL while the call waits, and another
// client finishes the work. Ends with 0 only if every step came out as promised.

import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";

import { ensureNode } from "./lib/node.mjs";
import { ROOT } from "./lib/paths.mjs";
import { bold, dim, Failure, green, runScript } from "./lib/report.mjs";

// In development mode the person in a browser is dev@dev, and only the account that asked may decide.
const ACCOUNT = { account: "dev", organization: "dev" };
const DECLINE_REASON = "Stock-taking is on until Friday: delete nothing before that.";
/** Longer than RESUME_WAIT_MS, so that it is the gateway that ends a wait, and far from any proxy's limits. */
const CALL_TIMEOUT_MS = 90_000;
/** How long the demo goes on asking when it decides by itself; a person may take as long as the approval window. */
const OWN_DECISION_TIMEOUT_MS = 120_000;

let steps = 0;

await runScript(async () => {
  const wish = parseOptions(process.argv.slice(2));
  await ensureNode();
  const { ensureBundle, describeSize } = await import("./lib/bundle.mjs");
  console.log(describeSize(await ensureBundle()));

  const { startGateway } = await import("../tests/harness/index.mjs");
  const stateDir = join(ROOT, ".state", `demo-${process.pid}-${randomBytes(3).toString("hex")}`);
  process.on("exit", () => rmSync(stateDir, { recursive: true, force: true }));
  const gateway = await startGateway({ stateDir });
  try {
    await tell(gateway, wish);
  } catch (error) {
    console.error(dim(`\n--- the gateway's log\n${gateway.output().split("\n").slice(-40).join("\n")}`));
    throw error;
  } finally {
    await gateway.stop();
  }
  console.log(`\n${green("The demo ended as promised.")}`);
});

function parseOptions(args) {
  const wish = { approve: false, decline: false, kill: false };
  for (const arg of args) {
    const name = arg.replace(/^--/, "");
    if (!arg.startsWith("--") || !(name in wish)) {
      throw new Failure(`Unknown option ${arg}. Usage: npm run demo [-- --approve | --decline] [--kill]`);
    }
    wish[name] = true;
  }
  if (wish.approve && wish.decline) throw new Failure("Either --approve or --decline, not both.");
  return wish;
}

async function tell(gateway, wish) {
  const { approve, decide, decline, devToken, shownPause } = await import("../tests/harness/index.mjs");
  const agentToken = devToken(ACCOUNT);
  const approver = { token: devToken({ ...ACCOUNT, roles: ["approver"] }) };
  const operations = await readInventory(gateway);
  const deletesBefore = await countDeletes(gateway, operations, agentToken);

  step(`The gateway is up at ${gateway.url} (first answer after ${gateway.firstAnswerMs.toFixed(0)} ms)`);
  let agent = await connect(gateway, agentToken, "countersign-demo");
  const { tools } = await agent.client.listTools();
  const names = tools.map((tool) => tool.name);
  check(["execute", "resume", "skills"].every((name) => names.includes(name)), `execute, resume and skills are offered (got ${names.join(", ")})`);
  detail(`connected with the official TypeScript SDK; session ${agent.sessionId}; tools: ${names.join(", ")}`);

  step("The agent runs this program with the execute tool:");
  const program = programFor(operations);
  console.log(dim(program.replace(/^/gm, "     | ")));
  const pause = await agent.call("execute", { code: program });
  check(pause.status === "user_approval_required", `the program waits for a person (got ${JSON.stringify(pause)})`);
  check(typeof pause.executionId === "string" && typeof pause.approvalUrl === "string", "the pause names its execution and its page");
  check((await countDeletes(gateway, operations, agentToken)) === deletesBefore, "nothing was deleted yet");

  step("It stopped before the delete; nothing was deleted. A person decides here:");
  console.log(`     ${bold(pause.approvalUrl)}`);

  if (wish.kill) {
    await gateway.kill();
    step("SIGKILL: the local runtime is dead, the agent's connection with it");
    await agent.abandon();
    await gateway.start();
    agent = await connect(gateway, agentToken, "countersign-demo-second");
    detail(`started again on the same state and port; another client, another session: ${agent.sessionId}`);
  }

  let digest;
  if (wish.approve || wish.decline) {
    ({ digest } = await shownPause(gateway, pause, approver));
    const byAgent = await decide(gateway, pause, { action: "accept", digest }, { token: agentToken });
    check([401, 403].includes(byAgent.status), `the agent's own bearer cannot decide (got ${byAgent.status})`);
    detail(`the agent tries to approve its own call: ${byAgent.status}`);
  }

  step(`The agent calls resume {executionId: "${pause.executionId}"} and waits`);
  const finishing = untilFinished(agent, pause, wish);
  // The decision below may fail first; the failure that counts is then that one.
  finishing.catch(() => {});
  if (wish.approve || wish.decline) {
    const decided = wish.approve ? await approve(gateway, pause, approver) : await decline(gateway, pause, DECLINE_REASON, approver);
    check(decided.status === 200, `the approval API took the decision (got ${decided.status} ${JSON.stringify(decided.body)})`);
    detail(wish.approve ? "approved through the approval API" : `declined through the approval API: "${DECLINE_REASON}"`);
  }
  const outcome = await finishing;
  check(outcome.status === "completed", `the program finished (got ${JSON.stringify(outcome)})`);

  step("The program finished with:");
  console.log(dim(JSON.stringify(outcome.result, null, 2).replace(/^/gm, "     ")));
  const deletes = (await countDeletes(gateway, operations, agentToken)) - deletesBefore;
  const { result } = outcome;
  if (wish.approve || (!wish.decline && result.deleted)) {
    check(result.deleted === true && result.after === result.before - 1, "the program saw the delete succeed");
    check(deletes === 1, `the delete ran exactly once (it ran ${deletes} times)`);
    step("The delete ran exactly once");
  } else {
    check(result.deleted === false && result.error?.code === "declined", "the program was told that the call was declined");
    check(!wish.decline || result.error.reason === DECLINE_REASON, "the program was told the reason");
    check(deletes === 0 && result.after === result.before, `the delete never ran (it ran ${deletes} times)`);
    step(`The delete never ran; the program was told why: "${result.error.reason ?? ""}"`);
  }

  const again = await agent.call("resume", { executionId: pause.executionId });
  check(JSON.stringify(again.result) === JSON.stringify(result), `resume again gives the same outcome (got ${JSON.stringify(again)})`);
  if (digest) {
    const late = await decide(gateway, pause, { action: "accept", digest }, approver);
    check(late.status === 409, `a second decision is refused (got ${late.status})`);
  }
  check((await countDeletes(gateway, operations, agentToken)) - deletesBefore === deletes, "and nothing ran again");
  detail("resume again: the same outcome, and nothing ran again");
  await agent.close();
}

/** Calls `resume` until the program has an outcome. */
async function untilFinished(agent, pause, wish) {
  const deadline = wish.approve || wish.decline ? Date.now() + OWN_DECISION_TIMEOUT_MS : Date.parse(pause.expiresAt) || Infinity;
  for (;;) {
    const answer = await agent.call("resume", { executionId: pause.executionId });
    if (answer.status === "completed" || answer.status === "error" || answer.status === "execution_not_found") return answer;
    check(Date.now() < deadline, `a decision came in time (got ${JSON.stringify(answer)})`);
    detail("still waiting for the decision");
  }
}

async function connect(gateway, token, name) {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const client = new Client({ name, version: "1.0.0" });
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", gateway.url), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  });
  await client.connect(transport);
  return {
    client,
    sessionId: transport.sessionId,
    /** A tool's structured answer; the text is the same as JSON for clients that know no structured content. */
    async call(tool, args) {
      const answer = await client.callTool({ name: tool, arguments: args }, undefined, { timeout: CALL_TIMEOUT_MS });
      if (answer.structuredContent) return answer.structuredContent;
      const text = answer.content?.find((block) => block.type === "text")?.text ?? "";
      try {
        return JSON.parse(text);
      } catch {
        throw new Failure(`${tool} answered without structured content: ${text}`);
      }
    },
    async close() {
      await transport.terminateSession();
      await client.close();
    },
    /** Lets go of a connection whose server is gone. */
    abandon: () => client.close().catch(() => {}),
  };
}

/** The names of the demo inventory's operations, from its own OpenAPI document. */
async function readInventory(gateway) {
  const response = await gateway.fetch("/demo/openapi.json");
  if (!response.ok) throw new Failure(`The demo inventory is not there: /demo/openapi.json answered ${response.status}.`);
  const { paths } = await response.json();
  const [path, item] = Object.entries(paths).find(([, operations]) => operations.delete) ?? [];
  const list = paths[path?.replace(/\/\{[^}]+\}$/, "")]?.get;
  if (!item || !list) throw new Failure("The demo inventory's document has no list and delete operation.");
  return { list: list.operationId, delete: item.delete.operationId, parameter: /\{([^}]+)\}$/.exec(path)[1] };
}

async function countDeletes(gateway, operations, token) {
  const response = await gateway.fetch("/demo/calls", { headers: { authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Failure(`/demo/calls answered ${response.status}.`);
  return (await response.json())[operations.delete] ?? 0;
}

function programFor({ list, delete: remove, parameter }) {
  return `type Item = { id: string; name: string };
const items = async (): Promise<Item[]> => {
  const listed = await tools.demo.${list}({});
  if (!listed.ok) throw new Error(listed.error.message);
  return Array.isArray(listed.data) ? listed.data : listed.data.items;
};
const before = await items();
const unwanted = before[0];
const outcome = await tools.demo.${remove}({ ${parameter}: unwanted.id });
const after = await items();
return {
  item: unwanted.name,
  deleted: outcome.ok,
  error: outcome.ok ? null : outcome.error,
  before: before.length,
  after: after.length,
};`;
}

function step(text) {
  steps += 1;
  console.log(`\n${bold(`${steps}.`)} ${text}`);
}

function detail(text) {
  console.log(dim(`     ${text}`));
}

function check(condition, promise) {
  if (!condition) throw new Failure(`The demo failed. Expected: ${promise}.`);
}
