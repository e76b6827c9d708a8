// The entries of a run's timeline: a pure fold over its events that does not touch the page.

/**
 * @typedef {object} Entry
 * @property {string} key Unique within its run.
 * @property {"message" | "reasoning" | "call" | "notice"} kind
 * @property {number} turn
 * @property {string | null} agent
 * @property {number} version Number of the last change. An entry that replaces another of the same key has a higher one.
 * @property {any[]} events The stored events of the entry. Empty while it is still being written.
 * @property {string} text
 * @property {number} length Length of the text in code points, as the server counts.
 * @property {boolean} open Whether the entry may still change.
 * @property {any} [call]
 *
 * @typedef {{from: number, to: number | null}} Span Milliseconds since 1970. `to` is null while the span lasts.
 * @typedef {"queue" | "model" | "retry" | "tool" | "wait"} Doing The activity that a run spends its time on.
 *
 * @typedef {object} Turn
 * @property {number} from Time of the model request.
 * @property {number | null} answered Time when the response was complete.
 * @property {number} to Time of the turn's last event.
 * @property {boolean} called Whether it has calls that have started or wait.
 *
 * @typedef {object} Line One run: the displayed run or a descendant.
 * @property {string} id
 * @property {any} created The data of run.created.
 * @property {string} status
 * @property {number | null} from Start time by the database's clock.
 * @property {number | null} to
 * @property {Entry[]} entries
 * @property {Map<string, Entry>} byKey
 * @property {Set<Entry>} drafts Entries that are still being written.
 * @property {Map<number, Turn>} turns
 * @property {number} done The last turn whose answer is complete.
 * @property {number} last Time of the last event, except for notices about the model.
 * @property {{at: number, doing: Doing}[]} phases Activities with their start times.
 * @property {Set<string>} running IDs of calls in progress.
 * @property {Set<string>} asking IDs of calls that wait for a decision.
 * @property {any} usage
 * @property {any} end The data of the final event.
 */

/** @type {Record<string, string>} */
const STATUS_AFTER = { "run.created": "queued", "run.started": "in_progress", "run.waiting": "requires_action", "run.resumed": "in_progress", "run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled", "run.incomplete": "incomplete", "run.expired": "expired" };
export const OVER = new Set(["completed", "failed", "cancelled", "incomplete", "expired"]);
const NOTICES = new Set(["handoff.completed", "state.updated", "input.received", "model.retried", "model.setting_dropped", "model.calls_changed", "budget.exceeded"]);
const OF_THE_MODEL = new Set(["model.retried", "model.setting_dropped"]);
const CALL_ENDS = new Set(["completed", "failed", "timed_out", "rejected", "outcome_unknown", "cancelled"]);

let changes = 0;

export class Timeline {
  /** @param {string} runId */
  constructor(runId) {
    this.runId = runId;
    /** @type {Map<string, Line>} */
    this.lines = new Map();
    /** @type {any[]} */
    this.events = [];
    /** Keys of entries by the IDs of their stored events. @type {Map<string, string>} */
    this.owners = new Map();
    /** The call that started a child run, by run. @type {Map<string, {line: Line, entry: Entry}>} */
    this.parents = new Map();
    this.latest = 0;
  }

  /** @param {string} id @returns {Line} */
  line(id) {
    let line = this.lines.get(id);
    if (!line) {
      line = { id, created: null, status: "queued", from: null, to: null, entries: [], byKey: new Map(), drafts: new Set(), turns: new Map(), done: 0, last: 0, phases: [], running: new Set(), asking: new Set(), usage: null, end: null };
      this.lines.set(id, line);
    }
    return line;
  }

  /** @param {import("./api.js").Frame} frame */
  take(frame) {
    const event = frame.data;
    const line = this.line(event.run_id);
    if (frame.id === null) {
      if (!OVER.has(line.status)) draft(line, frame.type, event.data);
      return;
    }
    this.events.push(event);
    const at = Date.parse(event.created_at);
    this.latest = Math.max(this.latest, at);
    line.from ??= at;
    const entry = stored(line, event, at);
    if (entry) this.owners.set(event.id, entryKey(line, entry));
    if (entry?.call?.child) this.parents.set(entry.call.child, { line, entry });
    time(line, event, at, entry);
  }
}

/** One entry among those of all runs. @param {Line} line @param {Entry} entry */
export function entryKey(line, entry) {
  return `${line.id} ${entry.key}`;
}

