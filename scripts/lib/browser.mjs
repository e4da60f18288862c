// The browser that the suites of the pages run in: the system's Chromium. No browser is downloaded by npm; where Debian's package
// manager is at hand and may be used, it installs one.

import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";

import { ask, run } from "./command.mjs";
import { Failure, say, warn } from "./report.mjs";

const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
const ELSEWHERE = ["/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"];

/** The path of a browser that is there: `CHROMIUM`, or the first on PATH. */
export function findBrowser() {
  const { CHROMIUM } = process.env;
  if (CHROMIUM) return isProgram(CHROMIUM) ? CHROMIUM : undefined;
  const onPath = (process.env.PATH ?? "").split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [...onPath, ...ELSEWHERE].find(isProgram);
}

/** Whether a browser has to be there: without one CI would check less than it says. */
export const isBrowserRequired = () => Boolean(process.env.CI);

/** Sees to it that a browser is there. Resolves with its path, or with undefined after saying plainly what is left out. */
export async function ensureBrowser() {
  let reason = "npm test installs Debian's package chromium by itself only as root, where apt-get is";
  const found = findBrowser();
  if (found) return found;
  if (process.env.CHROMIUM) {
    reason = `CHROMIUM names ${process.env.CHROMIUM}, which is no program`;
  } else if (process.getuid?.() === 0 && (await ask("apt-get", ["--version"])) !== undefined) {
    try {
      say("installing the package chromium with apt-get, for the suites that run in a browser (once, about 700 MB on disk)");
      const env = { DEBIAN_FRONTEND: "noninteractive" };
      await run("apt-get", ["update", "-q"], { env, what: "apt-get update" });
      await run("apt-get", ["install", "-q", "-y", "--no-install-recommends", "chromium"], { env, what: "apt-get install chromium" });
      const installed = findBrowser();
      if (installed) return installed;
      reason = "apt-get installed the package chromium, but there is no program of that name on PATH";
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      reason = error.message;
    }
  }
  const message = `There is no Chromium: ${reason}. Install Chromium or Chrome, or set CHROMIUM to the path of one.`;
  if (isBrowserRequired()) throw new Failure(message);
  warn(message);
  warn("THE SUITES THAT RUN IN A BROWSER ARE LEFT OUT.");
  return undefined;
}

function isProgram(path) {
  if (!existsSync(path)) return false;
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
