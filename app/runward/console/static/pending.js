// The calls that wait for a person: one watch for the inbox, for the count in the menu and for the
// title. It polls a small list, which is sent only when it has changed; details are the cards' own.

import { Problem, polling, sleep } from "./api.js";

const SEEN_EVERY = 1000; // or as many times longer as a look takes:
const PAUSE_PER_LOOK = 3;
const HIDDEN_EVERY = 10_000;
const AFTER_ERROR = [1000, 2000, 5000, 10_000];
const PATIENCE_MS = 10_000;
export const MOST = 200;

/**
 * @typedef {object} Pending
 * @property {any[]} actions Of `/v1/required_actions`, the most urgent first, at most MOST.
 * @property {{approval: number, resolve: number, tool_result: number}} counts Of all that wait.
 * @property {boolean} more There are more than MOST.
 * @property {number} count Of what only people can settle: approvals and unknown outcomes.
 * @property {Problem | null} error The error of the last look; everything else is older then.
 * @property {number} at When the last look succeeded, in milliseconds since 1970.
 */

/** Identifies a call that waits, as long as it waits for the same. @param {any} action */
export const keyOf = (action) => action.approval_id ?? `${action.run_id} ${action.call_id} ${action.requested_at}`;

export class PendingWatch {
  constructor() {
    /** @type {Pending} */
    this.now = { actions: [], counts: { approval: 0, resolve: 0, tool_result: 0 }, more: false, count: 0, error: null, at: 0 };
    this.get = polling();
    this.took = 0;
    this.failed = 0;
    this.known = false;
    /** @type {Set<(pending: Pending) => void>} */
    this.listeners = new Set();
    this.stopping = new AbortController();
    this.waking = new AbortController();
  }

  /**
   * Calls at once with what is known, then with every look.
   * @param {(pending: Pending) => void} listener
   * @returns {() => void} ends it.
   */
  listen(listener) {
    this.listeners.add(listener);
    if (this.known) listener(this.now);
    return () => this.listeners.delete(listener);
  }

  /** Looks now. */
  poke() {
    this.waking.abort();
  }

  stop() {
    this.stopping.abort();
    this.waking.abort();
  }

  async run() {
    const poke = () => this.poke();
    document.addEventListener("visibilitychange", poke);
    addEventListener("online", poke);
    while (!this.stopping.signal.aborted) {
      this.waking = new AbortController();
      await this.look();
      await sleep(this.pause(), this.waking.signal);
    }
    document.removeEventListener("visibilitychange", poke);
    removeEventListener("online", poke);
  }

  pause() {
    if (this.failed) return AFTER_ERROR[Math.min(this.failed, AFTER_ERROR.length) - 1];
    if (document.hidden) return HIDDEN_EVERY;
    return Math.min(HIDDEN_EVERY, Math.max(SEEN_EVERY, PAUSE_PER_LOOK * this.took));
  }

  async look() {
    const began = performance.now();
    const signal = AbortSignal.any([this.stopping.signal, AbortSignal.timeout(PATIENCE_MS)]);
    try {
      const { data, counts, has_more } = await this.get("v1/required_actions", { limit: MOST }, signal);
      this.now = { actions: data, counts, more: has_more, count: counts.approval + counts.resolve, error: null, at: Date.now() };
      this.took = performance.now() - began;
      this.failed = 0;
    } catch (error) {
      if (this.stopping.signal.aborted) return;
      this.failed += 1;
      // Also an answer that breaks off, or that does not come.
      this.now = { ...this.now, error: error instanceof Problem ? error : new Problem(0, null) };
    }
    this.known = true;
    for (const listener of this.listeners) listener(this.now);
  }
}