/** @param {Line} line @param {any} event @param {number} at @returns {Entry | null} The entry of the event. */
function stored(line, event, at) {
  const { type, data } = event;
  if (type in STATUS_AFTER) {
    line.status = STATUS_AFTER[type];
    if (type === "run.created") line.created = data;
    if (type === "run.resumed") drop(line, () => true); // text that the previous worker streamed is void
    if (!OVER.has(line.status)) return null;
    drop(line, () => true);
    line.to = at;
    line.end = data;
    return null;
  }
  if (type === "usage.updated") {
    line.usage = data;
    line.done = Math.max(line.done, data.turn);
    drop(line, (one) => one.turn <= line.done);
  } else if (type === "message.completed") return said(line, "message", event, data.text || data.refusal || "");
  else if (type === "reasoning.completed") return said(line, "reasoning", event, reasoningText(data.reasoning));
  else if (type.startsWith("tool_call.")) return call(line, event, at);
  else if (NOTICES.has(type)) {
    if (type === "budget.exceeded") line.status = "queued"; // until `run.resumed`
    const turn = OF_THE_MODEL.has(type) ? line.done + 1 : (data.turn ?? line.done);
    const entry = entryOf(line, `n${event.sequence}`, "notice", turn, data.agent ?? null);
    entry.events.push(event);
    return entry;
  }
  return null;
}

/** Record how the run spends its time. @param {Line} line @param {any} event @param {number} at @param {Entry | null} entry */
function time(line, { type, data }, at, entry) {
  if (entry && entry.turn > 0) {
    const turn = turnOf(line, entry.turn);
    turn.to = Math.max(turn.to, at);
    turn.called ||= entry.kind === "call" && entry.call.attempts.length + entry.call.waits.length > 0;
    if (!OF_THE_MODEL.has(type)) turn.answered ??= at;
  }
  if (!OF_THE_MODEL.has(type)) line.last = at;
  while ((line.phases.at(-1)?.at ?? 0) > at) line.phases.pop();
  const now = doing(line);
  if (line.phases.at(-1)?.doing !== now) line.phases.push({ at, doing: now });
  if (type === "model.retried" && data.after_seconds) {
    line.phases.push({ at, doing: "retry" }, { at: at + Number(data.after_seconds) * 1000, doing: "model" });
  }
}

/** @param {Line} line @param {number} number @returns {Turn} */
function turnOf(line, number) {
  let turn = line.turns.get(number);
  if (!turn) {
    const from = line.last || (line.from ?? 0);
    turn = { from, answered: null, to: from, called: false };
    line.turns.set(number, turn);
  }
  return turn;
}

/** @param {Line} line @returns {Doing} */
function doing(line) {
  if (line.status === "queued") return "queue";
  if (line.status === "requires_action") return "wait";
  if (line.running.size) return "tool";
  return line.asking.size ? "wait" : "model";
}

/** @param {Line} line @param {"message" | "reasoning"} kind @param {any} event @param {string} text @returns {Entry | null} */
function said(line, kind, event, text) {
  const { turn, agent } = event.data;
  const key = `${kind} ${turn}`;
  const drafted = line.byKey.get(key);
  if (!text && kind === "reasoning") {
    if (drafted?.open) drop(line, (one) => one === drafted);
    return null;
  }
  const entry = drafted?.open ? drafted : entryOf(line, drafted ? `${key} ${event.sequence}` : key, kind, turn, agent);
  entry.events.push(event);
  touch(entry, { text, open: false });
  return entry;
}

/** Apply a transient delta. `offset` counts code points, so that a repeated delta replaces the old text.
 * @param {Line} line @param {string} type @param {any} data */
function draft(line, type, data) {
  if (type === "message.restarted") {
    drop(line, (one) => one.turn === data.turn);
    return;
  }
  if (data.turn <= line.done) return; // the stored event has already arrived
  const ofCall = type === "tool_call.arguments.delta";
  const kind = ofCall ? "call" : type === "message.delta" ? "message" : "reasoning";
  const key = ofCall ? `c ${data.call_id}` : `${kind} ${data.turn}`;
  let entry = line.byKey.get(key);
  if (!entry) {
    turnOf(line, data.turn);
    entry = entryOf(line, key, kind, data.turn, data.agent ?? null);
    line.drafts.add(entry);
    if (ofCall) entry.call = newCall(data, "writing", line.turns.get(data.turn)?.from ?? 0);
  }
  if (entry.events.length || !entry.open) return;
  const kept = data.offset === entry.length ? entry.text : Array.from(entry.text).slice(0, data.offset).join("");
  touch(entry, { text: kept + data.text, length: data.offset + Array.from(data.text).length });
}

