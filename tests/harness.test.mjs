// What every other suite relies on: the harness starts the built gateway, kills it, and finds its state again.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { startGateway, waitFor } from "./harness/index.mjs";

test("a fresh gateway answers within two seconds of being ready", async (t) => {
  const gateway = await startGateway();
  t.after(() => gateway.stop());
  assert.ok(gateway.firstAnswerMs < 2_000, `first answer after ${gateway.firstAnswerMs} ms`);
});

test("a killed gateway is dead at once and comes back on the same port", async (t) => {
  const gateway = await startGateway();
  t.after(() => gateway.stop());
  const { url } = gateway;
  await gateway.kill();
  await assert.rejects(gateway.fetch("/health"));
  await gateway.start();
  assert.equal(gateway.url, url);
  assert.equal((await gateway.fetch("/health")).status, 200);
});

test("a missing bundle says what to do", async () => {
  await assert.rejects(startGateway({ bundle: "no-such-folder" }), /build it first/);
});

test("a bundle that does not run fails the start with what the runtime said", async (t) => {
  const bundle = mkdtempSync(join(tmpdir(), "countersign-broken-"));
  t.after(() => rmSync(bundle, { recursive: true }));
  writeFileSync(join(bundle, "index.js"), "throw new Error('broken on purpose');");
  writeFileSync(join(bundle, "index_bg.wasm"), Buffer.from("0061736d01000000", "hex"));
  await assert.rejects(startGateway({ bundle }), /did not start[^]*broken on purpose/);
});

test("a gateway does not outlive a process that was killed", async () => {
  const harness = new URL("./harness/index.mjs", import.meta.url);
  const program = `const { startGateway } = await import(${JSON.stringify(harness.href)});
    const gateway = await startGateway();
    console.log(gateway.url);
    setInterval(() => {}, 1000);`;
  const parent = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(parent.stdout.setEncoding("utf8"), "data");
  const health = new URL("/health", line.trim());
  assert.equal((await fetch(health)).status, 200);
  parent.kill("SIGKILL");
  await waitFor(() => fetch(health).then(() => false, () => true), { what: "the orphan's port is closed" });
});
