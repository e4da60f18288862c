// `npm run passphrase`: asks for a passphrase and prints the slow hash of it, which is what the gateway keeps (OWNER_PASSPHRASE_HASH).
// The passphrase is read from the terminal without being shown, or as one line from standard input.

import { randomBytes, scryptSync } from "node:crypto";
import { createInterface } from "node:readline";

import { Failure, runScript } from "./lib/report.mjs";

/** What src/auth/passphrase.rs takes. */
const COST = { logN: 14, r: 8, p: 5 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
const LEAST_LENGTH = 14;
const MOST_BYTES = 1_024;
const LEAST_VARIETY = 8;

await runScript(async () => {
  const passphrase = process.stdin.isTTY ? await asked() : await fromInput();
  if ([...passphrase].length < LEAST_LENGTH) throw new Failure(`Use at least ${LEAST_LENGTH} characters: whoever guesses it owns the gateway.`);
  if (new Set(passphrase).size < LEAST_VARIETY) throw new Failure("Use more different characters.");
  if (Buffer.byteLength(passphrase) > MOST_BYTES) throw new Failure(`Use at most ${MOST_BYTES} bytes.`);
  if (passphrase !== passphrase.trim()) throw new Failure("It begins or ends with a space, which is easily lost.");
  console.error("Store this as a secret: npx wrangler secret put OWNER_PASSPHRASE_HASH");
  console.log(hashOf(passphrase));
});

function hashOf(passphrase) {
  const { logN, r, p } = COST;
  const salt = randomBytes(SALT_BYTES);
  const hash = scryptSync(passphrase, salt, HASH_BYTES, { N: 2 ** logN, r, p, maxmem: 256 * 2 ** 20 });
  return ["scrypt", logN, r, p, salt.toString("base64url"), hash.toString("base64url")].join(":");
}

async function fromInput() {
  let text = "";
  for await (const chunk of process.stdin.setEncoding("utf8")) text += chunk;
  return text.replace(/\r?\n$/, "");
}

async function asked() {
  const first = await hidden("Passphrase: ");
  if ((await hidden("The same again: ")) !== first) throw new Failure("The two are not the same.");
  return first;
}

/** Reads a line without showing it. */
function hidden(question) {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: true });
    process.stderr.write(question);
    lines._writeToOutput = () => {};
    lines.once("SIGINT", () => {
      lines.close();
      reject(new Failure("Nothing was made."));
    });
    lines.question("", (answer) => {
      lines.close();
      process.stderr.write("\n");
      resolve(answer);
    });
  });
}
