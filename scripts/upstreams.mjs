// `npm run upstreams`: MCP servers that others wrote, behind the built gateway: @modelcontextprotocol/server-everything and one on
// fastmcp. Both are called in every way, killed in the middle, and started again. Not among the tests, because both are downloads:
//
//   EVERYTHING=<its dist/index.js>    npm install @modelcontextprotocol/server-everything, somewhere
//   FASTMCP_PYTHON=<a python>         of an environment that has fastmcp
//
// What is not there is left out, and said.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Failure, heading, runScript, say, warn } from "./lib/report.mjs";
import { approve, devToken, openSession, startGateway, waitFor } from "../tests/harness/index.mjs";

const FASTMCP_SERVER = fileURLToPath(new URL("../tests/fixtures/fastmcp_server.py", import.meta.url));
const APPROVER = { token: devToken({ roles: ["approver"] }) };

await runScript(async () => {
  const { EVERYTHING, FASTMCP_PYTHON } = process.env;
  if (!EVERYTHING && !FASTMCP_PYTHON) throw new Failure("set EVERYTHING or FASTMCP_PYTHON; see the beginning of scripts/upstreams.mjs");
  const gateway = await startGateway({ vars: { ALLOW_LOCAL_NETWORK: "true", DEFAULT_TOOL_MODE: "code", RESUME_WAIT_MS: "20000", TOOL_TIMEOUT_MS: "20000" } });
  const kept = mkdtempSync(join(tmpdir(), "countersign-upstreams-"));
  let failed = 0;
  try {
    for (const [name, given, checks] of [["everything", EVERYTHING, everything], ["fastmcp", FASTMCP_PYTHON, fastmcp]]) {
      heading(name);
      if (!given) {
        warn(`left out: ${name === "everything" ? "EVERYTHING" : "FASTMCP_PYTHON"} is not set`);
        continue;
      }
      failed += await checks(gateway, given, kept);
    }
  } finally {
    await gateway.stop();
    rmSync(kept, { recursive: true, force: true });
  }
  return failed > 0 ? 1 : 0;
});

/** Runs each check, says how it went, and gives how many failed. */
async function each(checks) {
  let failed = 0;
  for (const [what, check] of Object.entries(checks)) {
    try {
      await check();
      say(`ok      ${what}`);
    } catch (error) {
      failed += 1;
      say(`FAILED  ${what}\n${String(error?.stack ?? error).replace(/^/gm, "          ")}`);
    }
  }
  return failed;
}

/** A server in a process that can be killed and started again on the same port. */
async function startServer(command, args, { env = {}, portInArgs = false } = {}) {
  const port = await freePort();
  const server = { url: `http://127.0.0.1:${port}/mcp` };
  let child;
  server.start = async () => {
    const given = portInArgs ? [args[0], String(port), ...args.slice(1)] : args;
    child = spawn(command, given, { env: { ...process.env, PORT: String(port), ...env }, stdio: "ignore" });
    await waitFor(() => fetch(server.url, { method: "OPTIONS" }).then(() => true, () => false), { timeout: 30_000, what: `${command} to listen` });
  };
  server.kill = () => new Promise((done) => {
    if (child.exitCode !== null || child.signalCode !== null) return done();
    child.once("exit", done);
    child.kill("SIGKILL");
  });
  server.restart = async () => {
    await server.kill();
    await server.start();
  };
  await server.start();
  return server;
}

function freePort() {
  return new Promise((found) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => found(port));
    });
  });
}

/** Whether calls to the tools are to be asked about; by default they are, but for those that say that they only read. */
async function allow(gateway, pattern) {
  const response = await gateway.fetch("/api/policies", {
    method: "PUT",
    headers: { authorization: `Bearer ${devToken({ roles: ["admin"] })}`, "content-type": "application/json" },
    body: JSON.stringify({ policies: [{ pattern, action: "allow" }] }),
  });
  assert.ok(response.ok, await response.text());
}

async function addSource(gateway, slug, url, trusted) {
  const response = await gateway.fetch(`/api/sources/${slug}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${devToken({ roles: ["admin"] })}`, "content-type": "application/json" },
    body: JSON.stringify({ kind: "mcp", url, trusted }),
  });
  const body = await response.json();
  assert.ok(response.ok, JSON.stringify(body));
  return body;
}

async function run(session, code, options) {
  const { structuredContent } = await session.tool("execute", { code }, options);
  assert.equal(structuredContent.status, "completed", JSON.stringify(structuredContent));
  return structuredContent.result;
}