/** Remove entries that are still being written. @param {Line} line @param {(entry: Entry) => boolean} which */
function drop(line, which) {
  /** @type {Set<Entry>} */
  const gone = new Set();
  for (const one of line.drafts) {
    if (one.open && one.events.length === 0 && !which(one)) continue;
    line.drafts.delete(one);
    if (one.open && one.events.length === 0) gone.add(one);
  }
  if (gone.size === 0) return;
  line.entries = line.entries.filter((one) => !gone.has(one));
  for (const one of gone) line.byKey.delete(one.key);
}

/** @param {any} data @param {string} state @param {number} at */
function newCall(data, state, at) {
  return { id: data.call_id, tool: data.tool, arguments: data.arguments, state, at, attempts: [], waits: [], progress: [], approval: null, child: null, end: null, ended: null };
}

/** @param {Line} line @param {any} event @param {number} at @returns {Entry} */
function call(line, event, at) {
  const data = event.data;
  const what = event.type.slice("tool_call.".length);
  const key = `c ${data.call_id}`;
  let entry = line.byKey.get(key);
  if (!entry || (what === "created" && entry.events.length && entry.call.end)) {
    entry = entryOf(line, entry ? `${key} ${event.sequence}` : key, "call", data.turn ?? line.done, data.agent ?? null);
    entry.call = newCall(data, "created", at);
    if (entry.key !== key) line.byKey.set(key, entry); // later events belong to this entry
  }
  entry.events.push(event);
  const one = entry.call;
  if (what === "created") Object.assign(one, { at, state: "created", tool: data.tool, version: data.tool_version, type: data.tool_type, arguments: data.arguments, raw: data.arguments_text, hosted: data.hosted, truncated: data.truncated, bytes: data.arguments_bytes });
  else if (what === "approval_requested") {
    one.approval = { id: data.approval_id, status: "pending" };
    one.waits.push({ from: at, to: null });
    one.state = "waiting";
    line.asking.add(one.id);
  } else if (what === "approval_decided") {
    one.approval = { id: data.approval_id ?? one.approval?.id, status: data.status ?? data.decision, by: data.decided_by, remembered: data.remembered, message: data.message };
    close(one.waits, at);
    if (data.arguments) Object.assign(one, { original: one.arguments, arguments: data.arguments });
    one.state = "decided";
    line.asking.delete(one.id);
  } else if (what === "started") {
    close(one.attempts, at, true);
    one.attempts.push({ from: at, to: null, number: data.attempt });
    one.state = "running";
    line.running.add(one.id);
  } else if (what === "progress") {
    one.progress.push(data);
    if (data.status === "child_started") {
      Object.assign(one, { child: data.run_id, state: "running" });
      line.running.add(one.id);
      if (one.attempts.length === 0) one.attempts.push({ from: at, to: null, number: 1 });
    }
  } else if (CALL_ENDS.has(what)) {
    close(one.attempts, at);
    line.running.delete(one.id);
    if (data.awaiting_resolution) one.state = "unknown";
    else {
      close(one.waits, at);
      line.asking.delete(one.id);
      Object.assign(one, { state: what, end: data, ended: at });
    }
  }
  touch(entry, { open: one.end === null });
  return entry;
}

/** @param {(Span & {again?: boolean})[]} spans @param {number} at @param {boolean} [again] Whether it is another attempt. */
function close(spans, at, again = false) {
  for (const span of spans) {
    if (span.to !== null) continue;
    span.to = at;
    if (again) span.again = true;
  }
}

/** @param {Line} line @param {string} key @param {Entry["kind"]} kind @param {number} turn @param {string | null} agent @returns {Entry} */
function entryOf(line, key, kind, turn, agent) {
  /** @type {Entry} */
  const entry = { key, kind, turn: turn ?? 0, agent, version: ++changes, events: [], text: "", length: 0, open: true };
  line.entries.push(entry);
  line.byKey.set(key, entry);
  return entry;
}

/** @param {Entry} entry @param {Partial<Entry>} change */
function touch(entry, change) {
  Object.assign(entry, change);
  entry.version = ++changes;
}

/** @param {any} reasoning The reasoning from the provider. */
function reasoningText(reasoning) {
  if (typeof reasoning === "string") return reasoning;
  return [reasoning?.summary ?? reasoning?.text ?? reasoning ?? []].flat().map((one) => (typeof one === "string" ? one : (one?.text ?? ""))).join("\n").trim();
}
