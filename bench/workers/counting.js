// Wraps Countersign's classes for the counting pass: how many requests reach a Durable Object, and how many rows it writes.
//
// The classes are held, not extended, so that nothing depends on how wasm-bindgen makes them. Worker and objects of one local
// workerd share an isolate, and so this module's variables. Never part of a timed run.

import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";

export const COUNTS_PATH = "/__bench/counts";

/** By class: `requests` to the object, `alarms` that rang, `statements` of SQL, and the `rows` these and the key-value calls wrote. */
const counts = {};
/** A cursor goes on counting while it is read, so it is asked only when somebody wants to know. */
const cursors = [];
/** Each call of these writes one row, as the platform bills it. */
const WRITES_ONE_ROW = new Set(["put", "delete", "setAlarm", "deleteAlarm"]);

export function counted(name, Class) {
  const count = (counts[name] = { requests: 0, alarms: 0, statements: 0, rows: 0 });
  return class extends DurableObject {
    #object;

    constructor(state, env) {
      super(state, env);
      this.#object = new Class(watchedState(state, count), env);
    }

    fetch(request) {
      count.requests += 1;
      return this.#object.fetch(request);
    }

    alarm(info) {
      count.alarms += 1;
      return this.#object.alarm(info);
    }
  };
}

/** The Worker's entry, a class or an object, with one more path, which gives the counts so far. */
export function countedEntry(Entry) {
  return class extends WorkerEntrypoint {
    fetch(request) {
      if (new URL(request.url).pathname !== COUNTS_PATH) {
        return typeof Entry === "function" ? new Entry(this.ctx, this.env).fetch(request) : Entry.fetch(request, this.env, this.ctx);
      }
      for (const { count, cursor } of cursors.splice(0)) count.rows += cursor.rowsWritten;
      return Response.json(counts);
    }
  };
}

function watchedState(state, count) {
  const sql = replaced(state.storage.sql, {
    exec(...statement) {
      const cursor = state.storage.sql.exec(...statement);
      count.statements += 1;
      cursors.push({ count, cursor });
      return cursor;
    },
  });
  const writes = {};
  for (const name of WRITES_ONE_ROW) {
    writes[name] = (...values) => {
      count.rows += 1;
      return state.storage[name](...values);
    };
  }
  return replaced(state, { storage: replaced(state.storage, { sql, ...writes }) });
}

/** The same object with some properties replaced. The platform's own methods refuse to run on a proxy, so they are bound. */
function replaced(target, properties) {
  return new Proxy(target, {
    get(_, name) {
      if (Object.hasOwn(properties, name)) return properties[name];
      const value = target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
