// `npm run source -- <command>`: sources from a shell, over the administration API. Secrets come from environment variables or
// from standard input, never from arguments, which others on the machine can read.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { bold, dim, Failure, runScript } from "./lib/report.mjs";

const USAGE = `npm run source -- <command>

  add <slug> <file or URL>     add or replace a source from an OpenAPI document (JSON or YAML)
      --mcp                    it is the URL of an MCP server
      --graphql                it is the URL of a GraphQL endpoint, which is asked for its schema
      --schema <file>          take the schema from there: the result of an introspection query (JSON)
      --base-url <URL>         use this base instead of the document's servers; it counts as confirmed
      --title <text>
      --bearer-env <NAME>      send the value of that environment variable as a bearer token
      --basic <user> --password-env <NAME>
      --header <name> --value-env <NAME>
      --query <name> --value-env <NAME>
      --auth-stdin             read the auth object (JSON) from standard input
      --no-auth                remove the credential
      --confirm <origin>       the credential may go there; can be repeated
      --trusted                believe what the MCP server says of its own tools
      --idempotent-writes      PUT and DELETE may be sent again after a crash
      --honours-idempotency-key
  confirm <slug> <origin>…     the source's credential may go to these origins
  list | show <slug> | refresh <slug> | remove <slug>

  --gateway <URL>              or COUNTERSIGN_URL; http://localhost:8787 by default
  COUNTERSIGN_TOKEN            the bearer of an administrator; none is fine in development mode`;

await runScript(async () => {
  const { values, positionals } = read(process.argv.slice(2));
  const [command, slug, ...rest] = positionals;
  const api = connect(values.gateway ?? process.env.COUNTERSIGN_URL ?? "http://localhost:8787");
  const path = (tail = "") => `sources/${encodeURIComponent(need(slug, "the slug of a source"))}${tail}`;
  switch (command) {
    case "add":
      return told(await api("PUT", path(), await requestOf(values, need(rest[0], "a file or a URL"))));
    case "refresh":
      return told(await api("POST", path("/refresh")));
    case "confirm":
      if (rest.length === 0) need(undefined, "an origin");
      return shown(await api("POST", path("/confirm"), { origins: rest }));
    case "remove":
      await api("DELETE", path());
      return console.log(`${slug} is removed.`);
    case "show":
      return shown(await api("GET", path()));
    case "list": {
      let cursor;
      do {
        const page = await api("GET", `sources?limit=200${cursor ? `&cursor=${cursor}` : ""}`);
        for (const source of page.items) console.log(`${bold(source.slug.padEnd(24))} ${source.kind.padEnd(8)} ${String(source.tools).padStart(6)} tools  ${source.title}`);
        cursor = page.nextCursor;
      } while (cursor);
      return;
    }
    default:
      console.log(USAGE);
      if (command !== undefined && command !== "help") throw new Failure(`There is no command ${command}.`);
  }
});

function read(args) {
  const text = { type: "string" };
  const flag = { type: "boolean" };
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        "gateway": text, "base-url": text, "schema": text, "title": text, "bearer-env": text, "basic": text, "password-env": text, "header": text, "query": text, "value-env": text,
        "mcp": flag, "graphql": flag, "auth-stdin": flag, "no-auth": flag, "trusted": flag, "idempotent-writes": flag, "honours-idempotency-key": flag,
        "confirm": { type: "string", multiple: true },
      },
    });
  } catch (error) {
    throw new Failure(`${error.message}\n\n${USAGE}`);
  }
}

function need(value, what) {
  if (value === undefined) throw new Failure(`${what} is missing.\n\n${USAGE}`);
  return value;
}

