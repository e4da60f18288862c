// A GraphQL endpoint to be put behind the gateway. It is written from the specification and runs no documents: it answers with
// what a suite tells it, and remembers what it was sent, so that the suite can look at the documents themselves.

import { startBackend } from "./backend.mjs";

/** `[ID!]!` as introspection says it. */
function typeOf(text) {
  if (text.endsWith("!")) return { kind: "NON_NULL", name: null, ofType: typeOf(text.slice(0, -1)) };
  if (text.startsWith("[")) return { kind: "LIST", name: null, ofType: typeOf(text.slice(1, -1)) };
  return { kind: "OBJECT", name: text, ofType: null };
}

function inputOf([name, text]) {
  const [type, defaultValue = null] = text.split(" = ");
  return { name, description: null, type: typeOf(type), defaultValue };
}

/** A field: its type, or `{type, args: {name: type}, description, deprecated}`. */
function fieldOf([name, field]) {
  const { type, args = {}, description = null, deprecated = null } = typeof field === "string" ? { type: field } : field;
  return { name, description, args: Object.entries(args).map(inputOf), type: typeOf(type), isDeprecated: deprecated !== null, deprecationReason: deprecated };
}

/**
 * The result of introspection for `{types: {Name: {field: type}}, inputs: {Name: {field: type}}, enums: {Name: [value]}, scalars: [name]}`,
 * whose roots are called Query, Mutation and Subscription.
 */
export function introspection({ types, inputs = {}, enums = {}, scalars = [] }) {
  const root = (name) => (types[name] ? { name } : null);
  return {
    __schema: {
      queryType: root("Query"),
      mutationType: root("Mutation"),
      subscriptionType: root("Subscription"),
      types: [
        ...Object.entries(types).map(([name, fields]) => ({ kind: "OBJECT", name, description: null, fields: Object.entries(fields).map(fieldOf) })),
        ...Object.entries(inputs).map(([name, fields]) => ({ kind: "INPUT_OBJECT", name, inputFields: Object.entries(fields).map(inputOf) })),
        ...Object.entries(enums).map(([name, values]) => ({ kind: "ENUM", name, enumValues: values.map((value) => ({ name: value })) })),
        ...["Int", "Float", "String", "Boolean", "ID", ...scalars].map((name) => ({ kind: "SCALAR", name })),
      ],
    },
  };
}

/**
 * Starts an endpoint. `schema` is what introspection tells, `undefined` forbids it; both it and `answers` can be changed.
 * `answers[field](variables, request)` gives the body of the answer, or `{status, body, headers}` where it has a status.
 * `take()` gives what was sent since, but for introspection: `{document, variables, operationName, headers}`.
 */
export async function startGraphql({ schema, answers = {} }) {
  const endpoint = { schema, answers };
  const backend = await startBackend(async (request, response, { body, headers }) => {
    const send = ({ status = 200, body, headers: more = {} }) => {
      response.writeHead(status, { "content-type": "application/graphql-response+json; charset=utf-8", ...more });
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    };
    const { query, variables, operationName } = JSON.parse(body.toString());
    if (operationName === "IntrospectionQuery") {
      endpoint.introspected = { query, headers };
      return send({ body: endpoint.schema ? { data: endpoint.schema } : { errors: [{ message: "Introspection is not allowed here" }] } });
    }
    sent.push({ document: query, variables, operationName, headers, method: request.method });
    const answer = await endpoint.answers[operationName]?.(variables, headers);
    if (answer === undefined) return send({ body: { data: { [operationName]: null } } });
    return send("status" in answer || "body" in answer ? answer : { body: answer });
  });
  const sent = [];
  return Object.assign(endpoint, { url: `${backend.url}/graphql`, origin: backend.url, take: () => sent.splice(0), stop: backend.stop });
}
