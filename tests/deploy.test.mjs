// What `npm run deploy` refuses before it uploads anything.

import assert from "node:assert/strict";
import { test } from "node:test";

import { missingSettings, varsOf } from "../scripts/lib/deployment.mjs";

test("what is missing is named before anything is uploaded", () => {
  const oidc = { AUTH_MODE: "oidc", OIDC_ISSUER: "https://id.example", OIDC_AUDIENCE: "a", ORGANIZATION_NAME: "acme" };
  const owner = { AUTH_MODE: "oauth", ORGANIZATION_NAME: "home" };
  for (const [vars, secrets, named] of [
    [{}, undefined, ["AUTH_MODE"]],
    [{ AUTH_MODE: "dev" }, undefined, ["AUTH_MODE=dev"]],
    [{ AUTH_MODE: "keys, dev" }, undefined, ["AUTH_MODE=dev"]],
    [{ AUTH_MODE: "saml" }, undefined, ["saml"]],
    [{ AUTH_MODE: "keys" }, [], []],
    [oidc, [], []],
    [{ ...oidc, OIDC_AUDIENCE: undefined }, [], ["OIDC_AUDIENCE"]],
    [{ ...oidc, ORGANIZATION_NAME: undefined }, [], ["ORGANIZATION_NAME"]],
    [{ ...oidc, ORGANIZATION_NAME: undefined, OIDC_ORGANIZATION_CLAIM: "org" }, [], []],
    [{ ...oidc, OIDC_CLIENT_ID: "c" }, [], ["OIDC_CLIENT_SECRET"]],
    [{ ...oidc, OIDC_CLIENT_ID: "c" }, ["OIDC_CLIENT_SECRET"], []],
    [{ ...oidc, OIDC_CLIENT_ID: "c" }, undefined, []],
    [{ AUTH_MODE: "access" }, [], ["ACCESS_TEAM_DOMAIN", "ACCESS_AUDIENCE", "ACCESS_MCP_AUDIENCE", "ORGANIZATION_NAME"]],
    [owner, [], ["OWNER_PASSPHRASE_HASH"]],
    [{ ...owner, ORGANIZATION_NAME: undefined }, ["OWNER_PASSPHRASE_HASH"], ["ORGANIZATION_NAME"]],
    [owner, ["OWNER_PASSPHRASE_HASH"], []],
  ]) {
    const missing = missingSettings(vars, secrets);
    assert.equal(missing.length, named.length, JSON.stringify({ vars, missing }));
    named.forEach((name, index) => assert.ok(missing[index].includes(name), `${name}: ${missing[index]}`));
  }
});

test("variables on the command line count", () => {
  assert.deepEqual(varsOf(["--dry-run", "--var", "AUTH_MODE:keys", "--var=A:b:c"]), { AUTH_MODE: "keys", A: "b:c" });
});
