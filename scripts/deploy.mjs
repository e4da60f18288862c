// `npm run deploy [-- wrangler options]`: builds and uploads. `-- --dry-run` does all but the upload.

import { ensureNode } from "./lib/node.mjs";
import { Failure, runScript } from "./lib/report.mjs";

await runScript(async () => {
  await ensureNode();
  const { ensureBundle, describeSize } = await import("./lib/bundle.mjs");
  const { runWrangler } = await import("./lib/wrangler.mjs");
  const options = process.argv.slice(2);
  if (options.some((option) => /AUTH_MODE[:=]dev/.test(option))) {
    throw new Failure("AUTH_MODE=dev lets anybody in under any name. It is for a local server only and is never deployed.");
  }
  const bundle = await ensureBundle();
  console.log(describeSize(bundle));
  if (!bundle.unwinds) {
    throw new Failure('This bundle was built without --panic-unwind: one panic would reset every object in its isolate. Run "rustup toolchain install nightly" and deploy again.');
  }
  return runWrangler(["deploy", ...options]);
});
