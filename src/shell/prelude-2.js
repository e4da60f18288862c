// What a program sees, version 2. Runs inside the sandbox, in front of the program.
//
// It makes the program deterministic (clock, randomness and the order of results come from the
// journal) and talks to the host in turns: "these calls were made" out, "these results, in this
// order" in. It is not a security boundary: the host believes nothing of what comes out of here.
//
// A release keeps every older version for one approval window: an execution is replayed with the
// version that it started with.
import { WorkerEntrypoint } from "cloudflare:workers";
import program from "./program.js";

// The program may change every prototype, so what is used after it started is captured here.
const { stringify, parse } = JSON;
const {
  Array: NativeArray, BigInt: NativeBigInt, Date: NativeDate, Error: NativeError, Function: NativeFunction,
  Object: NativeObject, Promise: NativePromise, Proxy: NativeProxy, Reflect: NativeReflect,
  RegExp: NativeRegExp, String: NativeString, TypeError: NativeTypeError, Math: NativeMath, Intl: NativeIntl,
  RangeError: NativeRangeError,
} = globalThis;
const { apply, construct, ownKeys } = NativeReflect;
const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf } = NativeObject;
const uncurry = (method) => (self, ...rest) => apply(method, self, rest);
const then = uncurry(NativePromise.prototype.then);
const execute = uncurry(NativeRegExp.prototype.exec);
const slice = uncurry(NativeString.prototype.slice);
const nativeSetTimeout = globalThis.setTimeout;
const listen = globalThis.addEventListener;
const macrotask = () => new NativePromise((resolve) => { nativeSetTimeout(resolve, 0); });
const isArray = NativeArray.isArray;
const floor = NativeMath.floor;

const LOG_LIMIT = 64 * 1024;
const EMIT_LIMIT = 4 * 1024 * 1024;
const RESULT_LIMIT = 16 * 1024 * 1024;
const ARGUMENTS_LIMIT = 1024 * 1024;
// The host ends a program that makes more calls; texts of further ones would only fill the memory.
const CALLS_LIMIT = 1_001;
// Characters of all calls of one turn. A replay makes all calls of a journal in one turn, and a journal is smaller.
const TURN_LIMIT = 40 * 1024 * 1024;
// Of what built-in functions make in one go: nothing counts them.
const TEXT_LIMIT = 64 * 1024 * 1024;
const LIST_LIMIT = 10_000_000;
// After the main function has ended, timers are waited for that are due within so many milliseconds.
const LINGER = 2_000;
const WARNINGS_LIMIT = 20;
// Loop rounds and function entries between two results: about a second where each of them awaits or allocates, a small
// part of one where they do not.
const FUEL = 5_000_000;

let now = 0;
let startedAt = 0;
let longestTimer = 0;
let issued = 0;
let calls = "";
let cleared = "";
const open = create(null);
let finish = null;
let endedAt = -1;
let flooded = false;
let fuel = FUEL;
let exhausted = false;

// ---- clock and randomness -----------------------------------------------------------------

function installClock() {
  function Date(...parts) {
    if (new.target === undefined) return dateText(new NativeDate(now));
    return construct(NativeDate, parts.length === 0 ? [now] : parts, new.target);
  }
  const dateText = uncurry(NativeDate.prototype.toString);
  defineProperty(Date, "length", { value: 7 });
  defineProperty(Date, "prototype", { value: NativeDate.prototype, writable: false });
  defineProperty(Date, "now", { value: () => now, writable: true, configurable: true });
  defineProperty(Date, "parse", { value: NativeDate.parse, writable: true, configurable: true });
  defineProperty(Date, "UTC", { value: NativeDate.UTC, writable: true, configurable: true });
  defineProperty(NativeDate.prototype, "constructor", { value: Date, writable: true, configurable: true });
  give("Date", Date);
  give("performance", freeze({ now: () => now - startedAt, timeOrigin: startedAt }));

  // `format()` without a date means "now".
  const formats = NativeIntl.DateTimeFormat.prototype;
  const format = getOwnPropertyDescriptor(formats, "format").get;
  defineProperty(formats, "format", {
    configurable: true,
    get() {
      const bound = apply(format, this, []);
      return (date) => bound(date === undefined ? now : date);
    },
  });
  const toParts = formats.formatToParts;
  defineProperty(formats, "formatToParts", {
    configurable: true, writable: true,
    value(date) { return apply(toParts, this, [date === undefined ? now : date]); },
  });
}

