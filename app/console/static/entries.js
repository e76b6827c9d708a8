// The entries of a run's timeline, drawn.

import { add, h, text } from "./dom.js";
import { duration, shortId } from "./format.js";
import { one, rows, words } from "./values.js";

/** @typedef {import("./timeline.js").Entry} Entry */

/** What a call's states are called, and their tone. @type {Record<string, [string, string]>} */
const STATES = {
  created: ["Asked for", "soft"], waiting: ["Waits for a decision", "wait"], decided: ["Decided", "soft"],
  running: ["Running", "busy"], completed: ["Done", "good"], failed: ["Failed", "bad"],
  timed_out: ["Timed out", "bad"], rejected: ["Rejected", "warn"], cancelled: ["Cancelled", "soft"],
  outcome_unknown: ["Outcome unknown", "bad"], unknown: ["Outcome unknown: someone must say", "wait"],
};

/**
 * @param {Entry} entry
 * @param {string} key
 * @param {{choose: (entry: Entry) => void, slot: string}} options `slot`: the id of the place for an approval.
 */
export function entryView(entry, key, { choose, slot }) {
  const raw = entry.events.length
    ? h("button", { type: "button", class: "quiet small raw-button", "data-key": `raw ${key}`, onclick: () => choose(entry) }, "Events")
    : null;
  if (entry.kind === "call") return callView(entry, key, raw, slot);
  if (entry.kind === "notice") return h("div", { class: "entry notice" }, h("div", { class: "entry-head" }, h("p", { class: "soft" }, notice(entry.events[0])), raw));
  if (entry.kind === "reasoning") {
    return h("details", { class: "entry reasoning", "data-key": key, open: entry.open }, h("summary", null, "Reasoning"), h("div", { class: "words" }, text(entry.text)), raw);
  }
  return h("div", { class: "entry message" }, h("div", { class: "entry-head" }, h("div", { class: "words" }, entry.open ? text(entry.text) : one(entry.text, key), entry.open ? h("span", { class: "caret", "aria-hidden": "true" }) : null), raw));
}

/** @param {Entry} entry @param {string} key @param {HTMLElement | null} raw @param {string} slot */
function callView(entry, key, raw, slot) {
  const call = entry.call;
  const [label, tone] = STATES[call.state] ?? [call.state, "soft"];
  const took = call.attempts.length ? span(call.attempts) : null;
  const node = h("div", { class: `entry call ${tone}` },
    h("div", { class: "entry-head" },
      h("h3", { class: "name" }, text(call.tool), call.version ? h("span", { class: "soft small" }, ` v${call.version}`) : null),
      h("span", { class: `badge ${tone}` }, label),
      took === null ? null : h("span", { class: "soft small number" }, took),
      call.attempts.length > 1 ? h("span", { class: "soft small" }, `attempt ${call.attempts.at(-1).number}`) : null,
      raw),
    track(call));
  if (call.state !== "waiting") add(node, h("details", { class: "io", "data-key": `args ${key}`, open: call.state === "created" || call.state === "running" },
    h("summary", null, "Arguments ", h("span", { class: "soft" }, text(brief(call.arguments)))), call.truncated ? h("p", { class: "soft" }, "Too large for the log; the ledger has them.") : rows(call.arguments ?? {}, `args ${key}`)));
  if (call.approval) add(node, call.approval.status === "pending" ? h("div", { id: slot }, h("p", { class: "soft" }, h("a", { href: "#/inbox" }, "Waits in the inbox"))) : decision(call));
  for (const progress of call.progress.filter((/** @type {any} */ one_) => one_.message || one_.progress !== undefined)) {
    add(node, h("p", { class: "soft small" }, text(progress.message ?? ""), progress.progress === undefined ? null : [" ", text(JSON.stringify(progress.progress))]));
  }
  if (call.end) {
    const why = call.end.reason ? [" ", h("code", null, call.end.reason)] : null;
    add(node, h("details", { class: "io", "data-key": `out ${key}`, open: call.state !== "completed" },
      h("summary", null, call.end.is_error ? "What the model was told" : "Result", why, " ", h("span", { class: "soft" }, text(brief(call.end.output)))),
      words(call.end.output ?? null, `out ${key}`),
      call.end.truncated ? h("p", { class: "soft" }, "Cut here; the ledger has it whole.") : null,
      call.end.detail ? h("p", { class: "soft small" }, text(call.end.detail)) : null));
  }
  return node;
}

/** @param {any} call */
function decision(call) {
  const { status, by, remembered, message } = call.approval;
  const how = remembered ? "by a remembered decision" : by ? ["by ", h("code", null, shortId(by))] : "";
  return h("p", { class: "small" }, h("strong", null, status), " ", how, message ? [": ", text(message)] : null, call.original ? h("span", { class: "soft" }, " (arguments changed)") : null);
}

/** @param {any} value */
function brief(value) {
  const source = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  const characters = Array.from(source.slice(0, 200));
  return characters.length > 72 ? `${characters.slice(0, 72).join("")}…` : source;
}

/** @param {{from: number, to: number | null}[]} spans */
function span(spans) {
  const last = spans.at(-1);
  return last?.to ? duration(last.to - spans[0].from) : "…";
}

/** Bars over the run's whole time: waiting for people, and each attempt. @param {any} call */
function track(call) {
  const bar = (/** @type {string} */ kind) => (/** @type {{from: number, to: number | null}} */ { from, to }) => {
    const shown = h("span", { class: `bar ${kind}`, title: `${kind === "wait" ? "Waited for a person" : "Attempt"}: ${to ? duration(to - from) : "still"}` });
    shown.dataset.from = String(from);
    if (to !== null) shown.dataset.to = String(to);
    return shown;
  };
  return h("div", { class: "track", "aria-hidden": "true" }, call.waits.map(bar("wait")), call.attempts.map(bar("attempt")));
}

/**
 * Lays all bars out over the run's time so far.
 * @param {HTMLElement} root @param {number} from @param {number} total milliseconds.
 */
export function bars(root, from, total) {
  for (const bar of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".bar"))) {
    const start = Number(bar.dataset.from) - from;
    const end = bar.dataset.to ? Number(bar.dataset.to) - from : total;
    bar.style.left = `${Math.min(99, Math.max(0, (start / total) * 100))}%`;
    bar.style.width = `${Math.max(0.6, ((end - start) / total) * 100)}%`;
  }
}

/** @param {any} event */
function notice({ type, data }) {
  if (type === "agent.changed") return ["Handed over from ", text(data.from), " to ", text(data.to)];
  if (type === "input.received") return `${data.messages === 1 ? "A message" : `${data.messages} messages`} came in`;
  if (type === "state.updated") return ["State changed: ", text(brief(data.changes))];
  if (type === "model.downgraded") return [text(data.model), " cannot be told: ", text(data.what)];
  return ["The model is asked again: ", text(data.message ?? data.code)];
}
