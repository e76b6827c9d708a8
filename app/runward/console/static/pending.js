// The calls that wait for a person: one watch for the inbox, the count in the menu, and the page
// title. It polls a small list, which is sent only when it has changed. Cards load their own details.

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
 * @property {{approval: number, resolve: number, tool_result: number}} counts Of all that wait, each at most MOST.
 * @property {boolean} more Whether there are more than MOST.
 * @property {string} count Approvals and unknown outcomes, which only people can settle. Empty if there are none.
 * @property {Problem | null} error The error of the last poll. If it is set, the other fields are older.
 * @property {number} at Time of the last successful poll, in milliseconds since 1970.
 */

/** Return a key for a pending call. It changes when the call waits for another action. @param {any} action */
export const keyOf = (action) => action.approval_id ?? `${action.run_id} ${action.call_id} ${action.requested_at}`;

/** Return a count as text, with a plus sign if there can be more. @param {number} count @param {boolean} more */
export const atLeast = (count, more) => (count ? `${count}${more ? "+" : ""}` : "");

export class PendingWatch {
  constructor() {
    /** @type {Pending} */
    this.now = { actions: [], counts: { approval: 0, resolve: 0, tool_result: 0 }, more: false, count: "", error: null, at: 0 };
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
   * Call the listener at once with the current state, and again after every poll.
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
      this.now = { actions: data, counts, more: has_more, count: atLeast(counts.approval + counts.resolve, Math.max(counts.approval, counts.resolve) === MOST), error: null, at: Date.now() };
      this.took = performance.now() - began;
      this.failed = 0;
    } catch (error) {
      if (this.stopping.signal.aborted) return;
      this.failed += 1;
      // This includes responses that break off or never arrive.
      this.now = { ...this.now, error: error instanceof Problem ? error : new Problem(0, null) };
    }
    this.known = true;
    for (const listener of this.listeners) listener(this.now);
  }
}
