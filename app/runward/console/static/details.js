// Details of pending calls. They are loaded for the cards on the screen, without large arguments, and
// shown together, so that the page moves only once.

import { get } from "./api.js";

/** Bytes of arguments that a card loads on its own. Larger arguments are loaded on demand. */
const ARGUMENTS_BYTES = 8192;

/** @param {any} action of `/v1/required_actions` */
function pathOf(action) {
  if (action.approval_id) return `v1/approvals/${action.approval_id}`;
  return `v1/runs/${action.run_id}/tool_calls/${encodeURIComponent(action.call_id)}`;
}

/**
 * Load an approval or a call. It has `omitted_arguments` if large arguments were left out.
 * @param {any} action of `/v1/required_actions`, or an entry of `required_actions`
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function details(action, signal) {
  return get(pathOf(action), { max_arguments_bytes: ARGUMENTS_BYTES }, signal);
}

/** Load the status of an approval. @param {string} approvalId @returns {Promise<any>} null if it cannot be loaded. */
export function withoutArguments(approvalId) {
  return get(`v1/approvals/${approvalId}`, { max_arguments_bytes: 0 }).catch(() => null);
}

/**
 * Return a function that loads all arguments of a call, at most once.
 * @param {any} shown an approval or a call, as `details` returns it
 * @returns {() => Promise<any>} the arguments
 */
export function wholeArguments(shown) {
  /** @type {Promise<any> | null} */
  let loading = null;
  return () => {
    if (!shown.omitted_arguments?.length) return Promise.resolve(shown.arguments);
    const approval_id = shown.object === "approval" ? shown.id : null;
    loading ??= get(pathOf({ ...shown, approval_id })).then((whole) => whole.arguments);
    loading.catch(() => (loading = null));
    return loading;
  };
}

/** A loader that batches requests and delivers their results together. */
export class Together {
  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.signal = signal;
    /** @type {{action: any, take: (shown: any) => void, fail: (error: any) => void}[]} */
    this.wanted = [];
    this.working = false;
  }

  /** @param {any} action @param {(shown: any) => void} take @param {(error: any) => void} fail */
  async load(action, take, fail) {
    this.wanted.push({ action, take, fail });
    if (this.working) return;
    this.working = true;
    while (this.wanted.length) {
      await Promise.resolve(); // Cards that come into view at the same time are loaded in one batch.
      const now = this.wanted.splice(0);
      const loaded = await Promise.allSettled(now.map((one) => details(one.action, this.signal)));
      if (this.signal.aborted) return;
      loaded.forEach((result, at) => (result.status === "fulfilled" ? now[at].take(result.value) : now[at].fail(result.reason)));
    }
    this.working = false;
  }
}
