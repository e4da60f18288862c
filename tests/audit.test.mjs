// The audit log: who decided what, by which way; that it is whole, and that a command finds out where it is not.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { adminApi, approve, decide, decline, devToken, openSession, shownPause, startGateway, waitFor } from "./harness/index.mjs";

let gateway;
const folder = mkdtempSync(join(tmpdir(), "countersign-audit-"));
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "4000" } });
});
after(async () => {
  await gateway.stop();
  rmSync(folder, { recursive: true, force: true });
});

let organizations = 0;
/** An organization of its own. `own` is a gateway of the test's. */
async function scene({ own = gateway, ...options } = {}) {
  const organization = `audit${(organizations += 1)}`;
  const admin = devToken({ organization, account: "root", roles: ["admin"] });
  const api = adminApi(own, admin);
  const session = await openSession(own, { token: devToken({ organization }), ...options });
  return {
    own,
    organization,
    admin,
    api,
    session,
    approver: { token: devToken({ organization, roles: ["approver"] }) },
    execute: async (code) => (await session.tool("execute", { code })).structuredContent,
    resume: async (pause, more = {}) => (await session.tool("resume", { executionId: pause.executionId, ...more })).structuredContent,
    lines: async () => (await api("GET", "audit?format=jsonl")).text.trimEnd().split("\n"),
    /** The entries, oldest first, once they are as many. */
    entries: async (count) =>
      waitFor(async () => {
        const { items } = (await api("GET", "audit?limit=200")).body;
        return items.length >= count && items.reverse();
      }),
  };
}

/** `npm run audit -- verify`, without npm. */
async function verify({ token, file, lines, head, url = gateway.url }) {
  const from = file ?? (lines && join(folder, `${Math.random()}.jsonl`));
  if (lines) writeFileSync(from, `${lines.join("\n")}\n`);
  const args = ["scripts/audit.mjs", "verify", ...(from ? ["--file", from] : ["--url", url]), ...(head ? ["--head", head] : [])];
  const child = spawn(process.execPath, args, { cwd: new URL("..", import.meta.url), env: { ...process.env, NO_COLOR: "1", COUNTERSIGN_TOKEN: token ?? "" } });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (said += text));
  const code = await new Promise((done) => child.once("close", done));
  return { code, said };
}

const DELETE = (id) => `return await tools.demo.deleteItem({ id: '${id}' })`;

test("a decision says who, by which way, on what, when, and what came of it", async () => {
  const { execute, resume, approver, entries, session } = await scene();
  const pause = await execute(DELETE("item-3"));
  const { digest } = (await shownPause(gateway, pause, approver)).structured.items[0];
  await approve(gateway, pause, approver);
  assert.equal((await resume(pause)).result.ok, true);
  const [asked, approved, outcome, finished] = await entries(4);
  assert.deepEqual([asked.action, asked.target, asked.by], ["approval.asked", pause.executionId, null]);
  assert.deepEqual(asked.detail.calls, [{ call: 0, address: "demo.deleteItem", digest }]);
  assert.deepEqual([approved.by, approved.via, approved.action, approved.target], ["ada", "api", "call.approved", "demo.deleteItem"]);
  assert.equal(approved.detail.digest, digest);
  assert.equal(approved.detail.session, session.id);
  for (const time of [approved.detail.askedAt, approved.detail.decidedAt, outcome.detail.settledAt]) {
    assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000, time);
  }
  assert.deepEqual([outcome.action, outcome.detail.outcome, outcome.detail.digest, outcome.detail.sends], ["call.outcome", "ok", digest, 1]);
  assert.deepEqual([finished.action, finished.detail.outcome], ["program.finished", "completed"]);
  for (const entry of [asked, approved, outcome, finished]) assert.equal(entry.executionId, asked.executionId);
});

