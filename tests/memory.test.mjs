// What sandboxes leave behind in the runtime: an isolate takes two megabytes, and must be gone when its program does not run
// any more. As the runtime sees it, which is what counts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { approve, devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";

const PROGRAMS = 60;
const WAITING = 40;
/** What one program may leave, in bytes: half an isolate. */
const LEFT = 1_000_000;

// V8 gives nothing back of the wasm that it compiled and threw away (ARCHITECTURE.md, "What is compiled again"): not what this is about.
process.env.MINIFLARE_WORKERD_V8_FLAGS = "--no-flush-liftoff-code";

async function scene(t, vars) {
  const gateway = await startGateway({ vars });
  t.after(() => gateway.stop());
  const session = await openSession(gateway, { token: devToken({ organization: "memory" }) });
  // What the first programs compile and cache stays.
  for (let n = 0; n < 20; n++) await session.tool("execute", { code: "return (await tools.demo.listItems({})).ok" });
  return { gateway, session };
}

test("a program that ended leaves no isolate behind", async (t) => {
  const { gateway, session } = await scene(t, {});
  const before = gateway.memory();
  for (let n = 0; n < PROGRAMS; n++) {
    const { structuredContent } = await session.tool("execute", { code: `return ${n} + (await tools.demo.listItems({})).ok` });
    assert.equal(structuredContent.result, n + 1);
  }
  const each = (gateway.memory() - before) / PROGRAMS;
  assert.ok(each < LEFT, `${Math.round(each)} bytes a program`);
});

test("a program that waits holds no isolate after SUSPEND_AFTER_MS", async (t) => {
  const { gateway, session } = await scene(t, { SUSPEND_AFTER_MS: "50" });
  const before = gateway.memory();
  const pauses = [];
  for (let n = 0; n < WAITING; n++) {
    const { structuredContent } = await session.tool("execute", { code: "return (await tools.demo.deleteItem({ id: 'item-1' })).ok" });
    assert.equal(structuredContent.status, "user_approval_required");
    pauses.push(structuredContent);
  }
  await waitFor(() => (gateway.memory() - before) / WAITING < LEFT, { what: "the isolates to be gone" });
  await approve(gateway, pauses.at(-1), { token: devToken({ organization: "memory", roles: ["approver"] }) });
  const { structuredContent } = await session.tool("resume", { executionId: pauses.at(-1).executionId });
  assert.equal(structuredContent.status, "completed");
});
