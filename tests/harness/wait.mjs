// Waiting for a condition, never for a fixed time.

const setTimer = globalThis.setTimeout;

/**
 * Polls `condition` until it gives a truthy value and resolves with that value. An exception counts as "not yet" and is the
 * cause of the final error. `what` names the condition there.
 */
export async function waitFor(condition, { timeout = 10_000, interval = 25, what = condition.toString() } = {}) {
  const deadline = performance.now() + timeout;
  let cause;
  for (;;) {
    try {
      const value = await condition();
      if (value) return value;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline) throw new Error(`not within ${timeout} ms: ${what}`, { cause });
    await new Promise((resolve) => setTimer(resolve, interval));
  }
}
