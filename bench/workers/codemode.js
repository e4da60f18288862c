// A program of a model in the executor of `@cloudflare/codemode`, used as its documentation says: one tool, nothing else.
//
// There is no session, no account, no journal and no policy: it shows what a fresh sandbox with one call costs without them.

import { DynamicWorkerExecutor } from "@cloudflare/codemode";

const tools = { echo: async ({ message }) => ({ message }) };

export default {
  async fetch(request, env) {
    const { code } = await request.json();
    const executor = new DynamicWorkerExecutor({ loader: env.LOADER });
    return Response.json(await executor.execute(code, tools));
  },
};