test("a decline, a cancel, an expiry, a model and a rule are told apart", async (t) => {
  const own = await startGateway({ vars: { RESUME_WAIT_MS: "3000", APPROVAL_WINDOW_MS: "1500" } });
  t.after(() => own.stop());
  const one = await scene({ own });
  await decline(own, await one.execute(DELETE("item-1")), "not today", one.approver);
  const pause = await one.execute(DELETE("item-2"));
  const { digest } = await shownPause(own, pause, one.approver);
  await decide(own, pause, { action: "cancel", digest }, one.approver);
  const expired = await one.execute(DELETE("item-4"));
  await waitFor(async () => (await one.resume(expired)).result?.error?.reason === "approval_timeout");
  await one.api("PUT", "policies", { policies: [{ pattern: "demo.createItem", action: "allow" }, { pattern: "demo.updateItem", action: "block" }] });
  await one.execute("await tools.demo.listItems({}); return [await tools.demo.createItem({ name: 'x' }), await tools.demo.updateItem({ id: 'item-1', name: 'y' })]");
  const found = await waitFor(async () => {
    const all = await one.entries(1);
    const of = (action) => all.find((entry) => entry.action === action);
    const wanted = ["call.declined", "call.cancelled", "call.expired", "call.allowed", "call.refused"].map(of);
    return wanted.every(Boolean) && [...wanted, all];
  });
  const [declined, cancelled, timeout, allowed, refused, all] = found;
  assert.deepEqual([declined.by, declined.via, declined.detail.reason], ["ada", "api", "not today"]);
  assert.deepEqual([cancelled.by, cancelled.via], ["ada", "api"]);
  assert.deepEqual([timeout.by, timeout.via], [null, "expiry"]);
  assert.deepEqual([allowed.by, allowed.via, allowed.target], [null, "policy", "demo.createItem"]);
  assert.match(allowed.detail.reason, /rule 1 of the organization/);
  assert.deepEqual([refused.target, refused.detail.code], ["demo.updateItem", "tool_blocked"]);
  assert.ok(!all.some((entry) => entry.target === "demo.listItems"), "what only reads is no decision");

  const other = await scene({ own, query: { elicitation_mode: "model" } });
  const asked = await other.execute(DELETE("item-1"));
  await other.resume(asked, { action: "accept" });
  const approved = (await other.entries(2)).find(({ action }) => action === "call.approved");
  assert.deepEqual([approved.by, approved.via], ["ada", "model"]);
});

test("the command finds the log whole, and names the first entry that is changed, missing or moved", async () => {
  const { api, admin, lines } = await scene();
  for (let number = 0; number < 8; number += 1) await api("PUT", "policies", { policies: [{ pattern: `demo.tool${number}`, action: "block", note: 'quoted "text", and hash":"' }] });
  const all = await lines();
  assert.deepEqual(JSON.parse(all[0]), { checkpoint: { id: 0, hash: "0".repeat(64) } });
  assert.equal(all.length, 10);
  assert.deepEqual(JSON.parse(all[9]).head.id, 8);
  const online = await verify({ token: admin });
  assert.equal(online.code, 0, online.said);
  assert.match(online.said, /whole: 8 entries, 1 to 8/);
  const head = /--head (\d+:[0-9a-f]{64})/.exec(online.said)[1];
  assert.equal((await verify({ lines: all })).code, 0);
  assert.equal((await verify({ lines: all, head })).code, 0);

  const without = (...numbers) => all.filter((_, index) => !numbers.includes(index));
  const swapped = [...all];
  [swapped[4], swapped[5]] = [swapped[5], swapped[4]];
  const resealed = [...all];
  // Whoever changes an entry and its hash is found by the next one.
  const { createHash } = await import("node:crypto");
  const text = resealed[3].replace("tool2", "toolX").replace(/,"hash":"[0-9a-f]{64}"\}$/, "}");
  resealed[3] = `${text.slice(0, -1)},"hash":"${createHash("sha256").update(text).digest("hex")}"}`;
  for (const [what, broken, named] of [
    ["changed", all.with(5, all[5].replace("tool4", "toolX")), /entry 5 was changed/],
    ["changed back in time", all.with(5, all[5].replace('"by":"root"', '"by":"eve"')), /entry 5 was changed/],
    ["changed with its hash", resealed, /entry 3 was changed/],
    ["missing", without(4), /entry 4 is missing/],
    ["missing at the beginning", without(1), /entry 1 is missing/],
    ["missing at the end", without(8), /entry 8 is missing/],
    ["twice", [...all.slice(0, 4), all[3], ...all.slice(4)], /entry 3 is out of order/],
    ["moved", swapped, /entry 5 is out of order/],
    ["cut off", all.slice(0, 6), /broke off after entry 5/],
    ["cut in a line", [...all.slice(0, 6), all[6].slice(0, 40)], /line 7 is no JSON, after entry 5/],
    ["without its beginning", all.slice(1), /checkpoint/],
  ]) {
    const { code, said } = await verify({ lines: broken });
    assert.equal(code, 1, `${what}: ${said}`);
    assert.match(said, named, what);
  }
  const { code, said } = await verify({ lines: [...all.slice(0, 8), JSON.stringify({ head: { id: 7, hash: JSON.parse(all[7]).hash } })], head });
  assert.deepEqual([code, /entry 8 is missing/.test(said)], [1, true], said);
  assert.equal((await verify({ token: devToken({ organization: "elsewhere" }) })).code, 1);
});

