// Programs: what they see, what they may do, what comes back.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openSession, startGateway } from "./harness/index.mjs";

let gateway;
let session;
before(async () => {
  gateway = await startGateway();
  session = await openSession(gateway);
});
after(() => gateway.stop());

const run = async (code, options) => (await session.tool("execute", { code }, options)).structuredContent;
const result = async (code) => {
  const answer = await run(code);
  assert.equal(answer.status, "completed", JSON.stringify(answer));
  return answer.result;
};

test("a program returns what it returns", async () => {
  for (const [code, expected] of [
    ["return 1 + 1", 2],
    ["const x: number = 3; return { x, y: [1, null, 'ä😀'] }", { x: 3, y: [1, null, "ä😀"] }],
    ["async () => 'arrow'", "arrow"],
    ["export default async function main() { return 'default' }", "default"],
    ["```ts\nreturn 'fenced';\n```", "fenced"],
    ["return undefined", null],
    ["enum E { A = 4, B, C = 'c' + B } return [E.A, E.B, E[5], E.C]", [4, 5, "B", "c5"]],
    ["class A { constructor(private a: number) {} b = () => this.a }\n;(new A(3) as any).b()", 3],
    ["interface I { a?: string } const i = {} satisfies I; return Object.keys(i).length", 0],
  ]) {
    assert.deepEqual(await result(code), expected, code);
  }
});

test("text and structured content tell the same", async () => {
  const answer = await session.tool("execute", { code: "console.log('hello', {a: 1}); emit('for the user'); return { a: 1 }" });
  assert.deepEqual(answer.structuredContent, {
    status: "completed",
    result: { a: 1 },
    emitted: ["for the user"],
    logs: [{ level: "log", text: 'hello {"a":1}' }],
  });
  assert.equal(answer.content[0].text, '{\n  "a": 1\n}');
  assert.equal(answer.isError, false);
});

test("tools are found, described and called", async () => {
  const found = await result("return await tools.search({ query: 'delete an item' })");
  assert.equal(found.ok, true);
  assert.equal(found.data.items[0].address, "demo.deleteItem");
  assert.equal(found.data.items[0].approval, true);
  const described = await result("return await tools.describe({ address: 'demo.listItems' })");
  assert.match(described.data.input, /search\?: string/);
  assert.match(described.data.output, /items: Array</);
  assert.equal(described.data.approval, false);
  assert.deepEqual((await result("return (await tools.sources.list()).data.items.map((s) => s.slug)")), ["countersign", "demo"]);
  const listed = await result("return await tools.demo.listItems({ search: 'broken' })");
  assert.equal(listed.ok, true);
  assert.equal(listed.http.status, 200);
  assert.equal(listed.data.total, 2);
  assert.deepEqual(await result("return (await tools['demo.getItem']({ id: 'item-1' })).data.name"), "Laptop stand");
});

test("a failed call is a value with a code", async () => {
  const unknown = await result("return await tools.demo.deleteItems({})");
  assert.equal(unknown.error.code, "tool_not_found");
  assert.match(unknown.error.message, /demo\.deleteItem/);
  const invalid = await result("return await tools.demo.listItems({ limit: 'many', nonsense: 1 })");
  assert.equal(invalid.error.code, "invalid_tool_arguments");
  assert.match(invalid.error.message, /limit/);
  const missing = await result("return await tools.demo.getItem({ id: 'nothing' })");
  assert.deepEqual([missing.ok, missing.error.status], [false, 404]);
  for (const code of ["return await tools.demo.getItem('x')", "const a: any = {}; a.a = a; return await tools.demo.getItem(a)", "return await tools.demo.getItem({ id: 1n } as any)"]) {
    assert.equal((await result(code)).error.code, "invalid_tool_arguments", code);
  }
  assert.match((await result("return await tools.search({})")).error.message, /tools\.search takes/);
  assert.match((await result("return await tools.describe({ address: 'demo.nope' })")).error.message, /no tool demo\.nope/);
});

test("syntax errors name line and column", async () => {
  const answer = await session.tool("execute", { code: "const a = 1;\nconst b = ;\nreturn a" });
  assert.equal(answer.isError, true);
  assert.match(answer.content[0].text, /^Line 2, column \d+/);
  assert.match(answer.content[0].text, /const b = ;/);
  for (const code of ["import fs from 'fs'; return 1", "return await import('cloudflare:workers')", "export const a = 1"]) {
    const refused = await session.tool("execute", { code });
    assert.equal(refused.isError, true, code);
    assert.match(refused.content[0].text, /import|export/i, code);
  }
});