/** Runs a program that pauses once, approves what it asks, and gives what the program gave; `meanwhile` is after the approval. */
async function approved(gateway, session, code, meanwhile = () => {}) {
  const paused = await session.tool("execute", { code });
  assert.equal(paused.structuredContent.status, "user_approval_required", JSON.stringify(paused.structuredContent));
  assert.equal((await approve(gateway, paused.structuredContent, APPROVER)).status, 200);
  const resumed = session.tool("resume", { executionId: paused.structuredContent.executionId });
  await meanwhile();
  const { structuredContent } = await resumed;
  assert.equal(structuredContent.status, "completed", JSON.stringify(structuredContent));
  return structuredContent.result;
}

/** What holds for any server that is killed and comes back; `call` is a program that gives `true`. */
function outlives(server, { program, call }) {
  return {
    "a program calls after the server lost its sessions": async () => {
      assert.equal(await run(program, call), true);
      await server.restart();
      assert.equal(await run(program, call), true, "the session is opened anew, and nobody notices");
    },
    "a server that is down fails fast, and is used again when it is back": async () => {
      await server.kill();
      const began = performance.now();
      const down = await program.tool("execute", { code: call });
      assert.notEqual(down.structuredContent.result, true);
      assert.ok(performance.now() - began < 10_000);
      await server.start();
      await waitFor(async () => (await program.tool("execute", { code: call })).structuredContent.result === true, { timeout: 20_000, what: "the server to be used again" });
    },
  };
}

