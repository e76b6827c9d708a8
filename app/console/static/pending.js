// What waits for a person, looked at again and again: one watch for the inbox, for the count in
// the menu and for the title.

import { Problem, all, sleep } from "./api.js";

const SEEN_EVERY = 2000;
const HIDDEN_EVERY = 10_000; // and after an error
export const MOST = 1000;

/** @typedef {{approvals: any[], more: boolean, error: Problem | null}} Pending */

export class PendingWatch {
  constructor() {
    /** @type {Pending} */
    this.now = { approvals: [], more: false, error: null };
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
    while (!this.stopping.signal.aborted) {
      this.waking = new AbortController();
      await this.look();
      const often = !document.hidden && this.now.error === null;
      await sleep(often ? SEEN_EVERY : HIDDEN_EVERY, this.waking.signal);
    }
    document.removeEventListener("visibilitychange", poke);
  }

  async look() {
    try {
      const { data, more } = await all("v1/approvals", { status: "pending", order: "asc" }, MOST, this.stopping.signal);
      data.sort((a, b) => a.expires_at.localeCompare(b.expires_at) || a.requested_at.localeCompare(b.requested_at));
      this.now = { approvals: data, more, error: null };
      this.known = true;
    } catch (error) {
      if (this.stopping.signal.aborted || !(error instanceof Problem)) return;
      this.now = { ...this.now, error };
      this.known = true;
    }
    for (const listener of this.listeners) listener(this.now);
  }
}
