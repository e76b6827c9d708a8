// Elements for the entries of a run's timeline.

import { get } from "./api.js";
import { inUnit } from "./budgets.js";
import { add, fill, h, text } from "./dom.js";
import { differences } from "./exact.js";
import { duration, moment, number, shortId, size } from "./format.js";
import { markdown } from "./markdown.js";
import { timings, track } from "./timing.js";
import { json, one, rows, words } from "./values.js";

/** @typedef {import("./timeline.js").Entry} Entry */

/**
 * @typedef {object} Around The parts of the page that an entry uses.
 * @property {string} runId ID of the entry's run.
 * @property {(entry: Entry) => void} choose Shows its events.
 * @property {(entry: Entry) => HTMLElement} slot The place for what a person does about a call.
 * @property {(callId: string) => Promise<any>} ledger A call as the ledger has it, whole.
 * @property {(by: string, approvalId: string) => Node} nameOf What the key is called that decided.
 */

/** The label and tone of each state of a call. @type {Record<string, [string, string]>} */
const STATES = {
  writing: ["The model is writing this call", "busy"], created: ["Requested", "soft"], waiting: ["Waiting for a decision", "wait"], decided: ["Decided", "soft"],
  running: ["Running", "busy"], completed: ["Done", "done"], failed: ["Failed", "bad"],
  timed_out: ["Timed out", "bad"], rejected: ["Rejected", "warn"], cancelled: ["Cancelled", "soft"],
  outcome_unknown: ["Outcome unknown", "bad"], unknown: ["Outcome unknown. Review the call and record what happened.", "wait"],
};

/** @type {Record<string, string>} */
const REASONS = {
  tool_error: "the tool returned an error", not_sent: "the call was not sent", invalid_response: "the tool's response could not be read", invalid_output: "the result does not match the tool's schema",
  invalid_arguments: "the arguments do not match the tool's schema", truncated_response: "the model's response was cut off in the middle of the call", unknown_tool: "the tool does not exist",
  repeated_call: "the call repeats an earlier call", max_tool_calls: "the run reached its maximum number of calls", declined: "a person rejected the call", declined_before: "a person rejected an identical call before",
  approval_expired: "the approval expired", guardrail: "a guardrail rejected the call", responded: "a person responded instead of the tool", resolved: "a person recorded the outcome",
  run_ended: "the run ended first", run_cancelled: "the run was cancelled",
  returned_to_client: "the client of a chat completion received the call, and runs it",
};
const WRITTEN_SHOWN = 20_000;
const WARNINGS = new Set(["model.retried", "model.setting_dropped", "budget.exceeded"]);

/** @param {Entry} entry @param {string} key @param {Around} around */
export function entryView(entry, key, around) {
  const raw = entry.events.length
    ? h("button", { type: "button", class: "quiet small raw-button", "data-key": `raw ${key}`, onclick: () => around.choose(entry) }, entry.events.length === 1 ? "1 event" : `${entry.events.length} events`)
    : null;
  const node = entry.kind === "call" ? callView(entry, key, raw, around)
    : entry.kind === "notice" ? noticeView(entry, key, raw, around)
      : entry.open ? writtenView(entry)
        : entry.kind === "reasoning" ? h("details", { class: "entry reasoning", "data-key": key }, h("summary", null, "Reasoning ", h("span", { class: "soft preview" }, text(brief(entry.text)))), h("div", { class: "entry-head" }, h("div", { class: "words" }, one(entry.text, key)), raw))
          : h("div", { class: "entry message" }, h("div", { class: "entry-head" }, h("div", { class: "words" }, entry.text ? markdown(entry.text) : h("span", { class: "soft" }, "The model returned no text.")), raw));
  node.dataset.entry = key;
  return node;
}

/** Return the element of an entry that is being written. `rewrite` updates it. @param {Entry} entry */
function writtenView(entry) {
  const written = h("div", { class: "words", "data-written": "" });
  const caret = h("span", { class: "caret", "aria-hidden": "true" });
  const title = entry.kind === "reasoning" ? h("p", { class: "soft small" }, "Reasoning") : null;
  const node = h("div", { class: `entry ${entry.kind} written` }, title, h("div", { class: "entry-head" }, h("div", { class: "words" }, written, caret)));
  rewrite(node, entry);
  return node;
}

