// What a program sees, version 1. Runs inside the sandbox, in front of the program.
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
const macrotask = () => new NativePromise((resolve) => { nativeSetTimeout(resolve, 0); });
const isArray = NativeArray.isArray;
const floor = NativeMath.floor;

const LOG_LIMIT = 64 * 1024;
const EMIT_LIMIT = 1024 * 1024;
const RESULT_LIMIT = 8 * 1024 * 1024;
const ARGUMENTS_LIMIT = 4 * 1024 * 1024;
// Loop rounds and function entries between two results: about a second where each of them awaits or allocates, a small
// part of one where they do not.
const FUEL = 5_000_000;

let now = 0;
let startedAt = 0;
let issued = 0;
let calls = "";
const open = create(null);
let finish = null;
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
  for (const name of ["setTimeout", "setInterval", "setImmediate", "fetch"]) {
    const advice = name === "fetch"
      ? "The program has no network. Call a tool instead; tools.search({query}) finds one."
      : "Timers are not available in a program.";
    give(name, () => { throw new NativeError(`${name} is not available. ${advice}`); });
  }
  defineProperty(NativeError, "prepareStackTrace", { value: undefined, writable: false, configurable: false });
  defineProperty(NativeError, "stackTraceLimit", { value: 30, writable: false, configurable: false });
  freeze(NativePromise);
  freeze(NativePromise.prototype);
}

// ---- console and emit ---------------------------------------------------------------------

let logs = "";
let logBytes = 0;
let logsCut = false;
let emitted = "";
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
  logs += `${logs === "" ? "" : ","}{"level":"${level}","text":${stringify(text)}}`;
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
  emittedBytes += text.length;
  if (emittedBytes > EMIT_LIMIT) throw new NativeRangeError(`emit takes ${EMIT_LIMIT} characters in all.`);
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
    else if (text.length > ARGUMENTS_LIMIT) fault = `The arguments are ${text.length} characters long; that is too much.`;
  } catch (error) {
    fault = `The arguments cannot be written as JSON: ${messageOf(error)}`;
  }
  // The number is taken last: a toJSON of the program's may have made a call of its own. Texts only: JSON.stringify asks
  // objects for their toJSON, which is the program's.
  const seq = issued++;
  const rest = fault === null ? `"arguments":${stringify(text)}` : `"fault":${stringify(fault)}`;
  calls += `${calls === "" ? "" : ","}{"seq":${seq},"address":${stringify(address)},"line":${line},${rest}}`;
  return new NativePromise((resolve) => { open[seq] = resolve; });
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

function finished(value) {
  try {
    const text = stringify(value);
    if (text !== undefined && text.length > RESULT_LIMIT) {
      finish = { error: { code: "result_too_large", message: `The program returned ${text.length} characters; ${RESULT_LIMIT} are the limit. Return less.`, line: null } };
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
  if (error === undefined) return result === undefined ? "{}" : `{"result":${stringify(result)}}`;
  return `{"error":{"code":"${error.code}","message":${stringify(error.message)},"line":${error.line}}}`;
}

function turn() {
  if (exhausted) {
    finish = { error: { code: "out_of_fuel", message: `The program went through ${FUEL} loop rounds and function calls without a result in between, and was stopped. It has an endless loop, or the work has to be split.`, line: finish?.error?.line ?? null } };
  }
  const end = finish === null ? "" : `,"finish":${finishText()},"logs":[${logs}],"logsCut":${logsCut},"emitted":[${emitted}]`;
  const text = `{"calls":[${calls}]${end}}`;
  calls = "";
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
    const resolve = open[seq];
    if (resolve === undefined) continue;
    delete open[seq];
    if (at > now) now = at;
    fuel = FUEL;
    resolve(parse(text));
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
    removeEverythingElse();
    installClock();
    installRandomness(boot.seed);
    installConsole();
    give("emit", emit);
    give("tools", toolNode(""));
    then((async () => (0, program)(burn)())(), finished, (error) => { finish = failure("exception", error); });
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
