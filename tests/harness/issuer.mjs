// An OpenID Connect issuer that a suite is: it publishes metadata and keys, signs whatever it is told to, signs people in, and can
// be slow, broken or away. Cloudflare Access's keys are at its address too.

import { constants, createHash, createHmac, generateKeyPairSync, randomBytes, sign } from "node:crypto";

import { startBackend } from "./backend.mjs";

const HASHES = { 256: "sha256", 384: "sha384", 512: "sha512" };
const CURVES = { ES256: "P-256", ES384: "P-384", ES512: "P-521" };

const encode = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

/** A key pair for an algorithm: `{kid, alg, privateKey, jwk}`. `jwk` is what is published; `more` goes into it. */
export function makeKey(alg, kid = randomBytes(6).toString("hex"), more = {}) {
  const pair = CURVES[alg]
    ? generateKeyPairSync("ec", { namedCurve: CURVES[alg] })
    : alg === "EdDSA"
      ? generateKeyPairSync("ed25519")
      : generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { kid, alg, privateKey: pair.privateKey, jwk: { ...pair.publicKey.export({ format: "jwk" }), kid, use: "sig", alg, ...more } };
}

/** Signs a JWT. `header` overrides what the key says; a member that is `undefined` is left out. */
export function signJwt(key, claims, header = {}) {
  const signed = `${encode({ alg: key.alg, typ: "JWT", kid: key.kid, ...header })}.${encode(claims)}`;
  const data = Buffer.from(signed);
  const hash = HASHES[key.alg.slice(2)];
  const signature = key.alg.startsWith("RS")
    ? sign(hash, data, key.privateKey)
    : key.alg.startsWith("PS")
      ? sign(hash, data, { key: key.privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST })
      : key.alg.startsWith("ES")
        ? sign(hash, data, { key: key.privateKey, dsaEncoding: "ieee-p1363" })
        : sign(null, data, key.privateKey);
  return `${signed}.${signature.toString("base64url")}`;
}

/** A JWT with a symmetric signature: what an attacker makes of a public key. */
export function signHmac(secret, claims, header = {}) {
  const signed = `${encode({ alg: "HS256", typ: "JWT", ...header })}.${encode(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/**
 * Starts an issuer. It has `url` (its name in `iss`), `keys` (those it publishes; assign to rotate), `requests(path)` (how often
 * something was asked since `take()`), `token(claims, {key, header})` (a token that is good for five minutes, for the audience
 * `gateway`), `accessToken(claims)` (one of Cloudflare Access), `stop()`, and `start()` again at the same address.
 *
 * - `mood`: `undefined`, or a function `(request, response, path) => true` that answers in its place.
 * - `people`: what `/authorize` signs in: claims of the ID token. It answers at once, as for somebody who is signed in there.
 */
export async function startIssuer({ alg = "RS256", client = { id: "console", secret: "client secret/+" } } = {}) {
  const issuer = { keys: [makeKey(alg)], mood: undefined, person: { sub: "ann" }, document: {}, idToken: undefined, client };
  const codes = new Map();
  const json = (response, status, body) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));

  const answer = (request, response, seen) => {
    const url = new URL(request.url, issuer.url);
    if (issuer.mood?.(request, response, url.pathname)) return;
    if (url.pathname === "/.well-known/openid-configuration") {
      json(response, 200, {
        issuer: issuer.url,
        jwks_uri: `${issuer.url}/jwks`,
        authorization_endpoint: `${issuer.url}/authorize`,
        token_endpoint: `${issuer.url}/token`,
        ...issuer.document,
      });
    } else if (url.pathname === "/jwks" || url.pathname === "/cdn-cgi/access/certs") {
      json(response, 200, { keys: issuer.keys.map(({ jwk }) => jwk) });
    } else if (url.pathname === "/authorize") {
      const asked = Object.fromEntries(url.searchParams);
      const code = randomBytes(12).toString("hex");
      codes.set(code, asked);
      const back = new URL(asked.redirect_uri);
      for (const [name, value] of Object.entries({ code, state: asked.state, iss: issuer.url })) back.searchParams.set(name, value);
      response.writeHead(302, { location: back.href }).end();
    } else if (url.pathname === "/token") {
      const form = new URLSearchParams(seen.body.toString());
      const asked = codes.get(form.get("code"));
      codes.delete(form.get("code"));
      const [id, secret] = Buffer.from((seen.headers.authorization ?? "").replace("Basic ", ""), "base64").toString().split(":");
      const decode = (text) => decodeURIComponent((text ?? "").replaceAll("+", " "));
      const proved = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
      const good = asked && asked.code_challenge === proved && asked.redirect_uri === form.get("redirect_uri") && decode(id) === client.id && decode(secret) === client.secret;
      if (!good) return json(response, 400, { error: "invalid_grant" });
      const id_token = issuer.token({ aud: client.id, nonce: asked.nonce, ...issuer.person, ...issuer.idToken });
      json(response, 200, { access_token: "unused", token_type: "Bearer", id_token });
    } else {
      json(response, 404, {});
    }
  };

  let backend = await startBackend(answer);
  const port = Number(new URL(backend.url).port);
  return Object.assign(issuer, {
    url: backend.url,
    requests: (path) => backend.seen.filter(({ target }) => target.split("?")[0] === path).length,
    take: () => backend.take(),
    token: (claims = {}, { key = issuer.keys[0], header } = {}) => {
      const now = Math.floor(Date.now() / 1000);
      return signJwt(key, { iss: issuer.url, aud: "gateway", sub: "ann", iat: now, exp: now + 300, ...claims }, header);
    },
    stop: () => backend.stop(),
    start: async () => {
      backend = await startBackend(answer, port);
    },
  });
}

/** The pair `name=value` of a cookie that an answer sets; undefined where it sets none of that name. */
export const cookiePair = (response, name) => response.headers.getSetCookie().find((text) => text.startsWith(`${name}=`))?.split(";")[0];

/**
 * Goes from the gateway's sign-in to the issuer and back, as a browser with these cookies: `{started, location, url, path, cookie}`, the
 * last three being the way back, its path with the query, and the cookie of the sign-in.
 */
export async function goToIssuer(gateway, { returnTo = "/", cookie } = {}) {
  const started = await gateway.fetch(`/sign-in?return_to=${encodeURIComponent(returnTo)}`, { redirect: "manual", headers: cookie ? { cookie } : {} });
  const location = started.headers.get("location");
  const back = await fetch(location, { redirect: "manual" });
  const url = new URL(back.headers.get("location"));
  return { started, location, url, path: url.pathname + url.search, cookie: cookiePair(started, "__Host-countersign-sign-in") };
}
