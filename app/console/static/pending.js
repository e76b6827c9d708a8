// What waits for a person, looked at again and again: one watch for the inbox, for the count in
// the menu and for the title.

import { Problem, all, get, sleep } from "./api.js";

const SEEN_EVERY = 1000; // or as many times longer as a look takes:
const PAUSE_PER_LOOK = 3;
const HIDDEN_EVERY = 10_000;
const AFTER_ERROR = [1000, 2000, 5000, 10_000];
const PATIENCE_MS = 10_000;
const OTHERS_EVERY = 10_000;
const NEWEST_RUNS = 100;
const SOON_MS = 3_600_000;
export const MOST = 1000;

/**
 * @typedef {object} Pending
 * @property {any[]} approvals In the order of the inbox.
 * @property {boolean} more There are more approvals than MOST.
 * @property {any[]} others What the newest runs wait for beside approvals: entries of
 *   `required_actions`, each with its `run`.
 * @property {number} count Of what only people can settle: approvals and unknown outcomes.
 * @property {Problem | null} error What was wrong with the last look; the rest is then older.
 * @property {number} at When the last look succeeded, in milliseconds since 1970.
 */

export class PendingWatch {
  /** @param {string[]} scopes of the key that is signed in. */
  constructor(scopes) {
    /** @type {Pending} */
    this.now = { approvals: [], more: false, others: [], count: 0, error: null, at: 0 };
    this.seesRuns = scopes.includes("runs:read") || scopes.includes("runs:write");
    this.othersAt = -Infinity;
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

  /** Whether it was there at the last look. @param {string} key an approval's id, or a run's and a call's. */
  knows(key) {
    return this.now.approvals.some((one) => one.id === key) || this.now.others.some((one) => `${one.run_id} ${one.call_id}` === key);
  }

  /** Looks now. */
  poke() {
    this.othersAt = -Infinity;
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
      const { data, more } = await all("v1/approvals", { status: "pending", order: "asc" }, MOST, signal);
      this.found(data, more, await this.others(signal));
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

  /** @param {any[]} approvals @param {boolean} more @param {any[]} others */
  found(approvals, more, others) {
    approvals.sort(inOrder(Date.now()));
    const count = approvals.length + others.filter(({ type }) => type === "resolve").length;
    this.now = { approvals, more, others, count, error: null, at: Date.now() };
  }

  /** @param {AbortSignal} signal @returns {Promise<any[]>} */
  async others(signal) {
    if (!this.seesRuns || performance.now() - this.othersAt < OTHERS_EVERY) return this.now.others;
    const page = await get("v1/runs", { limit: NEWEST_RUNS }, signal);
    this.othersAt = performance.now();
    return page.data.flatMap((/** @type {any} */ run) => run.required_actions.filter((/** @type {any} */ one) => one.type === "resolve" || one.type === "tool_result").map((/** @type {any} */ one) => ({ ...one, run }))).reverse();
  }
}

/**
 * What expires within the hour comes first, the soonest of it foremost; then the oldest.
 * @param {number} now
 * @returns {(a: any, b: any) => number}
 */
function inOrder(now) {
  const soon = new Date(now + SOON_MS).toISOString();
  const oldest = (/** @type {any} */ a, /** @type {any} */ b) => a.requested_at.localeCompare(b.requested_at) || a.id.localeCompare(b.id);
  return (a, b) => {
    const [first, second] = [a.expires_at < soon, b.expires_at < soon];
    if (first !== second) return first ? -1 : 1;
    return (first && a.expires_at.localeCompare(b.expires_at)) || oldest(a, b);
  };
}
