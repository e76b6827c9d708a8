// What a run's events mean for the eye: a pure fold from events to entries, nothing of the page.

/**
 * @typedef {object} Entry
 * @property {string} key
 * @property {"message" | "reasoning" | "call" | "notice"} kind
 * @property {number} turn
 * @property {string | null} agent
 * @property {number} version Grows with every change.
 * @property {any[]} events The stored events that made it.
 * @property {string} text
 * @property {boolean} open It may still change.
 * @property {any} [call]
 *
 * @typedef {object} Line One run: the one that is looked at, or one below it.
 * @property {string} id
 * @property {any} created The data of run.created.
 * @property {string} status
 * @property {number | null} from Milliseconds since 1970, by the database's clock.
 * @property {number | null} to
 * @property {Entry[]} entries
 * @property {Map<string, Entry>} calls
 * @property {any} usage
 * @property {any} end The data of the final event.
 * @property {string | null} parentCall
 */

/** @type {Record<string, string>} */
const STATUS_AFTER = { "run.created": "queued", "run.started": "in_progress", "run.waiting": "requires_action", "run.resumed": "in_progress", "run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled", "run.incomplete": "incomplete", "run.expired": "expired" };
const ENDS = new Set(["completed", "failed", "cancelled", "incomplete", "expired"]);
const NOTICES = new Set(["agent.changed", "state.updated", "input.received", "model.retried", "model.downgraded"]);
const CALL_ENDS = new Set(["completed", "failed", "timed_out", "rejected", "outcome_unknown", "cancelled"]);

export class Timeline {
  /** @param {string} runId */
  constructor(runId) {
    this.runId = runId;
    /** @type {Map<string, Line>} */
    this.lines = new Map();
    /** @type {any[]} */
    this.events = [];
    this.latest = 0;
  }

  /** @param {string} id @returns {Line} */
  line(id) {
    let line = this.lines.get(id);
    if (!line) {
      line = { id, created: null, status: "queued", from: null, to: null, entries: [], calls: new Map(), usage: null, end: null, parentCall: null };
      this.lines.set(id, line);
    }
    return line;
  }

  /** @param {import("./api.js").Frame} frame */
  take(frame) {
    const event = frame.data;
    const line = this.line(event.run_id);
    if (frame.id === null) this.draft(line, frame.type, event.data);
    else {
      this.events.push(event);
      this.stored(line, event);
    }
  }

  /** @param {Line} line @param {any} event */
  stored(line, event) {
    const at = Date.parse(event.created_at);
    const data = event.data;
    this.latest = Math.max(this.latest, at);
    line.from ??= at;
    if (event.type in STATUS_AFTER) {
      line.status = STATUS_AFTER[event.type];
      if (event.type === "run.created") {
        line.created = data;
        line.parentCall = data.parent_call_id ?? null;
      }
      if (ENDS.has(line.status)) {
        line.to = at;
        line.end = data;
        for (const entry of line.entries) if (entry.open && entry.kind !== "call") touch(entry, { open: false });
      }
    } else if (event.type === "usage.updated") line.usage = data;
    else if (event.type === "message.completed") this.said(line, "message", event, data.text || data.refusal || "");
    else if (event.type === "reasoning.completed") this.said(line, "reasoning", event, reasoningText(data.reasoning));
    else if (event.type.startsWith("tool_call.")) call(line, event, at);
    else if (NOTICES.has(event.type)) {
      entryOf(line, `n${event.sequence}`, "notice", data.turn ?? lastTurn(line), data.agent ?? null, event);
    }
  }

  /** @param {Line} line @param {"message" | "reasoning"} kind @param {any} event @param {string} text */
  said(line, kind, event, text) {
    const key = `${kind} ${event.data.turn}`;
    const drafted = line.entries.find((one) => one.key === key && one.open);
    const entry = drafted ?? entryOf(line, drafted ? key : unique(line, key), kind, event.data.turn, event.data.agent, null);
    entry.events.push(event);
    touch(entry, { text, open: false });
    if (!text && kind === "reasoning") line.entries.splice(line.entries.indexOf(entry), 1);
  }

