// The prelude in workerd, without the gateway: random programs with concurrency run straight, and run with the sandbox lost
// after every answer. Calls, output and logs have to be the same. `REPLAYS=2000 REPLAY_SEED=<seed>` looks longer.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { seeded, startGateway } from "./harness/index.mjs";

const PROGRAMS = Number(process.env.REPLAYS ?? 60);
const SEED = Number(process.env.REPLAY_SEED ?? randomInt(1 << 30));
const source = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const PRELUDE = source("../src/shell/prelude-2.js");
const CODE = /const CODE: &str = r#"(.*?)"#;/s.exec(source("../src/shell/sandbox.rs"))[1];

// A Worker that is the host of a sandbox: it answers calls in an order that depends only on what was called, and may lose the
// sandbox after every answer.
const HOST = `
import { RpcTarget } from "cloudflare:workers";

const PRELUDE = ${JSON.stringify(PRELUDE)};
const CODE = ${JSON.stringify(CODE)};

class Host extends RpcTarget {
  constructor(heard) { super(); this.heard = heard; this.text = ""; this.pieces = []; }
  part(text) { this.text += text; }
  turn(text) { const whole = this.text + text; this.text = ""; return new Promise((answer) => this.heard(whole, (reply) => answer(reply === "" ? "" : "." + reply))); }
  more() { return "."; }
}

// FNV-1a: how long a call takes, and whether it fails, follows from what it is.
function hash(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

async function execute(env, program, seed, lose) {
  const calls = [], cleared = new Set(), settled = [];
  const heard = { logs: [], emitted: [] };
  let now = 1_700_000_000_000, attempts = 0, batch = 0, finish;
  const open = new Map();

  function start() {
    attempts++;
    let issued = 0, first = true;
    heard.logs = []; heard.emitted = [];
    let next, entrypoint;
    const turns = [];
    const worker = env.LOADER.load({ ...JSON.parse(CODE), mainModule: "main.js", modules: { "main.js": PRELUDE, "program.js": program }, env: {}, globalOutbound: null });
    entrypoint = worker.getEntrypoint();
    const host = new Host((text, answer) => { turns.push({ text, answer }); next?.(); });
    let failed;
    entrypoint.run(host, "." + JSON.stringify({ startedAt: 1_700_000_000_000, seed, longestTimer: 86_400_000, settled })).catch((error) => { failed = error; next?.(); });
    return {
      async turn() {
        while (turns.length === 0) {
          if (failed) throw failed;
          await new Promise((resolve) => { next = resolve; });
        }
        const { text, answer } = turns.shift();
        const turn = JSON.parse(text);
        for (const call of turn.calls) {
          if (call.seq !== issued) throw new Error("call " + call.seq + " where " + issued + " was next");
          issued++;
          const recorded = calls[call.seq];
          const { line, ...same } = call;
          if (recorded === undefined) {
            calls.push(same);
            open.set(call.seq, now + (call.sleep ?? 1 + (hash(call.address + call.arguments + seed) % 50)));
          } else if (JSON.stringify(recorded) !== JSON.stringify(same)) {
            throw new Error("call " + call.seq + " was " + JSON.stringify(recorded) + ", is " + JSON.stringify(same));
          }
        }
        if (first && issued < calls.length) throw new Error("only " + issued + " of " + calls.length + " calls were made again");
        first = false;
        for (const seq of turn.cleared) { cleared.add(seq); open.delete(seq); }
        heard.logs.push(...turn.logs); heard.emitted.push(...turn.emitted);
        if (turn.finish) finish = turn.finish;
        return answer;
      },
      end(answer) { answer(""); try { entrypoint[Symbol.dispose]?.(); } catch {} },
    };
  }

  let sandbox = start();
  for (;;) {
    const answer = await sandbox.turn();
    if (open.size === 0) {
      sandbox.end(answer);
      return { calls, cleared: [...cleared].sort((a, b) => a - b), settled, ...heard, finish: finish ?? "never", attempts };
    }
    // Sometimes several results come together: one of them may clear a timer that has fired already.
    const count = 1 + (hash(seed + ":" + batch++) % 3);
    const order = [...open].sort(([a, x], [b, y]) => x - y || a - b).slice(0, count);
    const answers = [];
    for (const [seq, at] of order) {
      open.delete(seq);
      if (at > now) now = at;
      const call = calls[seq];
      const value = call.sleep !== undefined ? "null" : hash(seq + call.arguments) % 7 === 0 ? '{"ok":false,"error":{"code":"no"}}' : JSON.stringify({ ok: true, data: hash(call.arguments + seq) % 1000 });
      answers.push([seq, now, value]);
    }
    settled.push(...answers);
    if (lose) {
      sandbox.end(answer);
      finish = undefined;
      sandbox = start();
    } else {
      answer(JSON.stringify(answers));
    }
  }
}

export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === "/health") return Response.json({});
    const { program, seed } = await request.json();
    try {
      const straight = await execute(env, program, seed, false);
      return Response.json({ straight, lossy: await execute(env, program, seed, true) });
    } catch (error) {
      return Response.json({ error: String(error?.stack ?? error) });
    }
  },
};
export class SessionDurableObject { }
export class OrganizationDurableObject { }
`;