function installRandomness(seed) {
  // sfc32, seeded with 128 bits.
  const part = (at) => apply(parseHex, undefined, [slice(seed, at, at + 8)]) | 0;
  const parseHex = (text) => { let n = 0; for (let i = 0; i < text.length; i++) n = n * 16 + hexDigit(text, i); return n; };
  let a = part(0), b = part(8), c = part(16), d = part(24);
  const word = () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return t >>> 0;
  };
  for (let i = 0; i < 16; i++) word();
  defineProperty(NativeMath, "random", {
    configurable: true, writable: true,
    value: () => (floor(word() / 64) * 134217728 + floor(word() / 32)) / 9007199254740992,
  });
  const byteLength = getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), "byteLength").get;
  const buffer = getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), "buffer").get;
  const byteOffset = getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), "byteOffset").get;
  const Bytes = Uint8Array;
  const hex = "0123456789abcdef";
  give("crypto", freeze({
    getRandomValues(array) {
      const bytes = new Bytes(apply(buffer, array, []), apply(byteOffset, array, []), apply(byteLength, array, []));
      for (let i = 0; i < bytes.length; i++) bytes[i] = word() & 255;
      return array;
    },
    randomUUID() {
      let text = "";
      for (let i = 0; i < 32; i++) {
        if (i === 8 || i === 12 || i === 16 || i === 20) text += "-";
        const nibble = word() & 15;
        text += hex[i === 12 ? 4 : i === 16 ? (nibble & 3) | 8 : nibble];
      }
      return text;
    },
  }));
}

const charCode = uncurry(NativeString.prototype.charCodeAt);
function hexDigit(text, at) {
  const code = charCode(text, at);
  return code <= 57 ? code - 48 : code - 87;
}

// ---- what the program may use: an allowlist -----------------------------------------------

const ALLOWED = create(null);
for (const name of [
  "AggregateError", "Array", "ArrayBuffer", "AsyncDisposableStack", "BigInt", "BigInt64Array", "BigUint64Array",
  "Boolean", "DataView", "Date", "DisposableStack", "Error", "EvalError", "Float16Array", "Float32Array",
  "Float64Array", "Function", "Infinity", "Int16Array", "Int32Array", "Int8Array", "Intl", "Iterator", "JSON",
  "Map", "Math", "NaN", "Number", "Object", "Promise", "Proxy", "RangeError", "ReferenceError", "Reflect",
  "RegExp", "Set", "String", "SuppressedError", "Symbol", "SyntaxError", "TypeError", "URIError", "Uint16Array",
  "Uint32Array", "Uint8Array", "Uint8ClampedArray", "WeakMap", "WeakSet", "decodeURI", "decodeURIComponent",
  "encodeURI", "encodeURIComponent", "escape", "globalThis", "isFinite", "isNaN", "parseFloat", "parseInt",
  "undefined", "unescape",
  "URL", "URLSearchParams", "TextEncoder", "TextDecoder", "atob", "btoa", "structuredClone", "queueMicrotask",
]) ALLOWED[name] = true;

function give(name, value) {
  defineProperty(globalThis, name, { value, writable: false, configurable: false, enumerable: false });
}

