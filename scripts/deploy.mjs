// `npm run deploy [-- wrangler options]`: checks the settings, builds, makes and stores the secret key where there is none, and
// uploads. `-- --dry-run` does all that needs no account.

import { randomBytes } from "node:crypto";

import { missingSettings, varsOf } from "./lib/deployment.mjs";
import { ensureNode } from "./lib/node.mjs";
import { Failure, runScript, say, warn } from "./lib/report.mjs";

const SECRET_KEY = "COUNTERSIGN_SECRET_KEY";

await runScript(async () => {
  await ensureNode();
  const { ensureBundle, describeSize } = await import("./lib/bundle.mjs");
  const { askWrangler, readVars, runWrangler } = await import("./lib/wrangler.mjs");
  const options = process.argv.slice(2);
  const dryRun = options.includes("--dry-run");
  // Which Worker it is: the same for every command.
  const where = options.flatMap((option, index) => (["--env", "-e", "--name", "--config", "-c"].includes(options[index - 1]) ? [options[index - 1], option] : []));

  const vars = { ...(await readVars(where)), ...varsOf(options) };
  const before = missingSettings(vars, undefined);
  if (before.length > 0) throw new Failure(before.join("\n"));
  const bundle = await ensureBundle();
  console.log(describeSize(bundle));
  if (!bundle.unwinds) {
    throw new Failure('This bundle was built without --panic-unwind: one panic would reset every object in its isolate. Run "rustup toolchain install nightly" and deploy again.');
  }
  if (dryRun) {
    say(`not looked at: which secrets are stored (${SECRET_KEY} would be made if it is not)`);
    return runWrangler(["deploy", ...options]);
  }

  const listed = await askWrangler(["secret", "list", "--format", "json", ...where]);
  // A Worker that was never deployed has none.
  const secrets = listed.code === 0 ? JSON.parse(listed.output).map(({ name }) => name) : [];
  const missing = missingSettings(vars, secrets);
  if (missing.length > 0) throw new Failure(missing.join("\n"));
  if (!secrets.includes(SECRET_KEY)) {
    // Through standard input: an argument could be read by every program on this machine.
    const { code, output } = await askWrangler(["secret", "put", SECRET_KEY, ...where], randomBytes(32).toString("base64"));
    if (code !== 0) throw new Failure(`${SECRET_KEY} could not be stored:\n${output}`);
    warn(`${SECRET_KEY} was made and stored. Nobody can read it again; stored credentials and sign-ins depend on it.`);
  }
  return runWrangler(["deploy", ...options]);
});