  /** A transient piece. `offset` counts characters, so that one that comes again replaces.
   * @param {Line} line @param {string} type @param {any} data */
  draft(line, type, data) {
    if (type === "message.restarted") {
      line.entries = line.entries.filter((one) => !(one.open && one.turn === data.turn && one.kind !== "call"));
      return;
    }
    const kind = type === "message.delta" ? "message" : type === "reasoning.delta" ? "reasoning" : null;
    if (kind === null) return; // a call's arguments come whole a moment later
    const key = `${kind} ${data.turn}`;
    const entry = line.entries.find((one) => one.key === key) ?? entryOf(line, key, kind, data.turn, data.agent, null);
    if (!entry.open) return;
    touch(entry, { text: Array.from(entry.text).slice(0, data.offset).join("") + data.text });
  }
}

/** @param {Line} line @param {any} event @param {number} at */
function call(line, event, at) {
  const data = event.data;
  const what = event.type.slice("tool_call.".length);
  let entry = line.calls.get(data.call_id);
  if (!entry) {
    entry = entryOf(line, `c ${data.call_id}`, "call", data.turn ?? lastTurn(line), data.agent ?? null, null);
    entry.call = { id: data.call_id, tool: data.tool, arguments: data.arguments, state: "created", at, attempts: [], waits: [], progress: [], approval: null, child: null, end: null };
    line.calls.set(data.call_id, entry);
  }
  entry.events.push(event);
  const one = entry.call;
  if (what === "created") Object.assign(one, { tool: data.tool, version: data.tool_version, arguments: data.arguments, hosted: data.hosted, truncated: data.truncated });
  else if (what === "approval_requested") {
    one.approval = { id: data.approval_id, status: "pending" };
    one.waits.push({ from: at, to: null });
    one.state = "waiting";
  } else if (what === "approval_decided") {
    one.approval = { id: data.approval_id ?? one.approval?.id, status: data.status ?? data.decision, by: data.decided_by, remembered: data.remembered, message: data.message };
    close(one.waits, at);
    if (data.arguments) Object.assign(one, { original: one.arguments, arguments: data.arguments });
    one.state = "decided";
  } else if (what === "started") {
    one.attempts.push({ from: at, to: null, number: data.attempt });
    one.state = "running";
  } else if (what === "progress") {
    one.progress.push(data);
    if (data.status === "child_started") one.child = data.run_id;
  } else if (CALL_ENDS.has(what)) {
    close(one.attempts, at);
    if (data.awaiting_resolution) one.state = "unknown";
    else {
      close(one.waits, at);
      one.state = what;
      one.end = data;
    }
  }
  touch(entry, { open: one.end === null });
}

/** @param {{to: number | null}[]} spans @param {number} at */
function close(spans, at) {
  for (const span of spans) span.to ??= at;
}

/** @param {Line} line @param {string} key @param {Entry["kind"]} kind @param {number} turn @param {string | null} agent @param {any} event @returns {Entry} */
function entryOf(line, key, kind, turn, agent, event) {
  /** @type {Entry} */
  const entry = { key, kind, turn: turn ?? 0, agent, version: 0, events: event ? [event] : [], text: "", open: true };
  line.entries.push(entry);
  return entry;
}

/** @param {Entry} entry @param {Partial<Entry>} change */
function touch(entry, change) {
  Object.assign(entry, change);
  entry.version += 1;
}

/** @param {Line} line @param {string} key */
function unique(line, key) {
  return line.entries.some((one) => one.key === key) ? `${key} ${line.entries.length}` : key;
}

/** @param {Line} line */
function lastTurn(line) {
  return line.entries.at(-1)?.turn ?? 0;
}

/** @param {any} reasoning as the vendor shows it. */
function reasoningText(reasoning) {
  if (typeof reasoning === "string") return reasoning;
  return [reasoning?.summary ?? reasoning?.text ?? reasoning ?? []].flat().map((one) => (typeof one === "string" ? one : (one?.text ?? ""))).join("\n").trim();
}