function removeEverythingElse() {
  for (let holder = globalThis; holder && holder !== NativeObject.prototype; holder = getPrototypeOf(holder)) {
    for (const name of ownKeys(holder)) {
      if (typeof name !== "string" || ALLOWED[name] || name === "constructor") continue;
      try { delete holder[name]; } catch { /* checked below */ }
    }
  }
  // What cannot be deleted is hidden. `in` is not enough: an accessor on a prototype still answers.
  for (let holder = getPrototypeOf(globalThis); holder && holder !== NativeObject.prototype; holder = getPrototypeOf(holder)) {
    for (const name of ownKeys(holder)) {
      if (typeof name !== "string" || ALLOWED[name] || name === "constructor") continue;
      if (getOwnPropertyDescriptor(globalThis, name) === undefined) give(name, undefined);
    }
  }
  for (const name of ["setImmediate", "fetch"]) {
    const advice = name === "fetch"
      ? "The program has no network. Call a tool instead; tools.search({query}) finds one."
      : "Use setTimeout, or await sleep(milliseconds).";
    give(name, () => { throw new NativeError(`${name} is not available. ${advice}`); });
  }
  defineProperty(NativeError, "prepareStackTrace", { value: undefined, writable: false, configurable: false });
  defineProperty(NativeError, "stackTraceLimit", { value: 30, writable: false, configurable: false });
  // A way to the time that is not the journal's.
  delete NativeDate.prototype.toTemporalInstant;
  freeze(NativePromise);
  freeze(NativePromise.prototype);
}

// Fuel counts what the program does, not what a built-in function does for it. The cheap ways to ask for too much are
// closed here; regular expressions, BigInt and sorting are left to the platform's limits of time and memory.
function installBounds() {
  const wrap = (holder, name, check) => {
    const native = holder[name];
    const method = { [name](...parts) { check(this, parts); return apply(native, this, parts); } }[name];
    defineProperty(holder, name, { value: method, writable: true, configurable: true, enumerable: false });
  };
  const tooLong = (length, limit) => {
    if (length > limit) throw new NativeRangeError(`That is too large: ${limit} are the limit here.`);
  };
  const texts = NativeString.prototype;
  wrap(texts, "repeat", (self, parts) => tooLong(NativeString(self).length * parts[0], TEXT_LIMIT));
  wrap(texts, "padStart", (_, parts) => tooLong(+parts[0], TEXT_LIMIT));
  wrap(texts, "padEnd", (_, parts) => tooLong(+parts[0], TEXT_LIMIT));
  for (const name of ["fill", "join", "reverse", "copyWithin", "sort"]) {
    wrap(NativeArray.prototype, name, (self) => tooLong(self?.length, LIST_LIMIT));
  }
  wrap(NativeArray, "from", (_, parts) => tooLong(parts[0]?.length, LIST_LIMIT));
}

// ---- console and emit ---------------------------------------------------------------------

let logs = "";
let logBytes = 0;
let logsCut = false;
let emitted = "";
let warnings = "";
let warningsCount = 0;
let emittedBytes = 0;

function display(value, depth) {
  if (typeof value === "string") return value;
  try {
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "symbol" || typeof value === "function") return NativeString(value);
    if (value instanceof NativeError) return typeof value.stack === "string" ? errorText(value) : NativeString(value);
    const text = stringify(value, (_, inner) => (typeof inner === "bigint" ? `${inner}n` : inner), depth);
    return text === undefined ? NativeString(value) : text;
  } catch {
    try { return NativeString(value); } catch { return "[value that cannot be shown]"; }
  }
}

function write(level, parts) {
  let text = "";
  for (let i = 0; i < parts.length; i++) text += (i === 0 ? "" : " ") + display(parts[i]);
  if (logsCut) return;
  const left = logBytes < LOG_LIMIT ? LOG_LIMIT - logBytes : 0;
  if (text.length > left) {
    text = slice(text, 0, left);
    logsCut = true;
  }
  logBytes += text.length + 16;
  logs += `${logs === "" ? "" : ","}${logLine(level, text)}`;
}

const logLine = (level, text) => `{"level":"${level}","text":${stringify(text)}}`;

// A rejection that nobody handles is told with the logs, at the end: until then somebody may.
const unhandled = create(null);
let unhandledCount = 0;

function watchRejections() {
  listen("unhandledrejection", (event) => {
    if (unhandledCount >= WARNINGS_LIMIT) return;
    unhandled[unhandledCount++] = { promise: event.promise, text: slice(describe(event.reason), 0, 1000) };
  });
  listen("rejectionhandled", (event) => {
    for (let i = 0; i < unhandledCount; i++) if (unhandled[i].promise === event.promise) unhandled[i].text = null;
  });
}