async function everything(gateway, script) {
  if (!existsSync(script)) throw new Failure(`there is no ${script}`);
  const server = await startServer(process.execPath, [script, "streamableHttp"]);
  try {
    const added = await addSource(gateway, "everything", server.url, true);
    say(`${added.tools} tools`);
    await allow(gateway, "everything.**");
    const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
    const program = await openSession(gateway);
    const direct = await openSession(gateway, { query: { tool_mode: "direct" }, capabilities });
    const named = (own) => `everything__${own.replaceAll("-", "_")}`;
    const text = ({ content }) => content.map((block) => block.text ?? "").join("\n");
    return await each({
      "tools are listed": async () => {
        const names = [];
        for (let cursor; ; ) {
          const { result } = await direct.call("tools/list", cursor ? { cursor } : {});
          names.push(...result.tools.map(({ name }) => name));
          if (!(cursor = result.nextCursor)) break;
        }
        for (const own of ["echo", "get-sum", "get-tiny-image", "trigger-long-running-operation"]) assert.ok(names.includes(named(own)), `${own} in ${names}`);
      },
      "tools are called in direct mode, their blocks as they are": async () => {
        assert.match(text(await direct.tool(named("echo"), { message: "grüße" })), /grüße/);
        assert.match(text(await direct.tool(named("get-sum"), { a: 2, b: 40 })), /42/);
        const image = (await direct.tool(named("get-tiny-image"))).content.find(({ type }) => type === "image");
        assert.equal(image.mimeType, "image/png");
        const structured = await direct.tool(named("get-structured-content"), { location: "New York" });
        assert.equal(typeof structured.structuredContent.temperature, "number");
        const [link] = (await direct.tool(named("get-resource-links"), { count: 2 })).content.filter(({ type }) => type === "resource_link");
        assert.ok((await direct.call("resources/read", { uri: link.uri })).result.contents.length > 0, link.uri);
        const embedded = (await direct.tool(named("get-resource-reference"), { resourceType: "Text", resourceId: 1 })).content.find(({ type }) => type === "resource");
        assert.match(embedded.resource.uri, /^everything\+/);
      },
      "a program calls several at once": async () => {
        const sums = await run(program, "return (await Promise.all([1, 2, 3, 4, 5, 6].map((n) => tools.everything.get_sum({ a: n, b: n })))).map(({ ok, data }) => ok ? JSON.stringify(data).match(/is (\\d+)/)?.[1] : null)");
        assert.deepEqual(sums, ["2", "4", "6", "8", "10", "12"]);
      },
      "progress comes while it runs": async () => {
        const { result, messages } = await direct.call("tools/call", { name: named("trigger-long-running-operation"), arguments: { duration: 1, steps: 4 }, _meta: { progressToken: "mine" } });
        assert.match(text(result), /completed/);
        const progress = messages.filter(({ method }) => method === "notifications/progress").map(({ params }) => params);
        assert.deepEqual(progress.map(({ progressToken, progress: step }) => [progressToken, step]), [["mine", 1], ["mine", 2], ["mine", 3], ["mine", 4]]);
      },
      "the server asks the model and the person of the client": async () => {
        const answers = { "sampling/createMessage": { role: "assistant", model: "m", content: { type: "text", text: "sampled" } }, "elicitation/create": { action: "decline" } };
        const seen = [];
        const onMessage = async (message) => {
          if (message.id === undefined) return;
          seen.push(message.method);
          assert.equal((await direct.answer(message.id, answers[message.method])).status, 202);
        };
        // Its get-roots-list asks on a stream of its own, outside of any call; the gateway has none.
        const sampled = await direct.tool(named("trigger-sampling-request"), { prompt: "p", maxTokens: 10 }, { onMessage });
        assert.match(text(sampled), /sampled/);
        assert.match(text(await direct.tool(named("trigger-elicitation-request"), {}, { onMessage })), /declined/i);
        assert.deepEqual(seen, ["sampling/createMessage", "elicitation/create"]);
      },
      "resources, templates, prompts and completion": async () => {
        const { resources } = (await direct.call("resources/list")).result;
        const ours = resources.filter(({ uri }) => uri.startsWith("everything+"));
        assert.ok(ours.length > 0, JSON.stringify(resources));
        assert.equal((await direct.call("resources/read", { uri: ours[0].uri })).result.contents[0].uri, ours[0].uri);
        const { resourceTemplates } = (await direct.call("resources/templates/list")).result;
        assert.ok(resourceTemplates.some(({ uriTemplate }) => uriTemplate.startsWith("everything+")));
        const { prompts } = (await direct.call("prompts/list")).result;
        const own = prompts.filter(({ name }) => name.startsWith("everything"));
        assert.ok(own.length >= 3, JSON.stringify(prompts));
        const simple = own.find(({ arguments: given = [] }) => given.length === 0);
        assert.ok((await direct.call("prompts/get", { name: simple.name })).result.messages.length > 0);
        const completable = own.find(({ name }) => /complet/.test(name));
        const [argument] = completable.arguments;
        const { result } = await direct.call("completion/complete", { ref: { type: "ref/prompt", name: completable.name }, argument: { name: argument.name, value: "" } });
        assert.ok(result.completion.values.length > 0);
      },
      ...outlives(server, { program, call: "return (await tools.everything.echo({ message: 'here' })).ok" }),
      "direct mode, too, opens a lost session anew": async () => {
        await direct.tool(named("echo"), { message: "before" });
        await server.restart();
        assert.match(text(await direct.tool(named("echo"), { message: "after" })), /after/);
        await server.restart();
        assert.ok((await direct.call("prompts/list")).result.prompts.length >= 3);
      },
      "a server that dies in a call leaves an answer, not silence": async () => {
        const call = direct.tool(named("trigger-long-running-operation"), { duration: 15, steps: 3 });
        await new Promise((done) => setTimeout(done, 1_000));
        await server.kill();
        const result = await call;
        assert.equal(result.isError, true, JSON.stringify(result));
        await server.start();
      },
      "another client's cancellation reaches the server": async () => {
        const stop = new AbortController();
        const call = direct.call("tools/call", { name: named("trigger-long-running-operation"), arguments: { duration: 10, steps: 20 }, _meta: { progressToken: 7 } }, { id: "to-cancel", onMessage: () => stop.abort() });
        await waitFor(() => stop.signal.aborted, { what: "progress" });
        assert.equal((await direct.notify("notifications/cancelled", { requestId: "to-cancel" })).status, 202);
        assert.equal((await call).result, undefined, "the stream ends without an answer");
      },
    });
  } finally {
    await server.kill();
  }
}

