// The approval as an MCP App: who gets it, and what it does in a host that is played here.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createContext, runInContext } from "node:vm";

import { approve, devToken, openSession, startGateway } from "./harness/index.mjs";

const URI = "ui://countersign/approval";
const capabilities = { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } } };

let gateway;
before(async () => {
  gateway = await startGateway({ vars: { RESUME_WAIT_MS: "3000" } });
});
after(() => gateway.stop());

test("a client that shows apps gets one for execute and resume, and no other client notices", async () => {
  const session = await openSession(gateway, { capabilities });
  assert.deepEqual(session.initialized.capabilities.extensions, { "io.modelcontextprotocol/ui": {} });
  assert.ok(session.initialized.capabilities.resources);
  const { tools } = (await session.call("tools/list")).result;
  const linked = Object.fromEntries(tools.map((tool) => [tool.name, tool._meta?.ui]));
  const ui = { resourceUri: URI, visibility: ["model"] };
  assert.deepEqual(linked, { execute: ui, resume: ui, skills: undefined });
  assert.deepEqual((await session.call("resources/list")).result.resources.map(({ uri, mimeType }) => [uri, mimeType]), [[URI, "text/html;profile=mcp-app"]]);
  assert.deepEqual((await session.call("resources/templates/list")).result, { resourceTemplates: [] });
  const [content] = (await session.call("resources/read", { uri: URI })).result.contents;
  assert.deepEqual([content.uri, content.mimeType], [URI, "text/html;profile=mcp-app"]);
  assert.deepEqual(Object.values(content._meta.ui.csp), [[], [], [], []]);
  for (const uri of ["ui://countersign/other", undefined, 7]) assert.ok((await session.call("resources/read", { uri })).error);

  const plain = await openSession(gateway);
  assert.deepEqual([plain.initialized.capabilities.extensions, plain.initialized.capabilities.resources], [undefined, undefined]);
  assert.ok((await plain.call("tools/list")).result.tools.every((tool) => tool._meta === undefined));
  assert.equal((await plain.call("resources/read", { uri: URI })).error.code, -32_601);

  const direct = await openSession(gateway, { capabilities, query: { tool_mode: "direct" } });
  assert.deepEqual((await direct.call("tools/list")).result.tools.find(({ name }) => name === "resume")._meta.ui, ui);
  assert.equal((await direct.call("resources/read", { uri: URI })).result.contents[0].uri, URI);
  assert.ok((await direct.call("resources/list")).result.resources.some(({ uri }) => uri === URI));
});

/** As much of a browser as the app needs: text is text, and whatever would make markup of it is not there. */
function host(html) {
  const sent = [];
  const listeners = {};
  const element = (id) => ({ id, hidden: false, textContent: "", children: [], replaceChildren(...children) { this.children = children; }, append(...children) { this.children.push(...children); }, addEventListener(event, listener) { this[event] = listener; }, getBoundingClientRect: () => ({ height: 10 }) });
  const elements = Object.fromEntries([...html.matchAll(/id="(\w+)"/g)].map(([, id]) => [id, element(id)]));
  const parent = { postMessage: (message) => sent.push(message) };
  const window = {
    parent,
    document: { getElementById: (id) => elements[id], createElement: element, body: element("body"), documentElement: { scrollWidth: 10 } },
    addEventListener: (event, listener) => (listeners[event] = listener),
  };
  const [, script] = /<script>([^]*)<\/script>/.exec(html);
  runInContext(script, createContext(window));
  return { sent, elements, say: (data, source = parent) => listeners.message({ source, data }) };
}

test("the app shows what waits as text, opens the page, and calls no tool", async () => {
  const session = await openSession(gateway, { capabilities });
  const [{ text: html }] = (await session.call("resources/read", { uri: URI })).result.contents;
  assert.match(html, /^<!doctype html>/);
  assert.doesNotMatch(html, /innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|tools\/call|fetch\(|XMLHttpRequest|<[^>]+\son\w+=|https?:\/\/[a-z]/);

  const { sent, elements, say } = host(html);
  assert.deepEqual([sent[0].method, sent[0].params.protocolVersion], ["ui/initialize", "2026-01-26"]);
  say({ jsonrpc: "2.0", id: sent[0].id, result: { protocolVersion: "2026-01-26", hostCapabilities: { openLinks: {} }, hostInfo: { name: "x", version: "1" }, hostContext: {} } });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(sent[1].method, "ui/notifications/initialized");

  const result = await session.tool("execute", { code: "return await tools.demo.updateItem({ id: 'item-1', name: '<img src=x onerror=alert(1)>\\u202Egnp.exe' })" });
  say({ jsonrpc: "2.0", method: "ui/notifications/tool-result", params: { structuredContent: { pending: [{}], approvalUrl: "https://evil.example/" } } }, {});
  assert.equal(elements.open.hidden, false, "as it began: what another window says does not count");
  assert.equal(elements.url.textContent, "");
  say({ jsonrpc: "2.0", method: "ui/notifications/tool-result", params: result });
  assert.equal(elements.title.textContent, "One call waits for a person");
  const [name, shown] = elements.calls.children[0].children;
  assert.equal(name.textContent, "demo.updateItem");
  assert.match(shown.textContent, /<img src=x onerror=alert\(1\)>\\u\{202e\}gnp\.exe/);
  assert.equal(elements.url.textContent, result.structuredContent.approvalUrl);
  assert.equal(elements.open.hidden, false);
  elements.open.click();
  const link = sent.at(-1);
  assert.deepEqual([link.method, link.params.url], ["ui/open-link", result.structuredContent.approvalUrl]);
  say({ jsonrpc: "2.0", id: link.id, error: { code: -32_000, message: "denied" } });
  await new Promise((resolve) => setImmediate(resolve));
  assert.match(elements.title.textContent, /not opened/);
  say({ jsonrpc: "2.0", id: "t", method: "ui/resource-teardown", params: {} });
  assert.equal(JSON.stringify(sent.at(-1)), '{"jsonrpc":"2.0","id":"t","result":{}}');

  for (const approvalUrl of ["javascript:alert(1)", "data:text/html,x", 7, undefined]) {
    say({ jsonrpc: "2.0", method: "ui/notifications/tool-result", params: { structuredContent: { pending: [{ address: "a", args: {} }], approvalUrl } } });
    assert.deepEqual([elements.open.hidden, elements.url.textContent], [true, ""], String(approvalUrl));
  }
  await approve(gateway, result.structuredContent, { token: devToken({ roles: ["approver"] }) });
  say({ jsonrpc: "2.0", method: "ui/notifications/tool-result", params: await session.tool("resume", { executionId: result.structuredContent.executionId }) });
  assert.deepEqual([elements.title.textContent, elements.open.hidden, elements.calls.children.length], ["Nothing waits here", true, 0]);
});