function describe(error) {
  try { return error instanceof NativeError ? errorText(error) : messageOf(error); } catch { return "a value that cannot be shown"; }
}

function warn(level, text) {
  if (warningsCount++ < WARNINGS_LIMIT) warnings += `${warnings === "" ? "" : ","}${logLine(level, text)}`;
}

function installConsole() {
  const console = create(null);
  for (const level of ["log", "info", "warn", "error", "debug"]) console[level] = (...parts) => write(level, parts);
  console.trace = (...parts) => write("debug", parts);
  console.dir = (value) => write("log", [value]);
  console.table = (value) => write("log", [display(value, 1)]);
  console.assert = (condition, ...parts) => { if (!condition) write("error", ["Assertion failed", ...parts]); };
  console.group = console.groupCollapsed = (...parts) => { if (parts.length) write("log", parts); };
  console.groupEnd = console.time = console.timeEnd = console.timeLog = console.count = console.countReset = () => {};
  console.clear = () => {};
  give("console", freeze(console));
}

function emit(value) {
  const text = stringify(value === undefined ? null : value);
  if (text === undefined) throw new NativeTypeError("emit takes a text or a value that can be written as JSON.");
  if (emittedBytes + text.length > EMIT_LIMIT) throw new NativeRangeError(`emit takes ${EMIT_LIMIT} characters in all. Emit less, or return a part and read the rest with another program.`);
  emittedBytes += text.length;
  emitted += `${emitted === "" ? "" : ","}${stringify(text)}`;
}

// ---- tools --------------------------------------------------------------------------------

const PROGRAM_LINE = /program\.js:(\d+):/;
const lineOf = (stack) => {
  if (typeof stack !== "string") return null;
  const match = execute(PROGRAM_LINE, stack);
  return match === null ? null : +match[1];
};

function call(address, input) {
  const line = lineOf(new NativeError().stack);
  let text;
  let fault = null;
  try {
    text = stringify(input === undefined ? {} : input);
    if (text === undefined) fault = "The arguments of a call have to be an object.";
    else if (text.length > ARGUMENTS_LIMIT) fault = `The arguments are ${text.length} characters long; ${ARGUMENTS_LIMIT} are the limit. Send less in one call.`;
  } catch (error) {
    fault = `The arguments cannot be written as JSON: ${messageOf(error)}`;
  }
  // The number is taken last: a toJSON of the program's may have made a call of its own. Texts only: JSON.stringify asks
  // objects for their toJSON, which is the program's.
  const seq = issued++;
  const rest = fault === null ? `"arguments":${stringify(text)}` : `"fault":${stringify(fault)}`;
  record(seq, `"address":${stringify(address)},"line":${line},${rest}`);
  return new NativePromise((resolve) => { open[seq] = (text) => resolve(parse(text)); });
}

function record(seq, fields) {
  if (seq >= CALLS_LIMIT) {
    fuel = 0;
    throw new NativeRangeError("The program makes too many calls.");
  }
  if (calls.length + fields.length > TURN_LIMIT) {
    flooded = true;
    return;
  }
  calls += `${calls === "" ? "" : ","}{"seq":${seq},${fields}}`;
}

// ---- timers: calls that the host answers when the time has come ---------------------------------

// Timers that run: number of the call → when it is due on the program's clock, Infinity for an interval.
const due = create(null);

// Starts one; gives the number of its call, or -1 when the program has ended and nobody would wait for it.
function startTimer(length, repeats, line, fire) {
  if (endedAt >= 0 && (repeats || now + length > endedAt + LINGER)) return -1;
  const seq = issued++;
  record(seq, `"sleep":${length},"line":${line}`);
  due[seq] = repeats ? Infinity : now + length;
  open[seq] = () => {
    delete due[seq];
    fire();
  };
  return seq;
}

function stopTimer(seq) {
  delete due[seq];
  delete open[seq];
  cleared += `${cleared === "" ? "" : ","}${seq}`;
}

