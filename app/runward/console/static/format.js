// Formats of times, sizes, costs and states.

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

/**
 * Format a duration in one unit, for times that are rarely updated: `3 min`.
 * @param {number} ms
 */
export function roughly(ms) {
  const minutes = ms / 60_000;
  if (minutes < 1) return "less than a minute";
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h`;
  return `${Math.floor(minutes / 1440)} days`;
}

/**
 * @param {string} at
 * @param {number} now
 */
export function ago(at, now) {
  const ms = now - Date.parse(at);
  return ms < 60_000 ? "just now" : `${roughly(ms)} ago`;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** @param {string} value */
export function bytes(value) {
  return new TextEncoder().encode(value).length;
}

/** @param {unknown} value A number, or a number kept as raw JSON. */
function cost(value) {
  const number = Number(plain(value));
  if (!number) return "$0";
  return number < 0.01 ? `$${number.toPrecision(2)}` : `$${number.toFixed(2)}`;
}

/**
 * Format the cost of a run. The cost of a model without a price is unknown, not $0.
 * @param {any} usage
 * @param {string | string[] | null | undefined} model
 */
export function spentOn(usage, model) {
  if (Number(plain(usage.cost_usd)) || !Number(plain(usage.total_tokens))) return cost(usage.cost_usd);
  return [model ?? []].flat().every((one) => one.startsWith("offline:")) && model ? "$0" : "no price known";
}

/** @param {unknown} value */
export function count(value) {
  return Number(plain(value) ?? 0).toLocaleString("en");
}

/** @param {string} at */
export function time(at) {
  return new Date(at).toLocaleTimeString(undefined, { hour12: false });
}

/** @param {string} at */
export function moment(at) {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** Shorten an ID: `run_…1b3a57`. @param {string} id */
export function shortId(id) {
  const [prefix, rest = ""] = id.split("_", 2);
  return `${prefix}_…${rest.slice(-8)}`;
}

/** @param {unknown} value A number, or a number kept as raw JSON. Null stays null. */
export function number(value) {
  return value === null || value === undefined ? null : Number(plain(value));
}

/** @param {any} value */
function plain(value) {
  return value !== null && typeof value === "object" ? value.rawJSON : value;
}

/** The label and tone of each outcome of a tool call.
 * @type {Record<string, [string, string]>} */
export const CALL_OUTCOME = {
  completed: ["Completed", "good"],
  failed: ["Failed", "bad"],
  timed_out: ["Timed out", "bad"],
  outcome_unknown: ["Outcome unknown", "warn"],
  rejected: ["Declined", "soft"],
  cancelled: ["Cancelled", "soft"],
};

/** The label and tone of each state of a call that has not ended.
 * @type {Record<string, [string, string]>} */
export const CALL_PHASE = {
  awaiting_approval: ["Waiting for a decision", "wait"],
  awaiting_callback: ["Waiting for its callback", "busy"],
  awaiting_result: ["Waiting for the client", "wait"],
  awaiting_input: ["Waiting for input", "wait"],
  awaiting_child: ["Child run in progress", "busy"],
  awaiting_resolution: ["Outcome unknown", "warn"],
  ready: ["About to start", "busy"],
  started: ["Running", "busy"],
};

/** The label and tone of each status of a run.
 * @type {Record<string, [string, string]>} */
export const RUN_STATUS = {
  queued: ["Queued", "soft"],
  in_progress: ["Working", "busy"],
  requires_action: ["Waiting", "wait"],
  completed: ["Completed", "good"],
  failed: ["Failed", "bad"],
  cancelled: ["Cancelled", "soft"],
  incomplete: ["Incomplete", "warn"],
  expired: ["Expired", "warn"],
};