test("whatever is thrown is a failure with a message and, where known, a line", async () => {
  for (const [code, message, line] of [
    ["\nthrow new Error('boom')", /Error: boom/, 2],
    ["interface A { x: 1 }\n\nconst f = (): void => {\n  throw new TypeError('typed');\n};\nf();", /TypeError: typed/, 4],
    ["throw 'text'", /text/, null],
    ["throw null", /null was thrown/, null],
    ["throw undefined", /undefined was thrown/, null],
    ["throw { code: 7 }", /"code":7/, null],
    ["return missing.property", /missing is not defined/, 1],
    ["await Promise.reject(new Error('later'))", /later/, 1],
    ["return 10n", /cannot be written as JSON/, null],
    ["const a: any = {}; a.a = a; return a", /cannot be written as JSON/, null],
  ]) {
    const answer = await session.tool("execute", { code });
    assert.equal(answer.isError, true, code);
    assert.equal(answer.structuredContent.status, "error", code);
    assert.match(answer.structuredContent.error.message, message, code);
    assert.equal(answer.structuredContent.error.line, line, code);
  }
});

test("a program that the engine does not load is an error with its line, and is not tried again", async () => {
  for (const [code, message, line] of [
    ["interface A {\n  b: 1\n}\nclass C {\n  constructor() {}\n  'constructor'() {}\n}", /one constructor/, 6],
    ["Text:\n```ts\nconst a = 1\nreturn this.#b\n```", /#b/, 4],
    ["const a = 1\nreturn /(?<b>c)(?<b>d)/.test('')", /regular expression/i, 2],
  ]) {
    const answer = await session.tool("execute", { code });
    assert.equal(answer.isError, true, code);
    const { error } = answer.structuredContent;
    assert.equal(error.code, "program_refused", code);
    assert.match(error.message, message, code);
    assert.equal(error.line, line, code);
  }
});

test("there is no network, no platform and no clock of its own", async () => {
  for (const name of ["fetch", "setImmediate"]) {
    const answer = await run(`return ${name}('x')`);
    assert.match(answer.error.message, /not available/, name);
  }
  const left = await result(`
    const names = new Set<string>();
    for (let o: any = globalThis; o && o !== Object.prototype; o = Object.getPrototypeOf(o)) {
      for (const n of Reflect.ownKeys(o)) if (typeof n === 'string' && (globalThis as any)[n] !== undefined) names.add(n);
    }
    return [...names].sort();`);
  for (const name of ["WebSocket", "caches", "process", "Buffer", "WeakRef", "FinalizationRegistry", "Atomics", "SharedArrayBuffer", "WebAssembly", "navigator", "addEventListener", "MessageChannel", "scheduler", "Response", "Request", "eval"]) {
    assert.ok(!left.includes(name), name);
  }
  for (const code of ["return eval('1')", "return new Function('return 1')()", "return (async () => {}).constructor('return 1')()"]) {
    assert.equal((await run(code)).status, "error", code);
  }
});

test("an endless loop ends and other sessions are served meanwhile", async () => {
  const other = await openSession(gateway);
  const [looped, ping] = await Promise.all([run("let n = 0; while (true) { n++; }"), other.call("ping")]);
  assert.equal(looped.error.code, "out_of_fuel");
  assert.deepEqual(ping.result, {});
  for (const code of [
    "for (;;) { try { for (;;) {} } catch {} }",
    "const f = (): number => f() + f(); f()",
    "do {} while (true)",
    "function* g() { while (true) yield 1; } for (const x of g()) {}",
    "for (;;) await null",
    "async function f() { await null; return f(); } await f()",
    "const a: object[] = []; for (;;) a.push({ a })",
  ]) {
    assert.equal((await run(code)).status, "error", code);
  }
});

test("a promise that nothing settles ends the program", async () => {
  assert.equal((await run("await new Promise(() => {})")).error.code, "never_settles");
});

test("the console and emit are bounded", async () => {
  const flooded = await run("for (let i = 0; i < 5000; i++) console.log('x'.repeat(100)); return 'done'");
  assert.equal(flooded.result, "done");
  assert.equal(flooded.logsCut, true);
  assert.ok(JSON.stringify(flooded.logs).length < 200_000);
  assert.match((await run("for (;;) emit('x'.repeat(100000))")).error.message, /emit takes/);
});

test("long results are cut with a note, and stay valid", async () => {
  const answer = await session.tool("execute", { code: "return 'z'.repeat(1_000_000)" });
  assert.ok(answer.content[0].text.length < 31_000);
  assert.match(answer.content[0].text, /970000 of 1000000 characters were cut/);
  assert.equal(answer.structuredContent.status, "completed");
  assert.ok(JSON.stringify(answer.structuredContent).length < 100_000);
});

test("half characters and large values come through", async () => {
  const cut = await run("console.log('😀'.slice(0, 1)); emit('a😀'.slice(0, 2)); return { cut: 'b😀'.slice(0, 2), ['😀'.slice(1)]: 1 }");
  assert.equal(cut.status, "completed", JSON.stringify(cut));
  assert.equal(cut.result.cut, "b\ufffd");
  assert.equal(cut.logs[0].text, "\ufffd");
  const thrown = await run("throw new Error('c😀'.slice(0, 2))");
  assert.equal(thrown.error.message, "Error: c\ufffd");
  const echoed = await result("return (await tools.demo.listItems({ search: 'd😀'.slice(0, 2) })).ok");
  assert.equal(echoed, true);
  const large = await run("return '€'.repeat(5_000_000)");
  assert.equal(large.resultCharacters, 5_000_002, JSON.stringify(large).slice(0, 300));
  const tooLarge = await run("return '€'.repeat(6_000_000)");
  assert.equal(tooLarge.error.code, "result_too_large");
  assert.match(tooLarge.error.message, /18000002 bytes/);
  const deep = await run("let a: any = 1; for (let i = 0; i < 1000; i++) a = [a]; return a");
  assert.equal(deep.status, "error");
});

test("calls in parallel and races come back in a stable order", async () => {
  const names = await result(`
    const seen: string[] = [];
    await Promise.all(['item-1', 'item-2', 'item-3', 'item-4'].map(async (id) => { seen.push((await tools.demo.getItem({ id })).data.id); }));
    return seen.sort();`);
  assert.deepEqual(names, ["item-1", "item-2", "item-3", "item-4"]);
  assert.equal(await result("let n = 0; for (let i = 0; i < 30; i++) n += (await tools.demo.getItem({ id: 'item-1' })).ok ? 1 : 0; return n"), 30);
  assert.equal(await result("return (await Promise.all(Array.from({ length: 40 }, () => tools.demo.getItem({ id: 'item-2' })))).filter((r) => r.ok).length"), 40);
});

test("a program that breaks prototypes breaks only itself", async () => {
  const answer = await run(`
    Array.prototype.push = Array.prototype.map = () => { throw new Error('patched'); };
    JSON.stringify = () => '"forged"'; JSON.parse = () => ({ ok: true, data: 'forged' });
    Object.defineProperty(Object.prototype, 'seq', { get: () => 99, set() {} });
    String.prototype.slice = () => 'x'; Promise.prototype.then; 
    return (await tools.demo.getItem({ id: 'item-1' })).data.name;`);
  assert.equal(answer.result, "Laptop stand");
  assert.equal(await result("return (await tools.demo.getItem({ id: 'item-1' })).ok"), true);
});

test("a program that redefines what messages are made of breaks only itself, and nothing of it is logged", async () => {
  for (const code of [
    "Object.prototype.toJSON = () => 'forged'; Array.prototype[Symbol.iterator] = () => { throw new Error('needle-iterator'); }; return (await tools.demo.getItem({ id: 'item-1' })).ok",
    "const inner = { toJSON() { tools.demo.getItem({ id: 'item-2' }); return 'item-1'; } }; return (await tools.demo.getItem({ id: inner as any })).data.id",
    "Array.prototype.toString = String.prototype.toString = () => { throw new Error('needle-string'); }; throw new Error('x')",
  ]) {
    const answer = await run(code);
    assert.ok(["completed", "error"].includes(answer.status), code);
    assert.notEqual(answer.error?.code, "sandbox_failed", JSON.stringify(answer));
    assert.notEqual(answer.error?.code, "sandbox_protocol", JSON.stringify(answer));
  }
  assert.doesNotMatch(gateway.output(), /needle-/);
});

test("programs that wait make room for others", async () => {
  const own = await openSession(gateway);
  for (let i = 0; i < 10; i++) {
    const pause = await own.tool("execute", { code: `return await tools.demo.deleteItem({ id: 'none-${i}' })` });
    assert.equal(pause.structuredContent.status, "user_approval_required");
  }
});

test("answers come as JSON to a client that admits nothing else", async () => {
  const answer = await session.call("tools/call", { name: "execute", arguments: { code: "return 5" } }, { headers: { accept: "application/json" } });
  assert.equal(answer.headers.get("content-type"), "application/json");
  assert.equal(answer.result.structuredContent.result, 5);
  const streamed = await session.call("tools/call", { name: "execute", arguments: { code: "return 6" } });
  assert.equal(streamed.headers.get("content-type"), "text/event-stream");
  assert.equal(streamed.result.structuredContent.result, 6);
});

test("no argument, result or token is in the log", async () => {
  await run("await tools.demo.listItems({ search: 'needle-in-arguments' }); return 'needle-in-result'");
  assert.doesNotMatch(gateway.output(), /needle-in|dev:ada@acme/);
  assert.ok(gateway.logs("mcp_tool_call").some((line) => line.address === "demo.listItems" && line.outcome === "ok"));
});