function installTimers() {
  const lengthOf = (length) => {
    const number = +length;
    if (number > longestTimer) throw new NativeRangeError(`A timer may be at most ${longestTimer} ms long. Let the program end, and run another one later.`);
    return number > 0 ? floor(number) : 0;
  };
  const here = () => lineOf(new NativeError().stack);
  // What the program calls a timer → the call that it waits for at present.
  const timers = create(null);
  let ids = 0;
  const guarded = (callback, parts) => {
    try {
      apply(callback, undefined, parts);
    } catch (error) {
      write("error", [`Uncaught in a timer: ${describe(error)}`]);
    }
  };
  const start = (name, repeats) => (callback, length, ...parts) => {
    if (typeof callback !== "function") throw new NativeTypeError(`${name} takes a function.`);
    const ms = lengthOf(length);
    const line = here();
    const id = ++ids;
    const next = () => {
      timers[id] = startTimer(ms, repeats, line, () => {
        if (!repeats) delete timers[id];
        guarded(callback, parts);
        if (repeats && timers[id] !== undefined) next();
      });
    };
    next();
    return id;
  };
  const stop = (id) => {
    if (typeof id !== "number" || timers[id] === undefined) return;
    const seq = timers[id];
    delete timers[id];
    if (due[seq] !== undefined) stopTimer(seq);
  };
  give("setTimeout", start("setTimeout", false));
  give("setInterval", start("setInterval", true));
  give("clearTimeout", (id) => stop(id));
  give("clearInterval", (id) => stop(id));
  give("sleep", (length) => {
    const ms = lengthOf(length);
    const line = here();
    return new NativePromise((resolve) => { startTimer(ms, false, line, resolve); });
  });
}

// The main function ended. Timers that nobody waits for any more do not hold the program.
function endTimers() {
  if (endedAt >= 0) return;
  endedAt = now;
  let count = 0;
  for (let seq = 0; seq < issued; seq++) {
    if (due[seq] === undefined || due[seq] <= endedAt + LINGER) continue;
    stopTimer(seq);
    count++;
  }
  if (count > 0) warn("debug", `${count === 1 ? "A timer was" : `${count} timers were`} still running when the program ended, and was not waited for.`);
}

function toolNode(path) {
  return new NativeProxy(function tool() {}, {
    get(_, key) {
      if (typeof key !== "string" || key === "then") return undefined;
      if (key === "toString" || key === "valueOf" || key === "toJSON") return () => `tools.${path}`;
      return toolNode(path === "" ? key : `${path}.${key}`);
    },
    has: () => true,
    set() { throw new NativeTypeError("tools cannot be changed."); },
    defineProperty() { throw new NativeTypeError("tools cannot be changed."); },
    deleteProperty() { throw new NativeTypeError("tools cannot be changed."); },
    setPrototypeOf() { throw new NativeTypeError("tools cannot be changed."); },
    preventExtensions: () => false,
    apply: (_, __, parts) => {
      if (path === "") throw new NativeTypeError("Call a tool: tools.<source>.<tool>(arguments).");
      return call(path, parts[0]);
    },
    construct() { throw new NativeTypeError("Tools are called without new."); },
  });
}

// ---- errors -------------------------------------------------------------------------------

function messageOf(error) {
  try {
    if (error instanceof NativeError) {
      const { name, message } = error;
      return `${NativeString(name)}: ${NativeString(message)}`;
    }
    if (typeof error === "string") return error;
    if (error === null || error === undefined) return `${error} was thrown`;
    const text = stringify(error);
    return text === undefined ? NativeString(error) : text;
  } catch {
    return "a value was thrown that cannot be shown";
  }
}

function errorText(error) {
  const line = lineOf(error.stack);
  return line === null ? messageOf(error) : `${messageOf(error)} (at compiled line ${line})`;
}

function failure(code, error) {
  let line = null;
  try { line = error instanceof NativeError ? lineOf(error.stack) : null; } catch { /* a hostile getter */ }
  return { error: { code, message: slice(messageOf(error), 0, 4000), line } };
}

function failed(error) {
  finish = failure("exception", error);
  endTimers();
}

