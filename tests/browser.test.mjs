// The pages as people use them, in Chromium: with mouse and keyboard, in the light and in the dark, on a small screen, with JavaScript
// and without.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { findBrowser, isBrowserRequired } from "../scripts/lib/browser.mjs";
import { approve, devToken, openSession, startGateway, waitFor } from "./harness/index.mjs";

/** A folder for pictures of every page, for people to look at. */
const PICTURES = process.env.PICTURES;
const PAGE_BYTES = 100_000;

const available = findBrowser() !== undefined;
const skip = !available && !isBrowserRequired();
if (skip) console.error("\n!!! THERE IS NO CHROMIUM: THE SUITE THAT TRIES THE PAGES IN A BROWSER IS SKIPPED. Install one, or set CHROMIUM to its path.\n");

describe("in Chromium", { skip: skip ? "there is no Chromium" : false }, () => {
  let gateway;
  let brief;
  let browser;
  let driver;
  before(async () => {
    assert.ok(available, "there is no Chromium, and CI has to have one");
    driver = await import("./harness/browser.mjs");
    [gateway, brief, browser] = await Promise.all([
      startGateway({ vars: { AUTH_MODE: "dev,keys", RESUME_WAIT_MS: "4000", COUNTERSIGN_SECRET_KEY: "k3Jw0Zl8m1QxT5v9YbN2sRcU7eHgPa4D" } }),
      startGateway({ vars: { RESUME_WAIT_MS: "1000", APPROVAL_WINDOW_MS: "4000" } }),
      driver.startBrowser(),
    ]);
  });
  after(() => Promise.all([gateway?.stop(), brief?.stop(), browser?.close()]));

  let organizations = 0;
  /** An organization that no other test uses. */
  const organization = () => `org${++organizations}`;
  const agent = (of, on = gateway, clientInfo) =>
    openSession(on, { token: devToken({ account: "ann", organization: of }), ...(clientInfo ? { clientInfo } : {}) });
  /** A program that waits: its session, the pause, and the path of its page. */
  async function pauseOn(of, code, { on = gateway, clientInfo } = {}) {
    const session = await agent(of, on, clientInfo);
    const pause = (await session.tool("execute", { code })).structuredContent;
    assert.equal(pause.status, "user_approval_required", JSON.stringify(pause));
    const { pathname, search } = new URL(pause.approvalUrl);
    return { session, pause, path: pathname + search };
  }
  async function withWindow(options, work, on = gateway) {
    const page = await driver.openWindow(browser, on, options);
    try {
      await work(page);
      assert.deepEqual(page.faults, []);
    } finally {
      await page.context().close();
    }
  }
  /** A tool that takes texts of any size, at a host that is not there. */
  async function addNotes(of, on = gateway) {
    const spec = {
      openapi: "3.1.0",
      info: { title: "Notes", version: "1" },
      servers: [{ url: "https://notes.example" }],
      paths: {
        "/notes": {
          post: {
            operationId: "addNote",
            requestBody: { required: true, content: { "application/json": { schema: { type: "object", properties: { text: { type: "string" } } } } } },
            responses: { 200: { description: "ok" } },
          },
        },
      },
    };
    const headers = { authorization: `Bearer ${devToken({ account: "ann", organization: of, roles: ["admin"] })}`, "content-type": "application/json" };
    const added = await on.fetch("/api/sources/notes", { method: "PUT", headers, body: JSON.stringify({ kind: "openapi", spec }) });
    assert.equal(added.status, 201, await added.text());
  }
  const outcomeOf = async ({ session, pause }) => (await session.tool("resume", { executionId: pause.executionId })).structuredContent;
  const heading = (page) => page.locator("h1").innerText();
  const remove = (id) => `return await tools.demo.deleteItem({ id: '${id}' })`;

  test("somebody signs in and comes to the page that they wanted", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    await withWindow({}, async (page) => {
      await page.goto(`/sign-in?return_to=${encodeURIComponent(waiting.path)}`);
      await page.getByLabel(/account/i).fill(`ann@${of}`);
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => url.pathname + url.search === waiting.path);
      assert.match(await page.locator("header").innerText(), new RegExp(`Signed in as ann@${of}`));
      await page.getByRole("link", { name: "Sign out" }).click();
      await page.locator("main button").click();
      await page.goto("/");
      assert.doesNotMatch(await page.locator("header").innerText(), new RegExp(`ann@${of}`));
    });
  });

  test("one call is approved, and the page shows what came of it", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    await withWindow({ account: `ann@${of}` }, async (page) => {
      await page.goto(waiting.path);
      assert.match(await page.locator("main").innerText(), /DELETE[^]*\/demo\/items\/item-1/);
      await page.locator("button[value=accept]").click();
      await waitFor(async () => /finished|approved/i.test(await page.locator("main").innerText()), { what: "the page to say that it is approved" });
      assert.equal(await page.locator("button[value=accept]").count(), 0);
      assert.equal((await outcomeOf(waiting)).result.ok, true);
      await page.reload();
      assert.match(await page.locator("main").innerText(), /Approved by ann/i);
    });
  });

  test("one call is declined for a reason, which the program is told", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    await withWindow({ account: `ann@${of}` }, async (page) => {
      await page.goto(waiting.path);
      await page.locator("#reason").fill("that one is still needed");
      await page.locator("button[value=decline]").click();
      await waitFor(async () => (await page.locator("main").innerText()).includes("that one is still needed"));
      assert.equal((await outcomeOf(waiting)).result.error.reason, "that one is still needed");
    });
  });

  test("three calls are decided one by one in one go", async () => {
    const of = organization();
    const waiting = await pauseOn(of, "return (await Promise.all(['item-3', 'item-4', 'item-5'].map((id) => tools.demo.deleteItem({ id })))).map((one) => one.ok || one.error.reason)");
    await withWindow({ account: `ann@${of}` }, async (page) => {
      await page.goto(waiting.path);
      assert.equal(await page.locator("section.item").count(), 3);
      const call = (place) => page.locator("section.item").nth(place);
      await call(0).getByLabel("Approve").check();
      await call(1).getByLabel("Decline").check();
      await call(1).locator("textarea[name^=reason]").fill("not this");
      await page.locator("button[value=items]").click();
      await waitFor(async () => /1 of 3 calls still to decide/.test(await page.locator("main").innerText()));
      await page.locator("#reason").fill("nor that");
      await page.locator("button[value=decline]").click();
      await waitFor(async () => (await page.locator("button[value=decline]").count()) === 0);
      assert.deepEqual((await outcomeOf(waiting)).result, [true, "not this", "nor that"]);
    });
  });

  for (const javaScriptEnabled of [true, false]) {
    test(`arguments are corrected, what does not fit is told and kept, and what fits is what runs (JavaScript ${javaScriptEnabled ? "on" : "off"})`, async () => {
      const of = organization();
      const waiting = await pauseOn(of, "const { ok, data, edited } = await tools.demo.createItem({ name: 'bolt', quantity: 5 }); return { ok, data, edited };");
      await withWindow({ account: `ann@${of}`, javaScriptEnabled }, async (page) => {
        await page.goto(waiting.path);
        await page.getByText("Correct the arguments").click();
        const box = page.locator("textarea[name^=arguments]");
        await box.fill('{"name": "bolt", "quantity": "many"}');
        await page.locator("button[value=accept]").click();
        await waitFor(async () => /Nothing was decided[^]*quantity/.test(await page.locator("main").innerText()), { what: "the page to say what does not fit" });
        assert.match(await box.inputValue(), /"many"/);
        await box.fill('{"name": "nut", "quantity": 7}');
        await page.locator("button[value=accept]").click();
        await waitFor(async () => (await page.locator("button[value=accept]").count()) === 0);
        const { result } = await outcomeOf(waiting);
        assert.deepEqual([result.ok, result.data.name, result.data.quantity], [true, "nut", 7], JSON.stringify(result));
        assert.deepEqual(result.edited.arguments, { name: "nut", quantity: 7 });
        await page.reload();
        assert.match(await page.locator("main").innerText(), /Approved with other arguments by ann/);
        assert.match(await page.locator("main").innerText(), /What the program wrote/);
        if (javaScriptEnabled) assert.equal(await driver.seriousFaults(page), "");
      });
    });
  }

  test("a grant lets the same tool through in this session, is listed, and ends when it is revoked", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    const again = async (id) => (await waiting.session.tool("execute", { code: remove(id) })).structuredContent;
    await withWindow({ account: `ann@${of}`, viewport: { width: 320, height: 700 } }, async (page) => {
      await page.goto(waiting.path);
      await page.getByText("Allow more than this call").click();
      assert.equal(await driver.seriousFaults(page), "");
      assert.ok((await driver.overflow(page)) <= 0, "no scrolling sideways");
      await page.getByLabel(/this session/i).check();
      await page.locator("button[value=accept]").click();
      await waitFor(async () => (await page.locator("button[value=accept]").count()) === 0);
      assert.equal((await outcomeOf(waiting)).result.ok, true);
      assert.equal((await again("item-2")).result.ok, true);
      await page.goto("/grants");
      assert.match(await page.locator("main").innerText(), /demo\.deleteItem/);
      assert.equal(await driver.seriousFaults(page), "");
      assert.ok((await driver.overflow(page)) <= 0, "no scrolling sideways");
      await page.getByRole("button", { name: /revoke/i }).first().click();
      await waitFor(async () => (await page.getByRole("button", { name: /revoke/i }).count()) === 0);
      assert.equal((await again("item-3")).status, "user_approval_required");
    });
  });

  test("what somebody else has decided already is told to whoever comes too late", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    // Without JavaScript the page does not notice by itself.
    await withWindow({ account: `ann@${of}`, javaScriptEnabled: false }, async (page) => {
      await page.goto(waiting.path);
      assert.equal((await approve(gateway, waiting.pause, { token: devToken({ account: "ann", organization: of, roles: ["approver"] }) })).status, 200);
      const [answer] = await Promise.all([page.waitForNavigation(), page.locator("button[value=decline]").click()]);
      assert.equal(answer.status(), 409);
      assert.match(await page.locator("main").innerText(), /already[^]*Approved by ann/i);
    });
    await outcomeOf(waiting);
  });

  test("when the time is over while the page is open, nothing can be pressed any more", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"), { on: brief });
    await withWindow({ account: `ann@${of}` }, async (page) => {
      await page.goto(waiting.path);
      assert.match(await page.locator("#countdown").innerText(), /s left/);
      await waitFor(async () => (await page.locator("button[value=accept]:enabled").count()) === 0, { timeout: 15_000 });
      await waitFor(async () => /time|expired|nobody/i.test(await page.locator("main").innerText()));
      await page.reload();
      assert.equal(await page.locator("button[value=accept]").count(), 0);
    }, brief);
    assert.notEqual((await outcomeOf(waiting)).result?.ok, true);
  });

  test("another person sees nothing of it", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    for (const account of [`eve@${of}`, "eve@elsewhere"]) {
      await withWindow({ account }, async (page) => {
        const { status } = await driver.visit(page, waiting.path);
        assert.equal(status, 403);
        assert.doesNotMatch(await page.content(), /deleteItem|item-1/);
      });
    }
  });

  test("the page follows when somebody else decides while it is open, and keeps what was typed until then", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    await withWindow({ account: `ann@${of}` }, async (page) => {
      await page.goto(waiting.path);
      await page.locator("#reason").fill("half a sent");
      await approve(gateway, waiting.pause, { token: devToken({ account: "ann", organization: of, roles: ["approver"] }) });
      await waitFor(async () => /Approved by ann/i.test(await page.locator("main").innerText()), { what: "the page to show the decision" });
      assert.equal(await page.locator("button[value=accept]").count(), 0);
      assert.notEqual(await page.locator("#announce").innerText(), "", "it is said aloud");
    });
    await outcomeOf(waiting);
  });

  test("the inbox follows what waits, and leads to the page where it is decided", async () => {
    const of = organization();
    await withWindow({ account: `ann@${of}` }, async (page) => {
      const statuses = [];
      page.on("response", (response) => statuses.push(response.status()));
      await page.goto("/approvals");
      assert.match(await page.locator("main").innerText(), /Nothing waits/);
      await waitFor(() => statuses.includes(304), { what: "the page to be told that nothing changed" });
      const waiting = await pauseOn(of, remove("item-1"));
      await waitFor(async () => (await page.locator(".rows .item").count()) === 1, { what: "the item to appear" });
      assert.match(await page.title(), /^\(1\)/);
      assert.match(await page.locator("#announce").innerText(), /1 question waits/);
      const link = page.locator(".rows a").first();
      await link.focus();
      await pauseOn(of, remove("item-2"));
      await waitFor(async () => (await page.locator(".rows .item").count()) === 2, { what: "the second item to appear" });
      assert.equal(await page.evaluate(() => document.activeElement.getAttribute("href")), waiting.path, "the focus stays where it was");
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => url.pathname + url.search === waiting.path);
      await page.locator("button[value=decline]").click();
      await waitFor(async () => (await page.locator("button[value=decline]").count()) === 0);
      await page.getByRole("link", { name: "Approvals", exact: true }).click();
      await waitFor(async () => (await page.locator(".rows .item").count()) === 1);
    });
  });

  test("hostile arguments are shown as they are, and nothing of them happens", async () => {
    const of = organization();
    const markup = "<img src=x onerror=alert(1)><script>alert(2)</script></main></textarea><base href=https://evil.example>";
    await addNotes(of);
    const code = `return await tools.notes.addNote({ text: ${JSON.stringify(markup)} + '\\u202Egnp.exe\\u200B\\u2066\\u{E0041}' })`;
    const waiting = await pauseOn(of, code, { clientInfo: { name: `${markup}\u202e`, version: "<b>1</b>" } });
    await withWindow({ account: `ann@${of}`, viewport: { width: 320, height: 640 } }, async (page) => {
      for (const path of ["/approvals", waiting.path]) {
        await page.goto(path);
        const text = await page.locator("main").innerText();
        assert.ok(text.includes("<img src=x onerror=alert(1)>"), "markup is text");
        assert.equal(await page.locator("main img, main script, main base").count(), 0);
        assert.doesNotMatch(await page.content(), /[\u202a-\u202e\u2066-\u2069\u200b]/, "nothing invisible is on the page");
        assert.match(text, /⟦U\+202E⟧/);
        assert.equal(await driver.overflow(page), 0);
      }
      assert.match(await page.locator("main").innerText(), /⟦U\+200B⟧/);
      assert.match(await page.locator("main").innerText(), /⟦U\+E0041⟧/);
    });
  });

  test("a megabyte of arguments is complete on the page, folded, and can be approved", async () => {
    const of = organization();
    await addNotes(of);
    const waiting = await pauseOn(of, "return await tools.notes.addNote({ text: 'begin' + 'x'.repeat(1_000_000) + 'end' })");
    await withWindow({ account: `ann@${of}` }, async (page) => {
      await page.goto(waiting.path);
      assert.match(await page.locator("main").innerText(), /begin[^]*more characters[^]*end/);
      const whole = await page.locator("details.fold .full").first().evaluate((element) => element.textContent.replaceAll(/\s/g, "").length);
      assert.ok(whole >= 1_000_008, String(whole));
      await page.locator("button[value=accept]").click();
      await waitFor(async () => (await page.locator("button[value=accept]").count()) === 0, { timeout: 20_000 });
    });
  });

  test("with the keyboard alone, from the inbox to an approval", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    await withWindow({ account: `ann@${of}` }, async (page) => {
      const tabTo = async (selector) => {
        for (let press = 0; press < 60; press++) {
          await page.keyboard.press("Tab");
          const [there, ring] = await page.evaluate((wanted) => [document.activeElement.matches(wanted), getComputedStyle(document.activeElement).outlineStyle], selector);
          if (there) {
            assert.notEqual(ring, "none", `the focus on ${selector} can be seen`);
            return;
          }
        }
        assert.fail(`no way to ${selector} with the Tab key`);
      };
      await page.goto("/approvals");
      await tabTo("a.skip");
      await page.keyboard.press("Enter");
      await tabTo(`.rows a`);
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => url.pathname + url.search === waiting.path);
      await tabTo("#reason");
      await page.keyboard.type("looks right");
      await tabTo("button[value=accept]");
      await page.keyboard.press("Enter");
      await waitFor(async () => (await page.locator("button[value=accept]").count()) === 0);
      assert.equal((await outcomeOf(waiting)).result.ok, true);
    });
  });

  test("without JavaScript: the inbox, a decision, and the outcome", async () => {
    const of = organization();
    const waiting = await pauseOn(of, remove("item-1"));
    await withWindow({ account: `ann@${of}`, javaScriptEnabled: false }, async (page) => {
      await page.goto("/approvals");
      await page.getByRole("link", { name: "Refresh" }).click();
      await page.locator(".rows a").first().click();
      await page.locator("button[value=accept]").click();
      assert.match(await page.locator("main").innerText(), /Approved/);
      assert.equal((await outcomeOf(waiting)).result.ok, true);
      await page.goto("/tools");
      await page.getByLabel("Look for").fill("delete an item");
      await page.getByRole("button", { name: "Search" }).click();
      assert.match(await page.locator(".rows").innerText(), /demo\.deleteItem/);
    });
  });

  test("a key is made, shown once, and revoked", async () => {
    const of = organization();
    await withWindow({ account: `ann@${of}` }, async (page) => {
      await page.goto("/keys");
      await page.getByLabel(/^Name/).fill("<b>CI</b>");
      await page.locator("input[name=purpose][value=approve]").check();
      await page.getByLabel(/^Last day/).fill("2099-01-31");
      await page.getByRole("button", { name: "Make the key" }).click();
      const key = await page.locator("pre code").innerText();
      assert.match(key, /^cs_approve_/);
      await page.getByRole("link", { name: "All keys" }).click();
      assert.ok(!(await page.content()).includes(key));
      assert.match(await page.locator(".rows").innerText(), /<b>CI<\/b>[^]*approve/);
      await page.getByText("Revoke", { exact: true }).click();
      await page.getByRole("button", { name: /Revoke this key/ }).click();
      assert.match(await page.locator("main").innerText(), /There are no keys/);
      await page.goBack();
      assert.ok(!(await page.content()).includes(key));
    });
  });

  test("every page: nothing serious for axe in light and dark, no scrolling sideways on a small screen, under 100 KB", async () => {
    const of = organization();
    const admin = { authorization: `Bearer ${devToken({ account: "ann", organization: of, roles: ["admin"] })}`, "content-type": "application/json" };
    const put = async (path, body) => {
      const answer = await gateway.fetch(path, { method: "PUT", headers: admin, body: JSON.stringify(body) });
      assert.ok(answer.ok, `${path}: ${await answer.text()}`);
    };
    const spec = {
      openapi: "3.1.0",
      info: { title: "Bills <b>\u202e", version: "1" },
      servers: [{ url: "https://bills.example/v1" }],
      paths: { "/bills/{id}": { delete: { operationId: "removeBill", summary: "Remove a bill", parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }], responses: { 200: { description: "ok" } } } } },
    };
    await put("/api/sources/bills", { kind: "openapi", spec, auth: { kind: "bearer", token: "t0k" }, confirmedOrigins: [] });
    await put("/api/policies", [{ pattern: "demo.createItem", action: "block", note: "not yet" }]);
    await put("/api/toolkits/small", { title: "Small", include: ["demo.**"], policies: [{ pattern: "demo.*", action: "approve" }] });
    const one = await pauseOn(of, "console.log('x');\nconst list = await tools.demo.listItems({});\nreturn await tools.demo.deleteItem({ id: 'item-1' })");
    const three = await pauseOn(of, "return await Promise.all(['item-3', 'item-4', 'item-5'].map((id) => tools.demo.deleteItem({ id })))");
    const done = await pauseOn(of, remove("item-2"));
    await approve(gateway, done.pause, { token: devToken({ account: "ann", organization: of, roles: ["approver"] }) });
    await outcomeOf(done);
    const places = {
      connect: "/",
      history: "/history",
      approvals: "/approvals",
      sources: "/sources",
      source: "/sources/bills",
      tools: "/tools?query=delete",
      tool: "/tools/demo.deleteItem",
      "tool-unconfirmed": "/tools/bills.removeBill",
      toolkits: "/toolkits",
      keys: "/keys",
      approval: one.path,
      "approval-three": three.path,
      "approval-done": done.path,
      session: `/sessions/${done.session.id}`,
      "sign-in": "/sign-in",
      "sign-out": "/sign-out",
      missing: "/resume/x",
    };
    if (PICTURES) mkdirSync(PICTURES, { recursive: true });
    for (const [look, options] of Object.entries({
      light: { colorScheme: "light", viewport: { width: 1100, height: 800 } },
      dark: { colorScheme: "dark", viewport: { width: 1100, height: 800 } },
      small: { colorScheme: "light", viewport: { width: 320, height: 640 } },
    })) {
      await withWindow({ account: `ann@${of}`, ...options }, async (page) => {
        for (const [name, path] of Object.entries(places)) {
          const { status, headers, weight, sizes } = await driver.visit(page, path);
          assert.equal(status, name === "missing" ? 404 : 200, path);
          assert.equal(headers["cache-control"], "no-store", path);
          assert.ok(weight < PAGE_BYTES, `${path} weighs ${weight} bytes: ${JSON.stringify(sizes)}`);
          assert.equal(await driver.seriousFaults(page), "", `${path} (${look})`);
          assert.equal(await driver.overflow(page), 0, `${path} (${look}) scrolls sideways`);
          assert.equal(await page.locator("main").count(), 1, path);
          assert.equal(await page.locator("h1").count(), 1, path);
          const [red, green, blue] = (await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).match(/\d+/g).map(Number);
          assert.equal(red + green + blue < 200, look === "dark", `${path} is ${look}`);
          if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}-${look}.png`), fullPage: true });
        }
      });
    }
  });
});
