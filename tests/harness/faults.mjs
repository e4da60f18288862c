// Failures of the platform on demand, without any code for it in the product: a module in front of the bundle that stands
// between the gateway and its Durable Object namespaces.
//
// The module wraps `env.SESSION` and `env.ORGANIZATION`, for the Worker and for the objects, which call each other too. A call
// that a fault was armed for throws what the platform would throw. Worker and objects share an isolate here, so the error
// arrives as it was made, `cause` and properties included.

import { request } from "node:http";

import { startGateway } from "./gateway.mjs";

const CONTROL_PATH = "/__faults";

/**
 * Starts a gateway whose calls to Durable Objects can be made to fail. It has, besides what `startGateway` gives, `faults`:
 *
 * - `arm(...faults)`: each is `{binding, message, retryable?, overloaded?, cause?, from?, path?, session?, skip?, times?,
 *   afterwards?}`. It applies to calls through `binding` (`SESSION`, `ORGANIZATION`) made by `from` (`Worker`, or the class of the
 *   object that calls), whose path starts with `path`, to the object `session` (an id). Of those the first `skip` go through,
 *   and the next `times` (1 by default) throw; `afterwards`: after the object has served. `cause` is `{message, cause?, …}`.
 * - `calls(filter?)`: all calls since the last `clear`, `{binding, from, path, id, thrown}`.
 * - `clear()`: nothing is armed any more and no call is remembered. A restart does the same.
 */
export async function startFaultyGateway(options) {
  const gateway = await startGateway({ ...options, wrapper: WRAPPER });
  // On a connection of its own: a request that fails before its body was read ends its connection, and fetch might take that one.
  const control = (method, body) =>
    new Promise((resolve, reject) => {
      const call = request(new URL(CONTROL_PATH, gateway.url), { method, agent: false }, async (response) => {
        try {
          let text = "";
          for await (const chunk of response.setEncoding("utf8")) text += chunk;
          if (response.statusCode !== 200) throw new Error(`${CONTROL_PATH} answered ${response.statusCode}: ${text}`);
          resolve(JSON.parse(text));
        } catch (error) {
          reject(error);
        }
      });
      call.once("error", reject).end(body && JSON.stringify(body));
    });
  gateway.faults = {
    arm: (...faults) => control("POST", faults),
    clear: () => control("DELETE"),
    calls: async (filter = {}) => (await control("GET")).filter((call) => Object.entries(filter).every(([key, value]) => call[key] === value)),
  };
  return gateway;
}

/** Runs inside workerd: it must not name anything of this file. */
function wrap(bundle, controlPath) {
  let armed = [];
  let calls = [];

  function errorOf({ message, retryable, overloaded, cause }) {
    const error = new Error(message, cause === undefined ? undefined : { cause: errorOf(cause) });
    if (retryable !== undefined) error.retryable = retryable;
    if (overloaded !== undefined) error.overloaded = overloaded;
    return error;
  }

  /** The fault that hits a call, if one does. */
  function faultFor(call) {
    const fault = armed.find(
      ({ binding, from, path, session, times = 1 }) =>
        binding === call.binding &&
        (from === undefined || from === call.from) &&
        (path === undefined || call.path.startsWith(path)) &&
        (session === undefined || session === call.id) &&
        times > 0,
    );
    if (fault === undefined) return undefined;
    if (fault.skip > 0) {
      fault.skip -= 1;
      return undefined;
    }
    fault.times = (fault.times ?? 1) - 1;
    return fault;
  }

  /** Like `target`, but for what `replaced` has. Methods of the platform need the real object as `this`. */
  function standIn(target, replaced) {
    return new Proxy(target, {
      get(_, key) {
        if (Object.hasOwn(replaced, key)) return replaced[key];
        const value = Reflect.get(target, key);
        return typeof value === "function" && key !== "constructor" ? value.bind(target) : value;
      },
    });
  }

  function wrapStub(stub, binding, from) {
    return standIn(stub, {
      async fetch(...args) {
        const call = { binding, from, path: new URL(args[0].url ?? args[0]).pathname, id: String(stub.id), thrown: false };
        calls.push(call);
        const fault = faultFor(call);
        if (fault === undefined) return stub.fetch(...args);
        call.thrown = true;
        if (fault.afterwards) await (await stub.fetch(...args)).arrayBuffer();
        throw errorOf(fault);
      },
    });
  }

  function wrapNamespace(namespace, binding, from) {
    return standIn(namespace, {
      get: (...args) => wrapStub(namespace.get(...args), binding, from),
      getByName: (...args) => wrapStub(namespace.getByName(...args), binding, from),
      jurisdiction: (...args) => wrapNamespace(namespace.jurisdiction(...args), binding, from),
    });
  }

  const wrapEnv = (env, from) => ({
    ...env,
    SESSION: wrapNamespace(env.SESSION, "SESSION", from),
    ORGANIZATION: wrapNamespace(env.ORGANIZATION, "ORGANIZATION", from),
  });

  const wrapObject = (name) =>
    class extends bundle[name] {
      constructor(state, env) {
        super(state, wrapEnv(env, name));
      }
    };

  const Worker = {
    async fetch(request, env, context) {
      if (new URL(request.url).pathname !== controlPath) return bundle.default.fetch(request, wrapEnv(env, "Worker"), context);
      if (request.method === "GET") return Response.json(calls);
      if (request.method === "POST") armed.push(...(await request.json()));
      else [armed, calls] = [[], []];
      return Response.json({});
    },
  };

  return { Worker, SessionDurableObject: wrapObject("SessionDurableObject"), OrganizationDurableObject: wrapObject("OrganizationDurableObject") };
}

const WRAPPER = `
import * as bundle from "./index.js";
const wrapped = (${wrap})(bundle, ${JSON.stringify(CONTROL_PATH)});
export * from "./index.js";
export default wrapped.Worker;
export const { SessionDurableObject, OrganizationDurableObject } = wrapped;
`;
