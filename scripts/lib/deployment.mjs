// What a deployment needs that can be told before it is uploaded. The Worker itself checks every setting when it starts.

const MODES = ["access", "oidc", "oauth", "keys"];

/**
 * What is missing, as sentences for the person at the terminal. `vars` are the variables that go along, `secrets` the names of
 * those that are stored already, or undefined where that is not known.
 */
export function missingSettings(vars, secrets) {
  const modes = (vars.AUTH_MODE ?? "").split(",").map((mode) => mode.trim());
  if (!vars.AUTH_MODE) {
    return [`AUTH_MODE is not set: say under [vars] in wrangler.toml who may call (${MODES.join(", ")}). The README says what each needs.`];
  }
  if (modes.includes("dev")) return ["AUTH_MODE=dev lets anybody in under any name. It is for a local server only and is never deployed."];
  const unknown = modes.filter((mode) => !MODES.includes(mode));
  if (unknown.length > 0) return [`AUTH_MODE has "${unknown.join(", ")}"; there are ${MODES.join(", ")}.`];

  const missing = [];
  const needed = {
    // Without an audience of its own nobody gets to /mcp by Access; with another mode nobody has to.
    access: ["ACCESS_TEAM_DOMAIN", "ACCESS_AUDIENCE", ...(modes.length > 1 ? [] : ["ACCESS_MCP_AUDIENCE"]), "ORGANIZATION_NAME"],
    oidc: ["OIDC_ISSUER", "OIDC_AUDIENCE", ...(vars.OIDC_ORGANIZATION_CLAIM ? [] : ["ORGANIZATION_NAME"])],
    oauth: [],
    keys: [],
  };
  for (const name of new Set(modes.flatMap((mode) => needed[mode]))) {
    if (!vars[name]) missing.push(`${name} is not set under [vars] in wrangler.toml; AUTH_MODE=${vars.AUTH_MODE} needs it.`);
  }
  const signsIn = modes.includes("access") || (modes.includes("oidc") && vars.OIDC_CLIENT_ID);
  const secret = (name, why, advice) => {
    if (secrets && !secrets.includes(name)) missing.push(`The secret ${name} is not stored, and ${why}: ${advice}`);
  };
  const put = (name) => `npx wrangler secret put ${name}`;
  if (vars.OIDC_CLIENT_ID) secret("OIDC_CLIENT_SECRET", "OIDC_CLIENT_ID is set", put("OIDC_CLIENT_SECRET"));
  if (modes.includes("oauth") && !signsIn) {
    secret("OWNER_PASSPHRASE_HASH", "nobody could sign in without it", `npm run passphrase, then ${put("OWNER_PASSPHRASE_HASH")}`);
    if (!vars.ORGANIZATION_NAME) missing.push("ORGANIZATION_NAME is not set under [vars] in wrangler.toml: say what the owner's organization is called.");
  }
  return missing;
}

/** The variables in `--var NAME:value` options, which win over those of the file. */
export function varsOf(options) {
  const pairs = options.flatMap((option, index) => {
    if (option.startsWith("--var=")) return [option.slice("--var=".length)];
    return option === "--var" ? [options[index + 1] ?? ""] : [];
  });
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf(":")), pair.slice(pair.indexOf(":") + 1)]));
}
