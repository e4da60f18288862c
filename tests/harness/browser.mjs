// A person at a browser: Chromium, driven by playwright-core, signed in to a gateway in development mode.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

import { findBrowser } from "../../scripts/lib/browser.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Starts the system's Chromium. As root it cannot have its own sandbox; nothing but the gateway's pages is opened in it. */
export function startBrowser() {
  return chromium.launch({ executablePath: findBrowser(), chromiumSandbox: process.getuid?.() !== 0 });
}

/**
 * A person's window on a gateway. `account` is `name@organization`; without one nobody has signed in. Everything else goes to
 * Playwright's `newContext`, such as `viewport`, `colorScheme` and `javaScriptEnabled`.
 *
 * Resolves with the page, which has besides:
 * - `faults`: what must not happen: script errors, dialogs, violations of the CSP, requests to anywhere else.
 * - `loaded`: bytes of every answer since the last `goto` through `visit`.
 */
export async function openWindow(browser, gateway, { account, ...options } = {}) {
  const origin = gateway.url.replace(/\/$/, "");
  const context = await browser.newContext({ baseURL: origin, ...options });
  if (account) await context.addCookies([{ name: "countersign-dev", value: account, url: origin }]);
  const page = await context.newPage();
  page.faults = [];
  page.loaded = [];
  page.on("pageerror", (error) => page.faults.push(`script error: ${error.message}`));
  page.on("dialog", (dialog) => {
    page.faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/content security policy|refused to|violates/i.test(message.text())) page.faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith("data:")) page.faults.push(`request to ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() !== 304) page.loaded.push(response.body().then((body) => [new URL(response.url()).pathname, body.length], () => [response.url(), 0]));
  });
  return page;
}

/** Opens a path and gives the answer with the weight of all that was loaded for it, in bytes before compression. */
export async function visit(page, path) {
  page.loaded.length = 0;
  const response = await page.goto(path, { waitUntil: "load" });
  const sizes = await Promise.all(page.loaded);
  return { status: response.status(), headers: response.headers(), weight: sizes.reduce((sum, [, size]) => sum + size, 0), sizes };
}

/** What axe finds that is serious or critical, as text; empty where there is nothing. */
export async function seriousFaults(page) {
  // By way of the debugger, which the page's CSP does not bind.
  await page.evaluate(`${AXE}; undefined`);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(" | ")}`)
    .join("\n");
}

/** How far a page reaches beyond the window's right edge, in pixels. */
export const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
