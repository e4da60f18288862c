// `npm run dev [-- wrangler options]`: the gateway on port 8787 in development mode, rebuilt when src/ changes.

import { ensureNode } from "./lib/node.mjs";
import { runScript } from "./lib/report.mjs";

await runScript(async () => {
  await ensureNode();
  const { ensureBundle, describeSize } = await import("./lib/bundle.mjs");
  const { runWrangler } = await import("./lib/wrangler.mjs");
  console.log(describeSize(await ensureBundle()));
  const options = process.argv.slice(2);
  const port = options.some((option) => /^--port(=|$)/.test(option)) ? [] : ["--port", "8787"];
  // Each sandbox makes workerd forget compiled wasm, and V8 never gives back what it forgot: 2 MB a program (ARCHITECTURE.md).
  process.env.MINIFLARE_WORKERD_V8_FLAGS ??= "--no-flush-liftoff-code";
  // Development mode is switched on here and not in wrangler.toml: nothing that is deployed reads this file.
  return runWrangler(["dev", ...port, "--var", "AUTH_MODE:dev", ...options]);
});
