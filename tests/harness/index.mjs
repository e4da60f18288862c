// What the suites, the demo and the benchmarks share: a gateway in a real workerd, and an MCP client without opinions.

export { startGateway } from "./gateway.mjs";
export { cookiePair, goToIssuer, makeKey, signHmac, signJwt, startIssuer } from "./issuer.mjs";
export { adminApi, approve, decide, decline, devToken, eventsOf, messageOf, openSession, shownPause } from "./mcp.mjs";
export { seeded } from "./random.mjs";
export { startUpstream } from "./upstream.mjs";
export { waitFor } from "./wait.mjs";