test("an entry that is changed in storage is found, and entries that are old are forgotten without a break", async (t) => {
  const stateDir = mkdtempSync(join(tmpdir(), "countersign-state-"));
  const own = await startGateway({ stateDir, vars: { AUDIT_RETENTION_DAYS: "30" } });
  t.after(async () => {
    await own.stop();
    rmSync(stateDir, { recursive: true, force: true });
  });
  const { api, admin, lines } = await scene({ own });
  const change = () => api("PUT", "policies", { policies: [] });
  for (let number = 0; number < 6; number += 1) await change();
  const kept = await lines();
  const ids = await own.objects("OrganizationDurableObject");
  const id = (await Promise.all(ids.map(async (id) => [id, (await own.sql("OrganizationDurableObject", id, "SELECT id FROM audit"))?.length]))).find(([, count]) => count === 6)[0];
  const { DatabaseSync } = await import("node:sqlite");
  const edit = async (sql) => {
    await own.stop();
    const file = readdirSync(stateDir, { recursive: true }).find((path) => path.endsWith(join("-OrganizationDurableObject", `${id}.sqlite`)));
    const database = new DatabaseSync(join(stateDir, file));
    database.exec(sql);
    database.close();
    await own.start();
  };
  await edit("UPDATE audit SET json = replace(json, '\"by\":\"root\"', '\"by\":\"ada\"') WHERE id = 4");
  const changed = await verify({ token: admin, url: own.url });
  assert.equal(changed.code, 1);
  assert.match(changed.said, /entry 4 was changed/);
  await edit("UPDATE audit SET json = replace(json, '\"by\":\"ada\"', '\"by\":\"root\"') WHERE id = 4; UPDATE audit SET at = at - 40 * 86400000 WHERE id <= 3");
  await change();
  const [checkpoint] = await waitFor(async () => {
    const all = await lines();
    return all.length === 6 && all;
  });
  assert.deepEqual(JSON.parse(checkpoint).checkpoint, { id: 3, hash: JSON.parse(kept[3]).hash });
  const swept = await verify({ token: admin, url: own.url });
  assert.equal(swept.code, 0, swept.said);
  assert.match(swept.said, /4 entries, 4 to 7\n.*up to 3 were forgotten/);
  assert.deepEqual((await api("GET", "audit")).body.items.map((entry) => entry.id), [7, 6, 5, 4]);
});

test("nothing is lost by a crash, and nothing counts twice", async (t) => {
  // Some messages to the organization are lost on the way back: it has taken them, and the session does not know.
  const wrapper = `
    import worker, * as all from "./index.js";
    export * from "./index.js";
    export default worker;
    let lost = 0;
    export class OrganizationDurableObject extends all.OrganizationDurableObject {
      async fetch(request) {
        const told = new URL(request.url).pathname === "/internal/told";
        const response = await super.fetch(request);
        if (told && (lost += 1) <= 2) throw new Error("the answer is lost");
        return response;
      }
    }`;
  const own = await startGateway({ wrapper, vars: { RESUME_WAIT_MS: "4000" } });
  t.after(() => own.stop());
  const { execute, resume, approver, entries, session, admin } = await scene({ own });
  const pause = await execute(DELETE("item-3"));
  await approve(own, pause, approver);
  await own.kill();
  await own.start();
  await waitFor(async () => (await resume(pause)).status === "completed");
  const all = await entries(4);
  const calls = all.filter((entry) => entry.detail.session === session.id);
  assert.match(own.output(), /the answer is lost/);
  assert.deepEqual(calls.map(({ action }) => action).sort(), ["approval.asked", "call.approved", "call.outcome", "program.finished"]);
  assert.equal((await verify({ token: admin, url: own.url })).code, 0);
});

test("the log is an administrator's, in pages or as lines, and never a session's without the role", async () => {
  const { api, organization } = await scene();
  for (let number = 0; number < 3; number += 1) await api("PUT", "policies", { policies: [] });
  const first = (await api("GET", "audit?limit=2")).body;
  assert.deepEqual(first.items.map(({ id }) => id), [3, 2]);
  const second = (await api("GET", `audit?limit=2&cursor=${first.nextCursor}`)).body;
  assert.deepEqual([second.items.map(({ id }) => id), second.nextCursor], [[1], undefined]);
  assert.equal(second.items[0].hash, first.items[1].prev);
  assert.deepEqual([(await api("GET", "audit?format=csv")).status, (await api("GET", "audit?format=json")).status], [400, 200]);
  for (const token of [devToken({ organization }), devToken({ organization, roles: ["approver"] })]) {
    const response = await gateway.fetch("/api/audit?format=jsonl", { headers: { authorization: `Bearer ${token}` } });
    assert.equal(response.status, 403);
    assert.doesNotMatch(await response.text(), /policies\.put/);
  }
});