/** @param {HTMLElement} node The element of an entry that is being written @param {Entry} entry */
export function rewrite(node, entry) {
  const place = /** @type {HTMLElement} */ (node.querySelector("[data-written]"));
  const cut = entry.text.length > WRITTEN_SHOWN;
  fill(place, cut ? h("span", { class: "soft" }, `${size(entry.text.length - WRITTEN_SHOWN)} before this … `) : null, text(cut ? entry.text.slice(-WRITTEN_SHOWN) : entry.text));
}

/** @param {Entry} entry @param {string} key @param {HTMLElement | null} raw @param {Around} around */
function callView(entry, key, raw, around) {
  const call = entry.call;
  const [label, tone] = STATES[call.state] ?? [call.state, "soft"];
  const timed = timings(call);
  const head = h("div", { class: "entry-head" },
    h("h3", { class: "name" }, text(call.tool), call.version ? h("span", { class: "soft small" }, ` v${call.version}`) : null),
    h("span", { class: `badge ${tone}` }, label),
    call.hosted ? h("span", { class: "soft small" }, "run by the model's provider: ", text(call.hosted)) : null,
    timed ? h("span", { class: "soft small number" }, timed) : null,
    raw);
  const node = h("div", { class: `entry call ${tone}` }, head);
  if (call.state === "writing") {
    add(node, h("div", { class: "written-arguments" }, h("code", { "data-written": "" }), h("span", { class: "caret", "aria-hidden": "true" })));
    rewrite(node, entry);
    return node;
  }
  if (entry.turn > 0 && (call.waits.length || call.attempts.length)) add(node, track(around.runId, entry.turn, call));
  const pending = call.approval?.status === "pending";
  if (!pending) add(node, argumentsView(call, key, around));
  if (call.approval && !pending) add(node, decision(call, around));
  if (call.end === null) add(node, around.slot(entry));
  for (const progress of call.progress.filter((/** @type {any} */ one_) => one_.message || one_.progress !== undefined).slice(-3)) {
    add(node, h("p", { class: "soft small" }, text(progress.message ?? ""), progress.progress === undefined ? null : [" ", text(JSON.stringify(progress.progress))]));
  }
  if (call.end) add(node, endView(call, key, around));
  return node;
}

/** @param {any} call @param {string} key @param {Around} around */
function argumentsView(call, key, around) {
  const cut = call.truncated && call.arguments == null;
  const preview = cut ? size(call.bytes ?? 0) : call.raw === undefined ? brief(call.arguments) : brief(call.raw);
  const inside = cut ? whole(call.id, key, around, (found) => rows(found.arguments, `args ${key}`))
    : call.raw === undefined ? rows(call.arguments ?? {}, `args ${key}`)
      : h("div", null, h("p", { class: "soft small" }, "The arguments are not a JSON object:"), one(call.raw, `args ${key}`));
  return h("details", { class: "io", "data-key": `args ${key}` }, h("summary", null, "Arguments ", h("span", { class: "soft" }, text(preview))), inside);
}

/** @param {any} call @param {string} key @param {Around} around */
function endView(call, key, around) {
  const { end } = call;
  const why = end.reason ? h("span", { class: "soft", title: end.reason }, `: ${REASONS[end.reason] ?? end.reason}`) : null;
  const output = end.output ?? null;
  return h("details", { class: "io", "data-key": `out ${key}`, open: end.is_error === true || call.state === "outcome_unknown" },
    h("summary", null, end.is_error ? "Result that the model received" : "Result", why, " ", h("span", { class: "soft preview" }, text(brief(output)))),
    h("div", { class: "io-body" }, words(output, `out ${key}`),
      end.truncated ? h("p", { class: "soft small" }, "Only the beginning and the end are shown. ", whole(call.id, key, around, (found) => words(found.output ?? null, `whole ${key}`))) : null,
      end.detail ? h("p", { class: "soft small" }, text(end.detail)) : null));
}

/** Return a button that loads content that is too large for the event log. @param {string} callId @param {string} key @param {Around} around @param {(found: any) => HTMLElement} show */
function whole(callId, key, around, show) {
  const place = h("span");
  const button = h("button", { type: "button", class: "quiet small", "data-key": `whole ${key}` }, "Load the complete value");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      fill(place, show(await around.ledger(callId)));
    } catch (error) {
      fill(place, h("span", { class: "wrong" }, text(/** @type {Error} */ (error).message)));
    }
  });
  add(place, button);
  return place;
}

