// The console over plain HTTP: what is on its pages, who may see them, and what an attacker tries from outside.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, test } from "node:test";

import { approve, cookiePair, decline, devToken, goToIssuer, openSession, startGateway, startIssuer, waitFor } from "./harness/index.mjs";

const SECRET_KEY = "k3Jw0Zl8m1QxT5v9YbN2sRcU7eHgPa4D";
const PLACES = ["/", "/approvals", "/history", "/sources", "/sources/demo", "/tools", "/tools/demo.deleteItem", "/toolkits", "/keys"];
const FOR_ADMINISTRATORS = ["/sources", "/sources/demo", "/tools", "/tools/demo.deleteItem", "/toolkits", "/keys"];
const HOSTILE = `"'></main><script>alert(1)</script>\u202e`;

/** What every page must keep to, whoever asks for it. */
function assertLockedDown(response, html, what) {
  const headers = response.headers;
  assert.match(headers.get("content-type"), /^text\/html/, what);
  assert.match(headers.get("content-security-policy"), /^default-src 'none'.*frame-ancestors 'none'$/, what);
  assert.doesNotMatch(headers.get("content-security-policy"), /unsafe|\*|https?:/, what);
  assert.equal(headers.get("x-frame-options"), "DENY", what);
  assert.equal(headers.get("cache-control"), "no-store", what);
  assert.equal(headers.get("referrer-policy"), "no-referrer", what);
  assert.equal(headers.get("x-content-type-options"), "nosniff", what);
  assert.equal(headers.get("cross-origin-opener-policy"), "same-origin", what);
  assert.equal(headers.get("access-control-allow-origin"), null, what);
  assert.doesNotMatch(html, /<script(?![^>]*src="\/assets\/)|<[^>]*\s(on\w+|style)=|<style|(?:src|href)="(?:https?:)?\/\//, what);
  assert.equal(html.match(/<main/g).length, 1, what);
  assert.ok(html.length < 100_000, `${what}: ${html.length}`);
}

describe("one gateway in development mode", () => {
  let gateway;
  before(async () => {
    gateway = await startGateway({ vars: { AUTH_MODE: "dev,keys", COUNTERSIGN_SECRET_KEY: SECRET_KEY, RESUME_WAIT_MS: "4000" } });
  });
  after(() => gateway.stop());
  const origin = () => new URL(gateway.url).origin;
  let organizations = 0;
  function scene() {
    const organization = `org${++organizations}`;
    const cookieOf = (account) => `countersign-dev=${account}@${organization}`;
    const admin = { authorization: `Bearer ${devToken({ account: "ann", organization, roles: ["admin"] })}`, "content-type": "application/json" };
    return {
      organization,
      cookieOf,
      get: (path, { account = "ann", ...headers } = {}) => gateway.fetch(path, { redirect: "manual", headers: { cookie: cookieOf(account), ...headers } }),
      html: async (path, { account = "ann", status = 200 } = {}) => {
        const response = await gateway.fetch(path, { redirect: "manual", headers: { cookie: cookieOf(account) } });
        const html = await response.text();
        assert.equal(response.status, status, `${path}: ${html}`);
        assertLockedDown(response, html, path);
        return html;
      },
      post: (path, fields, headers = {}) =>
        gateway.fetch(path, { method: "POST", redirect: "manual", headers: { cookie: cookieOf("ann"), origin: origin(), "content-type": "application/x-www-form-urlencoded", ...headers }, body: new URLSearchParams(fields) }),
      put: async (path, body) => {
        const answer = await gateway.fetch(path, { method: "PUT", headers: admin, body: JSON.stringify(body) });
        assert.ok(answer.ok, `${path}: ${await answer.text()}`);
      },
      api: async (path) => (await gateway.fetch(path, { headers: admin })).json(),
      agent: (account = "ann", options = {}) => openSession(gateway, { token: devToken({ account, organization }), ...options }),
      approver: { token: devToken({ account: "ann", organization, roles: ["approver"] }) },
    };
  }
  const REMOVE = "return await tools.demo.deleteItem({ id: 'item-1' })";
  const pauseOn = async (session, code = REMOVE) => {
    const { structuredContent: pause } = await session.tool("execute", { code });
    assert.equal(pause.status, "user_approval_required", JSON.stringify(pause));
    return pause;
  };

  test("every page is locked down, says who is signed in, and has one navigation with its own place in it", async () => {
    const { html } = scene();
    for (const path of PLACES) {
      const page = await html(path);
      assert.match(page, /Signed in as <b>ann@org\d+<\/b>/, path);
      assert.equal(page.match(/<nav/g).length, 1, path);
      assert.match(page, /<a class="skip" href="#main">/, path);
      const place = `/${path.split("/")[1]}`;
      assert.ok(page.includes(`<a href="${place}" aria-current="page">`), `${path} is ${place}`);
    }
    await html("/sources/nothing", { status: 404 });
    await html("/tools/nothing.here", { status: 404 });
    await html("/tools/a/b", { status: 404 });
  });

  test("nothing that is asked of a page comes back as markup", async () => {
    const { get } = scene();
    const text = encodeURIComponent(HOSTILE);
    for (const path of [
      `/approvals?cursor=${text}`,
      `/approvals?mine=${text}`,
      `/history?status=${text}&account=${text}&tool=${text}`,
      `/history?from=${text}`,
      `/history?cursor=${text}`,
      `/tools?query=${text}&source=${text}`,
      `/tools?cursor=${text}`,
      `/tools/${text}`,
      `/sources/${text}`,
      `/sources?cursor=${text}`,
      `/toolkits?cursor=${text}`,
      `/keys?cursor=${text}`,
      `/keys/${text}`,
      `/sign-in?return_to=${text}`,
    ]) {
      const response = await get(path);
      const html = await response.text();
      assert.ok([200, 400, 404].includes(response.status), `${path}: ${response.status}`);
      assert.doesNotMatch(html, /<script>alert|"'>/, path);
      assertLockedDown(response, html, path);
    }
  });

  test("pages that only show take no other method, and a path leads to no other operation", async () => {
    const { get, post } = scene();
    for (const path of PLACES.filter((path) => path !== "/keys")) {
      assert.equal((await post(path, {})).status, 405, path);
      assert.equal((await gateway.fetch(path, { method: "DELETE", headers: { origin: origin() } })).status, 405, path);
    }
    for (const path of ["/sources/demo%2Frefresh", "/sources/..%2Fkeys", "/tools/..%2F..%2Fkeys", "/sources/%ff"]) {
      const response = await get(path);
      assert.ok([400, 404].includes(response.status), `${path}: ${response.status}`);
    }
    for (const id of ["../sources/demo", "..%2Fsources%2Fdemo", "", "0".repeat(16), "a".repeat(5_000)]) {
      assert.ok([404, 405].includes((await post("/keys", { action: "revoke", id })).status), id);
    }
    assert.equal((await get("/sources/demo")).status, 200, "the source is still there");
  });

  test("the inbox: each their own where they want it, all of the organization for administrators, nothing of others", async () => {
    const one = scene();
    const other = scene();
    const [mine, theirs] = await Promise.all([one.agent("ann"), one.agent("ben")]);
    const [pause] = [await pauseOn(mine), await pauseOn(theirs), await pauseOn(await other.agent("ann"))];
    const all = await waitFor(async () => {
      const page = await one.html("/approvals");
      return page.includes("2 questions wait") && page;
    });
    assert.match(all, /“Delete/i);
    assert.ok(all.includes(`href="/resume/${pause.executionId}?mcp_session_id=${mine.id}"`));
    const own = await one.html("/approvals?mine=1");
    assert.match(own, /1 question waits/);
    assert.ok(!own.includes(theirs.id));
    assert.equal((await one.api("/api/approvals")).total, 2);
    assert.equal((await one.api("/api/approvals?account=ben")).items[0].account, "ben");
    await decline(gateway, pause, "no", one.approver);
    await waitFor(async () => (await one.html("/approvals?mine=1")).includes("Nothing waits"));
  });

  test("the inbox answers 304 while nothing changed, to the one who saw it so, and no cache keeps it", async () => {
    const { get, agent } = scene();
    const first = await get("/approvals");
    const tag = first.headers.get("etag");
    assert.match(tag, /^"[0-9a-f]{32}"$/);
    const again = await get("/approvals", { "if-none-match": tag });
    assert.deepEqual([again.status, again.headers.get("cache-control"), await again.text()], [304, "no-store", ""]);
    assert.equal((await get("/approvals", { account: "ben", "if-none-match": tag })).status, 200, "somebody else");
    assert.equal((await get("/approvals?mine=1", { "if-none-match": tag })).status, 200, "another list");
    await pauseOn(await agent());
    await waitFor(async () => (await get("/approvals", { "if-none-match": tag })).status === 200, { what: "the inbox to have changed" });
  });

  test("1 000 wait: the inbox answers in under 300 ms, a page at a time", async () => {
    const { organization, html, get, agent } = scene();
    const pause = await pauseOn(await agent());
    await waitFor(async () => (await html("/approvals")).includes("1 question waits"));
    await gateway.kill();
    const held = readdirSync(gateway.stateDir, { recursive: true }).filter((path) => path.includes("-OrganizationDurableObject") && path.endsWith(".sqlite")).map((path) => new DatabaseSync(join(gateway.stateDir, path)));
    const database = held.find((each) => {
      const tables = each.prepare("SELECT name FROM sqlite_master WHERE name = 'waiting'").all();
      return tables.length > 0 && each.prepare("SELECT execution FROM waiting WHERE execution = ?").all(pause.executionId).length > 0;
    });
    const row = database.prepare("SELECT * FROM waiting WHERE execution = ?").get(pause.executionId);
    const insert = database.prepare("INSERT INTO waiting (execution, session, since, expires_at, json) VALUES (?, ?, ?, ?, ?)");
    for (let each = 0; each < 999; each++) {
      const execution = `exec_${each}_${organization}`;
      const item = { ...JSON.parse(row.json), executionId: execution, account: each % 2 ? "ann" : "ben", since: row.since + each };
      insert.run(execution, `${each}`, row.since + each, row.expires_at, JSON.stringify(item));
    }
    for (const each of held) each.close();
    await gateway.start();
    assert.match(await html("/approvals"), /1,000 questions wait for a person/);
    const times = [];
    for (let each = 0; each < 5; each++) {
      const since = performance.now();
      const response = await get("/approvals");
      await response.text();
      times.push(performance.now() - since);
    }
    assert.ok(Math.max(...times) < 300, `${times.map((time) => time.toFixed(0))} ms`);
    const seen = new Set();
    let pages = 0;
    for (let path = "/approvals?mine=1"; path; pages++) {
      const page = await html(path);
      for (const [, id] of page.matchAll(/<a id="(exec_[^"]+)"/g)) seen.add(id);
      path = /<a class="button" href="([^"]+)">Next page/.exec(page)?.[1].replaceAll(/&#38;|&amp;/g, "&");
    }
    assert.deepEqual([seen.size, pages], [500, 20]);
  });

  test("sources say what state they are in, and what keeps one from being used", async () => {
    const { html, put } = scene();
    const spec = { openapi: "3.1.0", info: { title: HOSTILE, version: "1" }, servers: [{ url: "https://bills.example" }], paths: { "/bills": { get: { operationId: "listBills", summary: HOSTILE, responses: { 200: { description: "ok" } } } } } };
    await put("/api/sources/bills", { kind: "openapi", spec, auth: { kind: "bearer", token: "t0k-secret" }, confirmedOrigins: [] });
    const list = await html("/sources");
    assert.match(list, /Not confirmed[^]*https:\/\/bills\.example/);
    assert.doesNotMatch(list, /<script>|\u202e|t0k-secret/);
    const one = await html("/sources/bills");
    assert.match(one, /bearer[^]*not confirmed/);
    assert.match(one, /added: 1/);
    assert.doesNotMatch(one, /<script>|\u202e|t0k-secret/);
    const tool = await html("/tools/bills.listBills");
    assert.match(tool, /Blocked because it sends to https:\/\/bills\.example, and no administrator has confirmed/);
  });

  test("tools are found, paged, and each says which policy applies and why", async () => {
    const { html, put, api } = scene();
    assert.match(await html("/tools/demo.deleteItem"), /Asks a person because DELETE may change something/);
    await put("/api/policies", [{ pattern: "demo.listItems", action: "approve" }, { pattern: "demo.deleteItem", action: "block", note: "never <b>that</b>" }]);
    await put("/api/toolkits/small", { title: "Small", include: ["demo.**"], policies: [{ pattern: "demo.**", action: "approve", note: "all" }] });
    const found = await html("/tools?query=delete%20an%20item");
    assert.match(found, /Blocked because rule 2 of the organization \(demo\.deleteItem\): never &lt;b&gt;that&lt;\/b&gt;\./);
    const one = await html("/tools/demo.deleteItem");
    assert.match(one, /<b>small<\/b>[^]*Blocked[^]*rule 2 of the organization/);
    assert.match(one, /Schema of the arguments/);
    assert.match(await html("/tools/demo.getItem"), /<b>small<\/b>[^]*Asks a person[^]*rule 1 of the toolkit small/);
    const rules = await html("/toolkits");
    assert.match(rules, /demo\.listItems[^]*Asks a person[^]*demo\.deleteItem[^]*Blocked/);
    assert.ok(rules.includes(`${origin()}/mcp/toolkits/small`));
    const addresses = new Set();
    for (let path = "/tools"; path; ) {
      const page = await html(path);
      for (const [, address] of page.matchAll(/href="\/tools\/([^"?]+)"/g)) addresses.add(address);
      path = /<a class="button" href="([^"]+)">Next page/.exec(page)?.[1].replaceAll(/&#38;|&amp;/g, "&");
    }
    const { total } = await api("/api/tools");
    assert.equal(addresses.size, total);
    assert.match(await html("/tools?query=zzzzqqq"), /No tool fits/);
  });

  test("keys are made by form, shown once, work, and are revoked; a foreign page can do none of it", async () => {
    const { html, post, get } = scene();
    const asked = { action: "create", name: "CI", purpose: "mcp", account: "", until: "2099-12-31" };
    for (const headers of [{ origin: "https://evil.example" }, { origin: "null" }, { origin: `${origin()}.evil.example` }]) {
      assert.equal((await post("/keys", asked, headers)).status, 403, JSON.stringify(headers));
    }
    const bare = await gateway.fetch("/keys", { method: "POST", headers: { cookie: "countersign-dev=ann@org1", "content-type": "application/x-www-form-urlencoded" }, body: new URLSearchParams(asked) });
    assert.equal(bare.status, 403, "no Origin");
    assert.equal((await post("/keys", asked, { "content-type": "text/plain" })).status, 400, "no form");
    assert.match(await html("/keys"), /There are no keys/);
    for (const [fields, problem] of [
      [{ ...asked, name: "" }, /name is required/],
      [{ ...asked, purpose: "browser" }, /purpose has to be/],
      [{ ...asked, until: "tomorrow" }, /expiresAt has to be/],
      [{ ...asked, until: "2001-01-01" }, /expiresAt is over/],
      [{ ...asked, name: HOSTILE.repeat(20) }, /name/],
    ]) {
      const refused = await post("/keys", fields);
      const text = await refused.text();
      assert.equal(refused.status, 400, text);
      assert.match(text, problem);
      assert.doesNotMatch(text, /<script>alert/);
    }
    const made = await post("/keys", asked);
    const page = await made.text();
    assert.equal(made.status, 201);
    assertLockedDown(made, page, "the new key");
    const [, key] = /<code>(cs_mcp_[^<]+)<\/code>/.exec(page);
    assert.equal((await openSession(gateway, { token: key })).initialized.serverInfo.name, "countersign");
    const listed = await html("/keys");
    assert.ok(!listed.includes(key) && listed.includes(key.split("_")[2]), "the id, and not the key");
    assert.ok(!(await (await get("/keys")).text()).includes(key));
    assert.equal((await post("/keys", { action: "revoke", id: key.split("_")[2] })).status, 303);
    await waitFor(async () => (await gateway.fetch("/mcp", { headers: { authorization: `Bearer ${key}`, accept: "text/event-stream" } })).status === 401);
    assert.equal((await post("/keys", { action: "explode" })).status, 400);
  });

  test("the history of all sessions, with its filters", async () => {
    const { html, agent, approver, api } = scene();
    const [mine, theirs] = await Promise.all([agent("ann", { clientInfo: { name: HOSTILE, version: "1" } }), agent("ben")]);
    await mine.tool("execute", { code: "return 1" });
    await mine.tool("execute", { code: "throw new Error('<script>alert(1)</script>')" });
    await theirs.tool("execute", { code: "return await tools.demo.listItems({})" });
    const pause = await pauseOn(mine);
    const listed = async (query, many) => {
      let items;
      await waitFor(async () => ({ items } = await api(`/api/programs${query}`)).items?.length === many, { what: `${many} programs for ${query}` }).catch((error) => {
        throw new Error(`${error.message}: ${JSON.stringify(items)}`);
      });
      return items;
    };
    await listed("", 4);
    assert.equal((await listed("?status=waiting", 1))[0].tools[0], "demo.deleteItem");
    await approve(gateway, pause, approver);
    await mine.tool("resume", { executionId: pause.executionId });
    const [done] = await listed("?status=completed&tool=deleteItem", 1);
    assert.deepEqual([done.approved, done.declined, done.calls, done.account], [1, 0, 1, "ann"]);
    await listed("?status=waiting", 0);
    assert.equal((await listed("?account=ben", 1))[0].tools[0], "demo.listItems");
    await listed("?status=failed", 1);
    const today = new Date().toISOString().slice(0, 10);
    await listed(`?since=${today}`, 4);
    await listed(`?until=${today}`, 0);
    const page = await html("/history");
    assert.equal(page.match(/<li class="item">/g).length, 4);
    assert.equal(page.match(/href="\/sessions\//g).length, 3, "the sessions of others are theirs");
    assert.doesNotMatch(page, /<script>alert|\u202e/);
    assert.match(await html(`/history?from=${today}&to=${today}&tool=deleteItem`), /1 approved by people/);
    assert.match(await html("/history?account=nobody"), /No program fits/);
    await html("/history?from=yesterday", { status: 400 });
    await html(`/sessions/${mine.id}`);
    const more = await api("/api/programs?limit=3");
    assert.equal((await api(`/api/programs?limit=3&cursor=${more.nextCursor}`)).items.length, 1);
    // The organization is told of it later: what ends before that must not be forgotten.
    await mine.tool("execute", { code: "return 2" });
    await gateway.kill();
    await gateway.start();
    await mine.tool("execute", { code: "await tools.demo.listItems({}); await sleep(1); await tools.demo.getItem({ id: 'item-1' }); await tools.demo.listItems({})" });
    const [last] = await listed("", 6);
    assert.deepEqual([last.tools, last.calls, last.approved, last.declined], [["demo.listItems", "demo.getItem"], 4, 0, 0]);
    const two = await pauseOn(mine, "const both = [1, 2].map((n) => tools.demo.deleteItem({ id: `item-${n}` })); return (await Promise.all(both)).map(({ ok }) => ok)");
    await decline(gateway, two, "no", approver);
    await mine.tool("resume", { executionId: two.executionId });
    await listed("?status=waiting", 0);
    const [declined] = await listed("?tool=deleteItem&status=completed", 2);
    assert.deepEqual([declined.tools, declined.approved, declined.declined], [["demo.deleteItem"], 0, 2]);
    // A session that is closed at once forgets its programs, but not before they were told.
    const brief = await agent("zoe");
    await brief.tool("execute", { code: "return await tools.demo.listItems({})" });
    assert.equal((await brief.del()).status, 200);
    assert.deepEqual((await listed("?account=zoe", 1))[0].tools, ["demo.listItems"]);
  });

  test("ids cannot be guessed, and a wrong one says nothing", async () => {
    const { agent, get } = scene();
    const session = await agent();
    const pause = await pauseOn(session);
    const path = `/resume/${pause.executionId}?mcp_session_id=${session.id}`;
    assert.equal((await get(path)).status, 200);
    const answers = new Set();
    for (let at = "exec_".length; at < pause.executionId.length; at += 7) {
      const guess = [...pause.executionId];
      guess[at] = guess[at] === "A" ? "B" : "A";
      const response = await get(`/resume/${guess.join("")}?mcp_session_id=${session.id}`);
      assert.equal(response.status, 404, guess.join(""));
      answers.add(await response.text());
    }
    assert.equal(answers.size, 1);
    assert.ok(![...answers][0].includes("deleteItem"));
    assert.equal((await get(path, { account: "eve" })).status, 403);
  });

  test("signing in leads nowhere else and gives a cookie that only HTTP sees", async () => {
    const { post, get } = scene();
    for (const target of ["https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "/%09/evil.example\t", "javascript:alert(1)", "/\n/evil.example", "", "evil.example"]) {
      const answer = await post("/sign-in", { account: "ann@org1", return_to: target });
      const location = answer.headers.get("location");
      assert.equal(new URL(location, origin()).origin, origin(), `${JSON.stringify(target)} leads to ${location}`);
      const form = await (await get(`/sign-in?return_to=${encodeURIComponent(target)}`)).text();
      assert.doesNotMatch(form, /name="return_to" value="(?!\/)/, target);
      assert.doesNotMatch(form, /value="\/[/\\]/, target);
    }
    const cookie = (await post("/sign-in", { account: "ann@org1", return_to: "/" })).headers.get("set-cookie");
    assert.match(cookie, /HttpOnly/);
    assert.match(cookie, /SameSite=Lax/);
  });
});

describe("people of an identity provider", () => {
  let issuer;
  let gateway;
  before(async () => {
    issuer = await startIssuer();
    gateway = await startGateway({
      vars: {
        AUTH_MODE: "oidc", OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: "gateway", ORGANIZATION_NAME: "acme", OIDC_CLIENT_ID: issuer.client.id, OIDC_CLIENT_SECRET: issuer.client.secret,
        COUNTERSIGN_SECRET_KEY: SECRET_KEY, OIDC_ADMIN_CLAIM: "role", OIDC_ADMIN_VALUE: "boss", DEMO: "true",
      },
    });
  });
  after(() => Promise.all([gateway.stop(), issuer.stop()]));
  const get = (path, cookie) => gateway.fetch(path, { redirect: "manual", headers: cookie ? { cookie } : {} });

  async function signIn(person, { returnTo = "/", cookie: before = "" } = {}) {
    issuer.person = person;
    const { path, cookie } = await goToIssuer(gateway, { returnTo, cookie: before });
    const done = await get(path, [cookie, before].filter(Boolean).join("; "));
    return { done, session: cookiePair(done, "__Host-countersign") };
  }

  test("whoever is not signed in is sent to sign in, and comes back to the same page", async () => {
    for (const path of [...PLACES, "/history?status=failed&tool=x"]) {
      const response = await get(path);
      assert.deepEqual([response.status, response.headers.get("location"), response.headers.get("cache-control")], [303, `/sign-in?return_to=${encodeURIComponent(path)}`, "no-store"]);
      assert.equal((await gateway.fetch(path, { headers: { authorization: `Bearer ${issuer.token({ sub: "ann" })}` } })).status, 403, `${path} with the agent's bearer`);
    }
  });

  test("members see what is theirs; what administrators see is refused plainly", async () => {
    const { session: ann } = await signIn({ sub: "ann" });
    const { session: boss } = await signIn({ sub: "boss", role: "boss" });
    for (const path of FOR_ADMINISTRATORS) {
      const refused = await get(path, ann);
      const html = await refused.text();
      assert.equal(refused.status, 403, path);
      assertLockedDown(refused, html, path);
      assert.match(html, /administrator/, path);
      assert.doesNotMatch(html, /deleteItem/, path);
      if (path !== "/keys") assert.equal((await get(path, boss)).status, 200, path);
    }
    const asked = { method: "POST", redirect: "manual", headers: { cookie: ann, origin: new URL(gateway.url).origin, "content-type": "application/x-www-form-urlencoded" }, body: new URLSearchParams({ action: "create", name: "x", purpose: "approve" }) };
    assert.equal((await gateway.fetch("/keys", asked)).status, 403);
    const keys = await (await get("/keys", boss)).text();
    assert.match(keys, /takes no API keys/);
    assert.match(await (await get("/", ann)).text(), /a member of the organization/);
    assert.match(await (await get("/", boss)).text(), /an administrator of the organization/);

    const [mine, theirs] = await Promise.all(["ann", "ben"].map((sub) => openSession(gateway, { token: issuer.token({ sub }) })));
    for (const session of [mine, theirs]) await session.tool("execute", { code: "return await tools.demo.deleteItem({ id: 'item-1' })" });
    await waitFor(async () => (await (await get("/approvals", boss)).text()).includes("2 questions wait"));
    for (const path of ["/approvals", "/approvals?account=ben", "/history", "/history?account=ben"]) {
      const page = await (await get(path, ann)).text();
      assert.ok(page.includes(mine.id) && !page.includes(theirs.id), path);
      assert.doesNotMatch(page, />ben</, path);
    }
  });

  test("a sign-in is never taken over from what the browser had before", async () => {
    const { session: eve } = await signIn({ sub: "eve" });
    const { session: ann } = await signIn({ sub: "ann" }, { cookie: eve });
    assert.notEqual(ann, eve);
    assert.match(await (await get("/", ann)).text(), /<b>ann@acme<\/b>/);
    assert.match(await (await get("/", eve)).text(), /<b>eve@acme<\/b>/, "the old cookie did not become somebody else's");
    assert.equal((await get("/", "__Host-countersign=chosen-by-somebody")).status, 303);
    for (const target of ["https://evil.example", "//evil.example", "/\\evil.example"]) {
      assert.equal((await signIn({ sub: "ann" }, { returnTo: target })).done.headers.get("location"), "/", target);
    }
  });

  test("who may decide for others finds it in the own inbox, and not what is for administrators", async () => {
    const { session: boss } = await signIn({ sub: "boss", role: "boss" });
    const { session: bob } = await signIn({ sub: "bob" });
    const policies = [{ pattern: "demo.deleteItem", action: "approve", by: "other" }, { pattern: "demo.createItem", action: "approve", by: "admin" }];
    const headers = { cookie: boss, origin: new URL(gateway.url).origin, "content-type": "application/json" };
    const put = await gateway.fetch("/api/policies", { method: "PUT", headers, body: JSON.stringify({ policies }) });
    assert.equal(put.status, 200, await put.text());
    const carl = await openSession(gateway, { token: issuer.token({ sub: "carl" }) });
    const pauseOn = async (code) => (await carl.tool("execute", { code })).structuredContent;
    const anybodys = await pauseOn("return await tools.demo.deleteItem({ id: 'item-2' })");
    const admins = await pauseOn("return await tools.demo.createItem({ name: 'x', quantity: 1 })");
    const inbox = async (cookie, query = "") => (await get(`/approvals${query}`, cookie)).text();
    await waitFor(async () => (await inbox(boss)).includes(admins.executionId));
    const bobs = await inbox(bob);
    assert.ok(bobs.includes(anybodys.executionId), bobs);
    assert.ok(!bobs.includes(admins.executionId), bobs);
    assert.ok(!(await inbox(bob, "?mine=1")).includes(anybodys.executionId));
    const { pathname, search } = new URL(anybodys.approvalUrl);
    assert.equal((await get(pathname + search, bob)).status, 200);
  });
});