/** A random program as the compiler would leave it: a module whose default export takes the fuel counter. */
function randomProgram(random) {
  const below = (n) => Math.floor(random() * n);
  const pick = (list) => list[below(list.length)];
  let names = 0;
  const call = () => `tools.sim.t${below(4)}({ n: ${below(9)} })`;
  const value = () =>
    pick([call, call, () => `sleep(${below(60)})`, () => `after(${below(60)}, () => ${below(9)})`, () => `(async () => { ${block(1)} return ${below(9)}; })()`])();
  const list = () => Array.from({ length: 1 + below(3) }, value).join(", ");
  const statement = (depth) => {
    const name = `v${names++}`;
    const choices = [
      () => `const ${name} = await ${value()}; log(${name});`,
      () => `log("all", await Promise.all([${list()}]));`,
      () => `log("race", await Promise.race([${list()}]));`,
      () => `log("settled", await Promise.allSettled([${list()}, Promise.reject(new Error("r${below(9)}"))]));`,
      () => `try { log("any", await Promise.any([${value()}.then(must), ${value()}.then(must)])); } catch (e) { log("none", e.constructor.name); }`,
      () => `try { must(await ${call()}); } catch (e) { log("caught", e.message); } finally { log("finally"); }`,
      () => `const ${name} = setTimeout(() => { log("fired ${name}"); ${below(2) ? `${call()}.then((r) => log("late", r));` : ""} }, ${below(80)}); ${below(2) ? `setTimeout(() => clearTimeout(${name}), ${below(80)});` : ""}`,
      () => `let ${name} = 0; const i${name} = setInterval(async () => { log("tick", ++${name}); if (${name} >= ${1 + below(3)}) clearInterval(i${name}); ${below(2) ? `await ${call()};` : ""} }, ${5 + below(30)});`,
      () => `log(Math.random(), Date.now(), crypto.randomUUID(), performance.now(), new Date().toISOString());`,
      () => `${call()}.then((r) => log("not awaited", r));`,
      () => `queueMicrotask(() => log("micro ${name}"));`,
      () => `Promise.reject(new Error("nobody ${name}"));`,
      () => `emit({ ${name}: ${below(9)} });`,
      () => `for await (const x of numbers(${1 + below(3)})) { log("item", x); ${depth > 0 && below(2) ? block(depth - 1) : ""} }`,
      () => `log("from", await Array.fromAsync(numbers(2)));`,
      () => `for (let i = 0; i < ${1 + below(3)}; i++) { ${depth > 0 ? block(depth - 1) : `log(await ${call()});`} }`,
      () => `if ((await ${call()}).ok) { ${depth > 0 ? block(depth - 1) : "log('then');"} } else { log("else"); }`,
    ];
    return pick(choices)();
  };
  const block = (depth) => Array.from({ length: 1 + below(3) }, () => statement(depth)).join("\n");
  const body = Array.from({ length: 2 + below(5) }, () => statement(2)).join("\n");
  return `export default ($fuel) => async () => {
const log = (...parts) => console.log(...parts, typeof parts[0] === "symbol" ? 0 : "");
const must = (r) => { if (r?.ok === false) throw new Error(r.error.code); return r; };
const after = (ms, f) => new Promise((done) => setTimeout(() => done(f()), ms));
async function* numbers(n) { for (let i = 0; i < n; i++) { yield (await tools.sim.t0({ i })).data; if (i % 2) await sleep(7); } }
${body}
${random() < 0.1 ? 'throw new Error("the end");' : "return [Math.random(), Date.now()];"}
};`;
}

let gateway;
before(async () => {
  gateway = await startGateway({ wrapper: HOST });
});
after(() => gateway.stop());

const ask = async (program, seed) => (await gateway.fetch("/run", { method: "POST", body: JSON.stringify({ program, seed }) })).json();

test(`${PROGRAMS} random programs do the same when the sandbox is lost after every answer (REPLAY_SEED=${SEED})`, { timeout: PROGRAMS * 5_000 + 60_000 }, async () => {
  let replays = 0, calls = 0, cleared = 0, failures = 0;
  for (let i = 0; i < PROGRAMS; i++) {
    const random = seeded(SEED + i);
    const program = randomProgram(random);
    const seed = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16)).join("");
    const what = `REPLAY_SEED=${SEED + i} REPLAYS=1\n${program}\n`;
    const { straight, lossy, error } = await ask(program, seed);
    assert.equal(error, undefined, what);
    const { attempts, ...once } = straight;
    const { attempts: many, ...again } = lossy;
    assert.deepEqual(again, once, what);
    assert.equal(attempts, 1);
    replays += many - 1;
    calls += once.calls.length;
    cleared += once.cleared.length;
    failures += once.finish.error ? 1 : 0;
  }
  if (PROGRAMS >= 50) {
    for (const [name, count] of Object.entries({ replays, calls, cleared, failures })) assert.ok(count > 0, `${name}: ${count}`);
  }
});

test("a program sees nothing that could differ from one run to the next", async () => {
  const program = `export default ($fuel) => async () => {
    const seen = [];
    for (let o = globalThis; o; o = Object.getPrototypeOf(o)) for (const n of Reflect.ownKeys(o)) seen.push(String(n));
    const dateTemporal = typeof Date.prototype.toTemporalInstant;
    const time = [new Date().getTime(), Date(), new Intl.DateTimeFormat("en").format(), new Intl.DateTimeFormat("en").formatToParts().length, performance.now(), new Intl.DateTimeFormat().resolvedOptions().timeZone];
    await tools.sim.t0({});
    const stack = new Error("x").stack;
    return { seen: seen.sort(), dateTemporal, time, stack, random: [Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(4))]] };
  };`;
  const { straight, lossy, error } = await ask(program, "0123456789abcdef0123456789abcdef");
  assert.equal(error, undefined);
  assert.deepEqual(lossy.finish, straight.finish);
  const { seen, dateTemporal } = JSON.parse(straight.finish.result);
  assert.equal(dateTemporal, "undefined");
  for (const name of ["WeakRef", "FinalizationRegistry", "Atomics", "SharedArrayBuffer", "WebAssembly", "Temporal", "ReadableStream", "MessageChannel", "AbortSignal", "caches", "navigator", "scheduler"]) assert.ok(!seen.includes(name), name);
});