/** @param {any} call @param {Around} around */
function decision(call, { nameOf }) {
  const { id, status, by, remembered, message } = call.approval;
  const how = remembered ? " by a remembered decision" : by ? [" by ", nameOf(by, id)] : "";
  const changed = call.original ? differences(call.original, call.arguments) : [];
  return h("div", { class: "decision small" },
    h("p", null, h("strong", null, SAID[status] ?? status), how, message ? [": ", text(message)] : null),
    changed.map(([path, before, after]) => h("div", { class: "change" }, h("code", null, text(path || "arguments")), side("del", before), h("span", { class: "soft", "aria-hidden": "true" }, "→"), side("ins", after))));
}

/** @type {Record<string, string>} */
const SAID = { approved: "Approved", approve: "Approved", rejected: "Rejected", reject: "Rejected", edited: "Approved with edited arguments", responded: "A person responded, so the tool was not called", expired: "Approval expired", cancelled: "Cancelled because the run ended", superseded: "Superseded, because the tool was updated" };

/** @param {"del" | "ins"} tag @param {any} value */
function side(tag, value) {
  return value === undefined ? h("span", { class: "soft" }, tag === "del" ? "not set" : "removed") : h(tag, null, text(brief(value)));
}

/** @param {any} value */
function brief(value) {
  const source = typeof value === "string" ? value.slice(0, 400) : (JSON.stringify(value) ?? "");
  const characters = Array.from(source.slice(0, 400).replace(/\s+/g, " "));
  return characters.length > 110 ? `${characters.slice(0, 110).join("")}…` : characters.join("");
}

/** @param {Entry} entry @param {string} key @param {HTMLElement | null} raw @param {Around} around */
function noticeView(entry, key, raw, around) {
  const { type, data } = entry.events[0];
  const tone = WARNINGS.has(type) ? "warn" : "soft";
  const node = h("div", { class: `entry notice ${tone}` }, h("div", { class: "entry-head" }, h("p", null, noticed(type, data)), raw));
  if (type === "state.updated" && data.changes) add(node, h("details", { class: "io", "data-key": `state ${key}` }, h("summary", null, h("span", { class: "soft" }, text(brief(data.changes)))), json(data.changes)));
  if (type === "input.received") add(node, around.slot(entry));
  if (type === "model.calls_changed") add(node, h("details", { class: "io", "data-key": `calls ${key}` }, h("summary", null, h("span", { class: "soft" }, "Requested calls")), json(data.requested_calls)));
  return node;
}

/** @param {string} type @param {any} data */
function noticed(type, data) {
  switch (type) {
    case "handoff.completed": return ["Handed off ", data.from ? ["from ", h("strong", null, text(data.from)), " "] : null, "to ", h("strong", null, text(data.to))];
    case "input.received": return Number(data.messages) === 1 ? "The run received a message" : `The run received ${data.messages} messages`;
    case "state.updated": return "The state of the session was updated";
    case "model.setting_dropped": return [text(data.model), " does not support ", h("strong", null, text(data.setting)), ", so Runward did not send it: ", text(data.reason)];
    case "budget.exceeded": return `A budget of ${inUnit(data, number(data.limit_tokens ?? data.limit_usd) ?? 0)} has no room for the next model request, which needs about ${inUnit(data, number(data.estimate_tokens ?? data.estimate_usd) ?? 0)}. The period of the budget ends on ${moment(data.period_ends_at)}.`;
    case "model.calls_changed": return ["The tool calls of the model were changed by a ", text(data.hook)];
    default: return [text(data.message ?? data.code), data.model ? [" ", text(data.model), ` is called again${data.after_seconds ? ` in ${duration(Number(data.after_seconds) * 1000)}` : ""}.`] : null];
  }
}

/** @type {Map<string, Promise<string>>} Names of API keys by ID. */
const names = new Map();

/**
 * Return the name of the API key that decided. Until the name is loaded, it is the key's ID.
 * @param {string} by @param {string} approvalId @param {any} who
 */
export function deciderName(by, approvalId, who) {
  if (by === who.key.id) return text(`${who.key.name} (your key)`);
  const shown = h("span", null, text(shortId(by)));
  if (!names.has(by)) names.set(by, get(`v1/approvals/${approvalId}`).then((approval) => approval.decider?.name ?? shortId(by), () => shortId(by)));
  void names.get(by)?.then((name) => fill(shown, text(name)));
  return shown;
}