function finished(value) {
  endTimers();
  try {
    const text = stringify(value);
    if (text !== undefined && text.length > RESULT_LIMIT) {
      finish = { error: { code: "result_too_large", message: `The program returned ${text.length} characters; ${RESULT_LIMIT} are the limit. Return less: a summary, or a part.`, line: null } };
    } else {
      finish = text === undefined ? {} : { result: text };
    }
  } catch (error) {
    finish = failure("result_not_json", error);
    finish.error.message = `What the program returned cannot be written as JSON: ${finish.error.message}`;
  }
}

// ---- turns --------------------------------------------------------------------------------

function burn() {
  if (--fuel < 0) {
    exhausted = true;
    throw new NativeRangeError("The program ran too long without awaiting a tool (endless loop?).");
  }
}

function finishText() {
  const { result, error } = finish;
  let told = warnings;
  for (let i = 0; i < unhandledCount; i++) {
    if (unhandled[i].text === null) continue;
    told += `${told === "" ? "" : ","}${logLine("warn", `A promise was rejected and nobody handled it: ${unhandled[i].text}`)}`;
  }
  const rest = `"warnings":[${told}]`;
  if (error === undefined) return result === undefined ? `{${rest}}` : `{"result":${stringify(result)},${rest}}`;
  return `{"error":{"code":"${error.code}","message":${stringify(error.message)},"line":${error.line}},${rest}}`;
}

function turn() {
  if (exhausted || flooded) endTimers();
  if (flooded) {
    finish = { error: { code: "arguments_too_large", message: `The calls that the program made at once have more than ${TURN_LIMIT} characters of arguments. Make fewer calls at a time, or send less.`, line: null } };
  }
  if (exhausted) {
    finish = { error: { code: "out_of_fuel", message: `The program went through ${FUEL} loop rounds and function calls without a result in between, and was stopped. It has an endless loop, or the work has to be split.`, line: finish?.error?.line ?? null } };
  }
  const end = finish === null ? "" : `,"finish":${finishText()}`;
  const text = `{"calls":[${calls}],"cleared":[${cleared}],"logs":[${logs}],"logsCut":${logsCut},"emitted":[${emitted}]${end}}`;
  calls = cleared = logs = emitted = "";
  return text;
}

// A message over the RPC is limited, so long texts travel in pieces. The first character of a piece says whether
// another one follows.
const PIECE = 4 * 1024 * 1024;

async function receive(host, piece) {
  let text = slice(piece, 1);
  while (piece[0] === "+") {
    piece = await host.more();
    text += slice(piece, 1);
  }
  return parse(text);
}

async function say(host, text) {
  while (text.length > PIECE) {
    await host.part(slice(text, 0, PIECE));
    text = slice(text, PIECE);
  }
  return host.turn(text);
}

async function deliver(settled) {
  for (let i = 0; i < settled.length; i++) {
    const seq = settled[i][0], at = settled[i][1], text = settled[i][2];
    // Its call was not made: the host sees that calls are missing and ends the program.
    if (seq >= issued) return;
    const settle = open[seq];
    // A timer that was cleared before the program heard that it was due.
    if (settle === undefined) continue;
    delete open[seq];
    if (at > now) now = at;
    fuel = FUEL;
    settle(text);
    // All microtasks run before the next result, in the first run as in a replay.
    await macrotask();
  }
}

let started = false;

export default class extends WorkerEntrypoint {
  async run(host, text) {
    if (started) throw new NativeError("This sandbox ran already.");
    started = true;
    const boot = await receive(host, text);
    now = startedAt = boot.startedAt;
    longestTimer = boot.longestTimer;
    watchRejections();
    removeEverythingElse();
    installBounds();
    installTimers();
    installClock();
    installRandomness(boot.seed);
    installConsole();
    give("emit", emit);
    give("tools", toolNode(""));
    then((async () => (0, program)(burn)())(), finished, failed);
    await macrotask();
    let settled = boot.settled;
    for (;;) {
      await deliver(settled);
      const answer = await say(host, turn());
      if (answer === "") return;
      settled = await receive(host, answer);
    }
  }
}
