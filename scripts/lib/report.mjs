// What the scripts say on the terminal, and how they give up.

// A script that runs itself again under another Node hands on when it began.
export const STARTED = "COUNTERSIGN_STARTED";
const started = Number(process.env[STARTED]) || Date.now();
delete process.env[STARTED];
const colour = process.stdout.isTTY && !process.env.NO_COLOR;
const paint = (code) => (text) => (colour ? `\u001b[${code}m${text}\u001b[0m` : String(text));

export const bold = paint("1");
export const dim = paint("2");
export const red = paint("31");
export const green = paint("32");
export const yellow = paint("33");

/** Something is missing or went wrong in a way that the person at the terminal can act on: no stack trace is shown. */
export class Failure extends Error {}

/** Seconds since `since`, for people: `4.2 s`, `3 min 05 s`. */
export function elapsed(since = started) {
  const seconds = (Date.now() - since) / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
}

/** When this command began, in the form that STARTED takes. */
export const startedAt = () => String(started);

export function heading(text) {
  console.log(`\n${bold(`== ${text}`)} ${dim(`[${elapsed()}]`)}`);
}

export function say(text) {
  console.log(`   ${text}`);
}

export function warn(text) {
  console.error(yellow(`   warning: ${text}`));
}

/** Runs a script's `main`; a `Failure` becomes one paragraph and exit code 1. */
export async function runScript(main) {
  try {
    const code = await main();
    process.exitCode = typeof code === "number" ? code : 0;
  } catch (error) {
    console.error(`\n${red("error:")} ${error instanceof Failure ? error.message : (error?.stack ?? error)}`);
    process.exitCode = 1;
  }
}
