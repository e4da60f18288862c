// `npm run search-quality -- <folder of OpenAPI documents> [<questions>]`: imports the documents into the built gateway, each as a
// source named after its file, asks every question of bench/search-questions.json, and counts those for which a right tool is
// among the first five. Says how long searches take beyond a request that does next to nothing.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "./lib/paths.mjs";
import { dim, Failure, heading, runScript, say } from "./lib/report.mjs";
import { devToken, startGateway } from "../tests/harness/index.mjs";

const FIRST = 5;
const at = (values, quantile) => [...values].sort((left, right) => left - right)[Math.min(values.length - 1, Math.floor(values.length * quantile))];
const HEADERS = { authorization: `Bearer ${devToken({ roles: ["admin"] })}`, "content-type": "application/json" };

await runScript(async () => {
  const [folder, file = join(ROOT, "bench", "search-questions.json")] = process.argv.slice(2);
  if (!folder) throw new Failure("which folder has the documents? npm run search-quality -- <folder> [<questions>]");
  const { questions } = JSON.parse(readFileSync(file, "utf8"));
  const gateway = await startGateway();
  try {
    heading("import");
    let tools = 0;
    for (const name of readdirSync(folder).filter((name) => /\.(json|ya?ml)$/.test(name)).sort()) {
      const began = performance.now();
      const body = JSON.stringify({ kind: "openapi", spec: readFileSync(join(folder, name), "utf8") });
      const response = await gateway.fetch(`/api/sources/${name.replace(/\..*/, "")}`, { method: "PUT", headers: HEADERS, body });
      const answer = await response.json();
      say(`${name.padEnd(24)} ${String(answer.tools ?? answer.error?.message ?? response.status).padStart(6)} tools ${String(Math.round(performance.now() - began)).padStart(6)} ms`);
      tools += answer.tools ?? 0;
    }
    heading(`${questions.length} questions to ${tools} tools`);
    const timed = async (path) => {
      const began = performance.now();
      const answer = await (await gateway.fetch(path, { headers: HEADERS })).json();
      return { answer, ms: performance.now() - began };
    };
    const idle = [];
    for (let round = 0; round < 100; round += 1) idle.push((await timed("/api/policies")).ms);
    const times = [];
    let hits = 0;
    for (const { question, tools: right } of questions) {
      const path = `/api/tools?limit=${FIRST}&query=${encodeURIComponent(question)}`;
      // The first time pays for pages that are not in memory yet.
      await timed(path);
      const { answer, ms } = await timed(path);
      times.push(ms);
      const found = answer.items.map(({ address }) => address);
      if (found.some((address) => right.includes(address))) hits += 1;
      else say(`not found: ${question} ${dim(`(${right[0]}; instead ${found.slice(0, 3).join(", ")})`)}`);
    }
    const beyond = (quantile) => `${Math.max(0, at(times, quantile) - at(idle, 0.5)).toFixed(1)} ms`;
    say(`${hits} of ${questions.length} among the first ${FIRST}; a search takes ${beyond(0.5)}, ${beyond(0.95)} at the 95th percentile, ${beyond(1)} at most`);
  } finally {
    await gateway.stop();
  }
});
