// `npm run build [-- --features a,b]`: the Worker's bundle in build/ (or build-a-b/), with its size.

import { ensureNode } from "./lib/node.mjs";
import { Failure, runScript } from "./lib/report.mjs";

await runScript(async () => {
  await ensureNode();
  const { ensureBundle, describeSize } = await import("./lib/bundle.mjs");
  const bundle = await ensureBundle({ features: parseFeatures(process.argv.slice(2)) });
  console.log(`${bundle.built ? "" : "up to date: "}${describeSize(bundle)}`);
});

function parseFeatures(args) {
  const features = [];
  for (let i = 0; i < args.length; i += 1) {
    const [option, inline] = args[i].split("=");
    if (option !== "--features") throw new Failure(`Unknown option ${args[i]}. Usage: npm run build [-- --features a,b]`);
    const value = inline ?? args[(i += 1)];
    if (!value) throw new Failure("--features needs a list of names.");
    features.push(...value.split(",").filter(Boolean));
  }
  return features;
}
