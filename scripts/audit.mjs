// `npm run audit -- <command>`: the audit log from a shell, and whether it is whole. What an entry's hash is made of stands in
// README.md; nothing here asks the gateway what a hash should be.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

import { dim, Failure, green, red, runScript } from "./lib/report.mjs";

const USAGE = `npm run audit -- <command>

  verify                       compute the chain anew; exit code 1 where an entry was changed, removed or moved
      --file <path>            of an export that was kept (- is standard input), instead of the gateway's
      --head <number>:<hash>   an entry that was noted earlier has to be there, with that hash
  export                       write the whole log to standard output, as lines of JSON

  --url <URL>                  or COUNTERSIGN_URL; http://localhost:8787 by default
  COUNTERSIGN_TOKEN            the bearer of an administrator; none is fine in development mode`;

const ZEROS = "0".repeat(64);

await runScript(async () => {
  const { values, positionals } = read(process.argv.slice(2));
  const url = values.url ?? process.env.COUNTERSIGN_URL ?? "http://localhost:8787";
  switch (positionals[0]) {
    case "export":
      for await (const line of exported(url)) process.stdout.write(`${line}\n`);
      return 0;
    case "verify": {
      const anchor = anchorOf(values.head);
      const found = await verify(values.file === undefined ? exported(url) : linesOf(streamOf(values.file)), anchor);
      if (found.problem) {
        console.error(`${red("not whole:")} ${found.problem}`);
        return 1;
      }
      console.log(`${green("whole:")} ${found.count} ${found.count === 1 ? "entry" : "entries"}${found.count > 0 ? `, ${found.first} to ${found.last.id}` : ""}`);
      if (found.checkpoint.id > 0) console.log(dim(`entries up to ${found.checkpoint.id} were forgotten, as AUDIT_RETENTION_DAYS says`));
      console.log(dim(`to find out later whether the log was written anew, keep --head ${found.last.id}:${found.last.hash}`));
      return 0;
    }
    default:
      console.log(USAGE);
      if (positionals[0] !== undefined && positionals[0] !== "help") throw new Failure(`There is no command ${positionals[0]}.`);
      return 0;
  }
});

function read(args) {
  const text = { type: "string" };
  try {
    return parseArgs({ args, allowPositionals: true, options: { url: text, file: text, head: text } });
  } catch (error) {
    throw new Failure(`${error.message}\n\n${USAGE}`);
  }
}

function anchorOf(text) {
  if (text === undefined) return undefined;
  const [, id, hash] = /^(\d+):([0-9a-f]{64})$/.exec(text) ?? [];
  if (!hash) throw new Failure("--head takes a number, a colon and a hash of 64 digits.");
  return { id: Number(id), hash };
}

/**
 * Goes through an export, line by line, and gives what was found: `{problem}`, which names the first entry that is not right, or
 * `{count, first, last, checkpoint}`.
 */
async function verify(lines, anchor) {
  let checkpoint;
  let last;
  let first;
  let head;
  let count = 0;
  let number = 0;
  // Of an entry that is not where it should be it is only known later whether it is gone or was moved.
  let lost;
  for await (const line of lines) {
    number += 1;
    let entry;
    try {
      entry = JSON.parse(line);
    } catch {
      return lost ? missing(lost) : { problem: `line ${number} is no JSON, after entry ${last?.id ?? 0}` };
    }
    if (number === 1) {
      checkpoint = entry.checkpoint;
      if (typeof checkpoint?.id !== "number" || typeof checkpoint.hash !== "string") return { problem: "line 1 is not the checkpoint that an export begins with" };
      if (checkpoint.id === 0 && checkpoint.hash !== ZEROS) return { problem: "the checkpoint is no entry's, and has a hash" };
      last = checkpoint;
      if (anchor?.id === checkpoint.id && anchor.hash !== checkpoint.hash) return { problem: `entry ${anchor.id} was changed: its hash is not the one that was noted` };
      continue;
    }
    if (lost) {
      if (entry.id === lost.wanted) return { problem: `entry ${lost.found} is out of order: it stands before entry ${lost.wanted}` };
      continue;
    }
    if (head) return { problem: `line ${number} stands behind the end of the log` };
    if (entry.head) {
      head = entry.head;
      continue;
    }
    if (entry.id !== last.id + 1) {
      if (!(entry.id > last.id)) return { problem: `entry ${entry.id} is out of order: it stands after entry ${last.id}` };
      lost = { wanted: last.id + 1, found: entry.id };
      continue;
    }
    // The text that is hashed is the line without its last member.
    const [, body, hash] = /^(\{.*),"hash":"([0-9a-f]{64})"\}$/.exec(line) ?? [];
    if (hash === undefined) return { problem: `entry ${entry.id} was changed: it has no hash at its end` };
    if (createHash("sha256").update(`${body}}`).digest("hex") !== hash) return { problem: `entry ${entry.id} was changed: its text does not have its hash` };
    if (entry.prev !== last.hash) {
      const before = last.id === checkpoint.id ? "the checkpoint is not the entry that it follows" : `entry ${last.id} is not the one that it follows`;
      return { problem: `entry ${last.id === checkpoint.id ? entry.id : last.id} was changed: ${before}` };
    }
    if (anchor?.id === entry.id && anchor.hash !== hash) return { problem: `entry ${anchor.id} was changed: its hash is not the one that was noted` };
    last = { id: entry.id, hash };
    first ??= entry.id;
    count += 1;
  }
  if (lost) return missing(lost);
  if (checkpoint === undefined) return { problem: "there is nothing in it" };
  if (!head) return { problem: `the export broke off after entry ${last.id}: the line that says where the log ends is missing` };
  if (head.id !== last.id) return { problem: `entry ${last.id + 1} is missing: the log ends with entry ${head.id}` };
  if (head.hash !== last.hash) return { problem: `entry ${last.id} was changed: the log ends with another hash` };
  if (anchor && anchor.id > last.id) return { problem: `entry ${last.id + 1} is missing: entry ${anchor.id} was noted earlier` };
  return { count, first, last, checkpoint };
}

function missing({ wanted, found }) {
  return { problem: `entry ${wanted} is missing: entry ${found} stands in its place` };
}

function streamOf(file) {
  return file === "-" ? process.stdin : createReadStream(file);
}

async function* linesOf(stream) {
  try {
    for await (const line of createInterface({ input: stream, crlfDelay: Infinity })) if (line !== "") yield line;
  } catch (error) {
    throw new Failure(`It cannot be read: ${error.message}`);
  }
}

async function* exported(gateway) {
  const token = process.env.COUNTERSIGN_TOKEN;
  let response;
  try {
    response = await fetch(new URL("/api/audit?format=jsonl", gateway), { headers: token ? { authorization: `Bearer ${token}` } : {} });
  } catch (error) {
    throw new Failure(`No gateway answers at ${gateway}: ${error.cause?.message ?? error.message}`);
  }
  if (!response.ok || !response.headers.get("content-type")?.startsWith("application/jsonl")) {
    throw new Failure(`${gateway} answered ${response.status}: ${(await response.text()).slice(0, 500)}`);
  }
  const stream = Readable.fromWeb(response.body);
  // Readline does not hear of it by itself.
  let broken;
  stream.on("error", (error) => (broken = error));
  yield* linesOf(stream);
  if (broken) throw new Failure(`The export broke off: ${broken.message}`);
}
