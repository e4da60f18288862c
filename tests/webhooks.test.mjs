// Webhooks: what is sent, how it is signed, what happens when an endpoint fails.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, before, test } from "node:test";

import { adminApi, approve, devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";
import { startBackend } from "./harness/backend.mjs";

const VARS = { RESUME_WAIT_MS: "4000", ALLOW_LOCAL_NETWORK: "true", WEBHOOK_RETRY_MS: "2", COUNTERSIGN_SECRET_KEY: "0a1b2c3d4e5f6g7h8i9jKLMNOPQRSTUVWXYZ-+=/" };
let gateway;
const backends = [];
before(async () => {
  gateway = await startGateway({ vars: VARS });
});
after(async () => {
  await gateway.stop();
  await Promise.all(backends.map((backend) => backend.stop()));
});

/** An endpoint; `status` is a number, or a function of how many came before and of the message. */
async function endpoint(status = 200) {
  const backend = await startBackend((request, response, seen) => {
    const code = typeof status === "function" ? status(backend.seen.length - 1, seen) : status;
    response.writeHead(code, code === 302 ? { location: "/elsewhere" } : {}).end();
  });
  backends.push(backend);
  return {
    ...backend,
    messages: () => backend.seen.map(({ headers, body }) => ({ id: headers["webhook-id"], ...JSON.parse(body) })),
    seen: backend.seen,
  };
}

let organizations = 0;
async function scene(own = gateway) {
  const organization = `hooks${(organizations += 1)}`;
  const admin = devToken({ organization, account: "root", roles: ["admin"] });
  const api = adminApi(own, admin);
  const session = await openSession(own, { token: devToken({ organization }) });
  return {
    organization,
    admin,
    api,
    session,
    approver: { token: devToken({ organization, roles: ["approver"] }) },
    execute: async (code) => (await session.tool("execute", { code })).structuredContent,
    resume: async (pause) => (await session.tool("resume", { executionId: pause.executionId })).structuredContent,
    state: async (slug) => (await api("GET", `webhooks/${slug}`)).body,
  };
}

const DELETE_ONE = "return await tools.demo.deleteItem({ id: 'item-3' })";

function verifies(secret, { headers, body }) {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
  return headers["webhook-signature"].split(" ").includes(expected);
}

test("what waits, is decided and ends is told, signed by the Standard Webhooks specification", async () => {
  const { api, session, execute, resume, approver } = await scene();
  const hook = await endpoint();
  const made = await api("PUT", "webhooks/ops", { url: `${hook.url}/in` });
  assert.equal(made.status, 201, made.text);
  assert.match(made.body.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.deepEqual([made.body.state, made.body.events.length], ["ok", 4]);
  const pause = await execute(DELETE_ONE);
  await waitFor(() => hook.seen.length === 1);
  const [first] = hook.messages();
  assert.equal(first.type, "approval.waiting");
  assert.deepEqual([first.data.executionId, first.data.mcpSessionId, first.data.account, first.data.approvalUrl], [pause.executionId, session.id, "ada", pause.approvalUrl]);
  assert.equal(first.data.calls[0].address, "demo.deleteItem");
  assert.ok(!("arguments" in first.data.calls[0]));
  assert.ok(!hook.seen[0].body.toString().includes("item-3"), "no arguments, in no form");
  await approve(gateway, pause, approver);
  await resume(pause);
  await waitFor(() => hook.seen.length === 3);
  const [, decided, finished] = hook.messages();
  assert.deepEqual([decided.type, decided.data.decision, decided.data.by, decided.data.via], ["approval.decided", "approved", "ada", "api"]);
  assert.deepEqual([finished.type, finished.data.outcome], ["approval.finished", "completed"]);
  for (const one of hook.seen) {
    assert.equal(one.method, "POST");
    assert.equal(one.headers["content-type"], "application/json");
    assert.ok(verifies(made.body.secret, one));
    assert.ok(!verifies("whsec_AAAA", one));
    assert.ok(Math.abs(Number(one.headers["webhook-timestamp"]) - Date.now() / 1000) < 60);
  }
  assert.equal(new Set(hook.messages().map(({ id }) => id)).size, 3);
  await waitFor(async () => (await api("GET", "webhooks")).body.items[0].pending === 0);
});

test("a secret is shown once; a new one is made by asking, and the old one signs on for a while", async () => {
  const { api, execute } = await scene();
  const hook = await endpoint();
  const { secret } = (await api("PUT", "webhooks/ops", { url: hook.url })).body;
  const again = await api("PUT", "webhooks/ops", { url: hook.url, events: ["waiting"] });
  assert.deepEqual([again.status, again.body.secret], [200, undefined]);
  const rotated = (await api("PUT", "webhooks/ops", { events: ["waiting"], rotateSecret: true })).body;
  assert.match(rotated.secret, /^whsec_/);
  assert.notEqual(rotated.secret, secret);
  for (const { text } of [await api("GET", "webhooks"), await api("GET", "webhooks/ops"), await api("GET", "audit")]) {
    assert.ok(!text.includes("whsec_") && !text.includes(secret.slice(6)) && !text.includes(rotated.secret.slice(6)), text);
  }
  await execute(DELETE_ONE);
  await waitFor(() => hook.seen.length === 1);
  assert.ok(verifies(secret, hook.seen[0]) && verifies(rotated.secret, hook.seen[0]));
  const stored = await Promise.all((await gateway.objects("OrganizationDurableObject")).map((id) => gateway.sql("OrganizationDurableObject", id, "SELECT json FROM webhook").catch(() => [])));
  assert.ok(!JSON.stringify(stored).includes(secret.slice(6)), "stored encrypted");
  assert.ok(!gateway.output().includes(secret.slice(6)));
});

test("Slack gets text and blocks with a link, and its URL is a secret", async () => {
  const { api, execute } = await scene();
  const hook = await endpoint();
  const url = `${hook.url}/services/T000/B000/very-secret-path`;
  const made = await api("PUT", "webhooks/slack", { url, format: "slack", events: ["waiting"] });
  assert.deepEqual([made.status, made.body.url, made.body.secret], [201, `${hook.url}/…`, undefined]);
  const pause = await execute(DELETE_ONE);
  await waitFor(() => hook.seen.length === 1);
  const { text, blocks } = hook.messages()[0];
  assert.equal(text, "1 call of ada wait for a person");
  const link = blocks.find((block) => block.text.type === "mrkdwn").text.text;
  assert.equal(link, `<${pause.approvalUrl}|Open the page>`);
  assert.match(JSON.stringify(blocks), /demo\.deleteItem/);
  assert.equal(hook.seen[0].target, "/services/T000/B000/very-secret-path");
  for (const { text } of [await api("GET", "webhooks"), await api("GET", "audit")]) assert.ok(!text.includes("very-secret"), text);
  assert.ok(!gateway.output().includes("very-secret"));
  assert.equal((await api("PUT", "webhooks/slack", { format: "standard" })).status, 400, "another format needs its URL");
});

test("arguments go along only where they are asked for", async () => {
  const { api, execute } = await scene();
  const [with_, without] = [await endpoint(), await endpoint()];
  await api("PUT", "webhooks/with", { url: with_.url, arguments: true, events: ["waiting"] });
  await api("PUT", "webhooks/without", { url: without.url, events: ["waiting"] });
  await execute(DELETE_ONE);
  await waitFor(() => with_.seen.length === 1 && without.seen.length === 1);
  assert.deepEqual(with_.messages()[0].data.calls[0].arguments, { id: "item-3" });
  assert.ok(!without.seen[0].body.includes("item-3"));
});

test("a failed delivery is repeated under the same id, and keeps nobody else waiting", async () => {
  const { api, execute, state } = await scene();
  const flaky = await endpoint((before) => (before < 2 ? 500 : 204));
  const moved = await endpoint(302);
  const sound = await endpoint();
  for (const [slug, { url }] of Object.entries({ flaky, moved, sound })) await api("PUT", `webhooks/${slug}`, { url, events: ["waiting"] });
  await execute(DELETE_ONE);
  await waitFor(() => sound.seen.length === 1);
  await waitFor(() => flaky.seen.length === 3);
  assert.equal(new Set(flaky.messages().map(({ id }) => id)).size, 1);
  assert.equal(new Set(flaky.seen.map(({ body }) => String(body))).size, 1);
  await waitFor(async () => {
    const { state: found, pending, lastError, deliveredAt } = await state("flaky");
    return found === "ok" && pending === 0 && lastError === "HTTP 500" && deliveredAt;
  });
  await waitFor(async () => (await state("moved")).lastError === "HTTP 302");
  assert.ok(moved.seen.every(({ target }) => target === "/"), "redirects are not followed");
  assert.equal((await state("sound")).failures, 0);
});

test("an endpoint that never answers well is dead, and says why; a later message is tried again", async () => {
  const { api, execute, state } = await scene();
  let broken = true;
  const dead = await endpoint(() => (broken ? 503 : 200));
  await api("PUT", "webhooks/dead", { url: dead.url, events: ["waiting"] });
  await execute(DELETE_ONE);
  const found = await waitFor(async () => {
    const found = await state("dead");
    return found.state === "dead" && found;
  }, { timeout: 90_000 });
  assert.deepEqual([found.lastError, found.failures, found.pending, found.dropped], ["HTTP 503", 8, 0, 1]);
  assert.equal(dead.seen.length, 8);
  assert.equal(new Set(dead.messages().map(({ id }) => id)).size, 1);
  broken = false;
  assert.equal((await api("PUT", "webhooks/dead", { events: ["waiting"] })).body.state, "ok", "written anew it gets a new chance");
  await execute(DELETE_ONE);
  await waitFor(() => dead.seen.length === 9);
});

test("410 ends a webhook until it is written again", async () => {
  const { api, execute, state } = await scene();
  const gone = await endpoint(410);
  await api("PUT", "webhooks/gone", { url: gone.url, events: ["waiting"] });
  await execute(DELETE_ONE);
  await waitFor(async () => (await state("gone")).state === "gone");
  await execute(DELETE_ONE);
  await api("GET", "approvals");
  const { pending, lastError } = await state("gone");
  assert.deepEqual([pending, lastError, gone.seen.length], [0, "HTTP 410", 1]);
});

test("what waits for an endpoint survives a crash", async (t) => {
  const own = await startGateway({ vars: { ...VARS, WEBHOOK_RETRY_MS: "1000" } });
  t.after(() => own.stop());
  const { api, execute } = await scene(own);
  let down = true;
  const hook = await endpoint(() => (down ? 500 : 200));
  await api("PUT", "webhooks/ops", { url: hook.url, events: ["waiting"] });
  await execute(DELETE_ONE);
  await waitFor(() => hook.seen.length >= 1);
  await own.kill();
  down = false;
  const before = hook.seen.length;
  await own.start();
  await waitFor(() => hook.seen.length > before);
  assert.equal(new Set(hook.messages().map(({ id }) => id)).size, 1);
});

test("private addresses are refused, and webhooks are an administrator's", async (t) => {
  const own = await startGateway({ vars: { ...VARS, ALLOW_LOCAL_NETWORK: undefined } });
  t.after(() => own.stop());
  const { api, organization } = await scene(own);
  for (const url of ["http://127.0.0.1:9/x", "http://[::1]/", "http://169.254.169.254/latest", "http://localhost/x", "http://10.0.0.1/"]) {
    const { status, text } = await api("PUT", "webhooks/ops", { url });
    assert.equal(status, 400, text);
    assert.match(text, /url is not called/);
  }
  for (const [body, field] of [[{ url: "javascript:alert(1)" }, "url"], [{}, "url"], [{ url: "https://a.example", events: ["all"] }, "events"], [{ url: "https://a.example", secret: "x" }, "secret"]]) {
    const { status, body: answer } = await api("PUT", "webhooks/ops", body);
    assert.deepEqual([status, answer.error.data.field], [400, field]);
  }
  for (const token of [devToken({ organization }), devToken({ organization, roles: ["approver"] })]) {
    for (const [method, path] of [["GET", "webhooks"], ["PUT", "webhooks/ops"], ["DELETE", "webhooks/ops"]]) {
      assert.equal((await api(method, path, method === "PUT" ? { url: "https://a.example" } : undefined, token)).status, 403);
    }
  }
  assert.deepEqual([(await api("GET", "webhooks/none")).status, (await api("DELETE", "webhooks/none")).status, (await api("POST", "webhooks/none", {})).status], [404, 404, 405]);
  assert.equal((await api("PUT", "webhooks/ops", { url: "https://a.example/x" })).status, 201);
  assert.equal((await api("DELETE", "webhooks/ops")).status, 200);
  assert.deepEqual((await api("GET", "webhooks")).body.items, []);
});