function connect(gateway) {
  return async (method, path, body) => {
    const token = process.env.COUNTERSIGN_TOKEN;
    const headers = { ...(token ? { authorization: `Bearer ${token}` } : {}), ...(body === undefined ? {} : { "content-type": "application/json" }) };
    let response;
    try {
      response = await fetch(new URL(`/api/${path}`, gateway), { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    } catch (error) {
      throw new Failure(`No gateway answers at ${gateway}: ${error.cause?.message ?? error.message}`);
    }
    const text = await response.text();
    let answer;
    try {
      answer = JSON.parse(text);
    } catch {
      throw new Failure(`${gateway} answered ${response.status}, and that is not the administration API: ${text.slice(0, 200)}`);
    }
    if (!response.ok) throw new Failure(`${answer.error?.message ?? text.slice(0, 500)} (${response.status})`);
    return answer;
  };
}

async function requestOf(values, place) {
  const isUrl = /^https?:\/\//.test(place);
  const kind = kindOf(values);
  if (kind !== "openapi" && !isUrl) throw new Failure(`${kind === "mcp" ? "An MCP server" : "A GraphQL API"} is added by its URL.`);
  const auth = await authOf(values);
  return {
    kind,
    ...(kind !== "openapi" ? { url: place } : isUrl ? { specUrl: place } : { spec: readDocument(place) }),
    ...(values.schema ? { spec: readDocument(values.schema) } : {}),
    ...(values["base-url"] ? { baseUrl: values["base-url"] } : {}),
    ...(values.title ? { title: values.title } : {}),
    ...(auth === undefined ? {} : { auth }),
    ...(values.confirm ? { confirmedOrigins: values.confirm } : {}),
    trusted: values.trusted ?? false,
    idempotentWrites: values["idempotent-writes"] ?? false,
    honoursIdempotencyKey: values["honours-idempotency-key"] ?? false,
  };
}

function kindOf(values) {
  if (values.mcp && values.graphql) throw new Failure("--mcp and --graphql exclude each other.");
  if (values.schema && !values.graphql) throw new Failure("--schema goes with --graphql.");
  return values.mcp ? "mcp" : values.graphql ? "graphql" : "openapi";
}

function readDocument(file) {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new Failure(`${file} cannot be read: ${error.message}`);
  }
}

async function authOf(values) {
  const secret = (option) => {
    const name = need(values[option], `--${option}`);
    return need(process.env[name] || undefined, `The environment variable ${name}`);
  };
  const ways = {
    "bearer-env": () => ({ kind: "bearer", token: secret("bearer-env") }),
    "basic": () => ({ kind: "basic", username: values.basic, password: secret("password-env") }),
    "header": () => ({ kind: "header", name: values.header, value: secret("value-env") }),
    "query": () => ({ kind: "query", name: values.query, value: secret("value-env") }),
    "auth-stdin": async () => {
      const chunks = [];
      for await (const chunk of process.stdin) chunks.push(chunk);
      try {
        return JSON.parse(Buffer.concat(chunks).toString("utf8"));
      } catch {
        throw new Failure("What came on standard input is not JSON.");
      }
    },
    "no-auth": () => null,
  };
  const chosen = Object.keys(ways).filter((way) => values[way] !== undefined);
  if (chosen.length > 1) throw new Failure(`--${chosen.join(" and --")} exclude each other.`);
  return chosen.length === 0 ? undefined : ways[chosen[0]]();
}

function told({ slug, tools, unconfirmedOrigins = [], report }) {
  console.log(`${bold(slug)} has ${tools} tools.`);
  const counts = Object.entries(report.counts).filter(([, count]) => count > 0);
  if (counts.length > 0) console.log(dim(counts.map(([action, count]) => `${count} ${action}`).join(", ")));
  for (const { action, what, why } of report.entries.slice(0, 20)) console.log(dim(`  ${action}${what ? ` ${what}` : ""}: ${why}`));
  const more = report.entries.length - 20 + report.omitted;
  if (more > 0) console.log(dim(`  and ${more} more; npm run source -- show ${slug}`));
  if (unconfirmedOrigins.length > 0) {
    console.log(`Its credential does not go to ${unconfirmedOrigins.join(", ")} until you confirm that:\n  npm run source -- confirm ${slug} ${unconfirmedOrigins.join(" ")}`);
  }
}

function shown(source) {
  console.log(JSON.stringify(source, null, 2));
}