async function fastmcp(gateway, python, kept) {
  const file = join(kept, "lines.txt");
  const lines = (text) => (existsSync(file) ? readFileSync(file, "utf8").split("\n").filter((line) => line === text).length : 0);
  const server = await startServer(python, [FASTMCP_SERVER, file], { portInArgs: true });
  try {
    const added = await addSource(gateway, "fast", server.url, true);
    say(`${added.tools} tools`);
    const program = await openSession(gateway);
    const direct = await openSession(gateway, { query: { tool_mode: "direct" }, capabilities: { elicitation: { form: {} } } });
    return await each({
      "a program calls tools, and failures are failures": async () => {
        assert.equal(await run(program, "return (await tools.fast.add({ a: 2, b: 40 })).data?.result"), 42);
        const failed = await run(program, "return await tools.fast.fail({})");
        assert.equal(failed.ok, false);
        assert.match(failed.error.message, /it went wrong/);
        const refused = await run(program, "return await tools.fast.add({ a: 'x', b: 1 })");
        assert.equal(refused.ok, false, "checked before it is sent");
      },
      "progress and log messages come in direct mode": async () => {
        await direct.call("logging/setLevel", { level: "info" });
        const { result, messages } = await direct.call("tools/call", { name: "fast__count", arguments: { to: 3 }, _meta: { progressToken: "mine" } });
        assert.match(result.content[0].text, /counted/);
        assert.deepEqual(messages.filter(({ method }) => method === "notifications/progress").map(({ params }) => params.progress), [1, 2, 3]);
        assert.equal(messages.filter(({ method }) => method === "notifications/message").length, 3);
      },
      "the server's question reaches the person, where fastmcp can ask": async () => {
        const onMessage = async (message) => message.id !== undefined && direct.answer(message.id, { action: "accept", content: { colour: "red" } });
        const [{ text }] = (await direct.tool("fast__ask", {}, { onMessage })).content;
        // fastmcp 4 speaks the stateless era to whoever does, and cannot ask there.
        assert.match(text, /^accept: red$|unavailable on 2026-07-28 connections/);
        say(`        ${text}`);
      },
      "resources, templates and prompts": async () => {
        assert.equal((await direct.call("resources/read", { uri: "fast+note://first" })).result.contents[0].text, "the first note");
        assert.equal((await direct.call("resources/read", { uri: "fast+note://x/text" })).result.contents[0].text, "the note x");
        assert.ok((await direct.call("resources/templates/list")).result.resourceTemplates.some(({ uriTemplate }) => uriTemplate === "fast+note://{name}/text"));
        assert.equal((await direct.call("prompts/get", { name: "fast__greet", arguments: { who: "Ada" } })).result.messages[0].content.text, "Greet Ada");
      },
      ...outlives(server, { program, call: "return (await tools.fast.add({ a: 1, b: 1 })).ok" }),
      "a write that was approved while the server lost its sessions happens once": async () => {
        const result = await approved(gateway, program, "return await tools.fast.append({ text: 'once' })", undefined);
        assert.equal(result.ok, true, JSON.stringify(result));
        const paused = await program.tool("execute", { code: "return await tools.fast.append({ text: 'anew' })" });
        await server.restart();
        assert.equal((await approve(gateway, paused.structuredContent, APPROVER)).status, 200);
        const resumed = await program.tool("resume", { executionId: paused.structuredContent.executionId });
        assert.equal(resumed.structuredContent.result.ok, true, JSON.stringify(resumed.structuredContent));
        assert.deepEqual([lines("once"), lines("anew")], [1, 1]);
      },
      "a write that may have happened is not sent again": async () => {
        const result = await approved(gateway, program, "return await tools.fast.append_slowly({ text: 'perhaps', seconds: 30 })", async () => {
          await waitFor(() => lines("perhaps") === 1, { timeout: 10_000, what: "the write" });
          await server.restart();
        });
        assert.equal(result.ok, false);
        assert.equal(result.error.code, "outcome_unknown", JSON.stringify(result));
        assert.equal(lines("perhaps"), 1);
      },
      "a gateway that dies in a call does not send it again either": async () => {
        // A server that could not be reached is left alone for some seconds.
        await waitFor(async () => (await program.tool("execute", { code: "return (await tools.fast.add({ a: 1, b: 1 })).ok" })).structuredContent.result === true, { timeout: 20_000, what: "the server to be used again" });
        const paused = await program.tool("execute", { code: "return await tools.fast.append_slowly({ text: 'crash', seconds: 5 })" });
        assert.equal((await approve(gateway, paused.structuredContent, APPROVER)).status, 200);
        const resumed = program.tool("resume", { executionId: paused.structuredContent.executionId }).catch(() => undefined);
        await waitFor(() => lines("crash") === 1, { timeout: 10_000, what: "the write" });
        await gateway.kill();
        await resumed;
        await gateway.start();
        const after = await waitFor(async () => {
          const { structuredContent } = await program.tool("resume", { executionId: paused.structuredContent.executionId });
          return structuredContent.status === "completed" ? structuredContent : undefined;
        }, { timeout: 30_000, what: "the execution to end" });
        assert.equal(after.result.error?.code, "outcome_unknown", JSON.stringify(after));
        assert.equal(lines("crash"), 1);
      },
    });
  } finally {
    await server.kill();
  }
}
