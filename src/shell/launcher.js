// Starts sandboxes for the session objects of this Worker.
//
// What a Dynamic Worker takes is given back when the request that loaded it has ended. An object is one long request, and would keep
// every isolate that it ever loaded until something collects garbage. So it asks this entrypoint, and each sandbox has a
// request of its own. Only bindings lead here, no request from outside.
import { WorkerEntrypoint } from "cloudflare:workers";

export class SandboxLauncher extends WorkerEntrypoint {
  // Loads `code` and runs its program, which calls `host` back; ends when it has ended. Never a name: what has one is kept.
  async run(code, host, boot) {
    await this.env.LOADER.load(code).getEntrypoint().run(host, boot);
  }
}
