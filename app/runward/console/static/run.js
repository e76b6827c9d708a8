// The page of one run: a live timeline, and the raw events next to it.

import { erasedView, factsOf, inputView } from "./about.js";
import { cancelling, runAgain, saying, when } from "./acting.js";
import { Problem, all, follow, get } from "./api.js";
import { approvalCard } from "./approval.js";
import { content } from "./content.js";
import { details } from "./details.js";
import { add, fill, h, keeping, note, text } from "./dom.js";
import { deciderName, entryView, rewrite } from "./entries.js";
import { count, duration, shortId, spentOn } from "./format.js";
import { List } from "./list.js";
import { outcome } from "./outcome.js";
import { RawList } from "./rawlist.js";
import { requiredAction } from "./required.js";
import { badge } from "./runs.js";
import { OVER, Timeline, entryKey } from "./timeline.js";
import { axis, lay, spent } from "./timing.js";

/** @typedef {import("./timeline.js").Line} Line */
/** @typedef {import("./timeline.js").Entry} Entry */

const CLOCK_MS = 500;
const FEW_EVENTS = 100;
const CATCH_UP_MS = 150; // between two renderings while past events are loaded
const ROW_PX = 90;
const NEAR_PX = 60;
const NARROW = "(max-width: 60rem)";

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function run(main, { id, who, go, watch }) {
  const leaving = new AbortController();
  const timeline = new Timeline(id);
  const may = { write: who.scopes.includes("runs:write"), decide: who.scopes.includes("approvals:decide") };
  const title = h("h1", null, shortId(id));
  const state = h("span", { role: "status" });
  const link = h("span", { class: "link soft small", role: "status" });
  const actions = h("div", { class: "head-actions" });
  const facts = h("p", { class: "soft facts" });
  const took = h("span", { class: "number" });
  const usage = h("span");
  const strip = h("section", { class: "spent", "aria-label": "Timing" });
  const input = h("section", { class: "run-input", "aria-label": "Input" });
  const lines = h("div", { class: "timeline" });
  const end = h("section", { "aria-label": "Outcome", "aria-live": "polite" });
  const composer = h("div", { class: "acting" });
  const cancel = cancelling(id, () => void refresh());
  const raw = new RawList(id, leaving.signal, (event) => timeline.line(event.run_id).created?.agent ?? "child run", (event) => pick(timeline.owners.get(event.id) ?? null, true));
  fill(main, h("p", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs")),
    h("header", { class: "run-head" }, h("div", { class: "run-title" }, title, state, link, actions), cancel.panel, facts, strip),
    h("div", { class: "columns" }, h("div", { class: "story-column" }, end, input, lines, composer), raw.element));

  /** @type {any} The run from the API. */
  let shown = null;
  let pending = false;
  let loaded = false; // all events from before the page was opened are loaded
  let status = "";
  /** @type {string | null} The entry whose events are marked. */
  let chosen = null;
  /** @type {Map<string, {version: number, node: HTMLElement}>} */
  const drawn = new Map();
  /** Forms and cards for calls, by entry. They survive a redraw of their entry. @type {Map<string, {what: string, element: HTMLElement}>} */
  const slots = new Map();
  /** The parts that the rows of all lists show, by key. @type {Map<string, {part: "turn" | "axis" | "entry", line: Line, entry: Entry}>} */
  const parts = new Map();
  /** The lists of the child runs and their descendants, by run. @type {Map<string, List>} */
  const below = new Map();
  /** Descendant runs that were unfolded, by a person or automatically. @type {Set<string>} */
  const opened = new Set();
  const list = listIn(lines);

  /** @param {HTMLElement} element */
  function listIn(element) {
    return new List(element, { draw: rowOf, height: ROW_PX, signal: leaving.signal, drawn: () => clock() });
  }

  /** @param {Line} line @param {Entry} entry */
  function slotOf(line, entry) {
    const key = entryKey(line, entry);
    const known = slots.get(key) ?? { what: "", element: h("div", { class: "slot" }) };
    slots.set(key, known);
    const what = entry.kind === "notice" ? "said" : entry.call.approval?.status === "pending" ? entry.call.approval.id : known.what.startsWith("required") ? known.what : "";
    if (what === known.what) return known.element;
    known.what = what;
    fill(known.element);
    if (what === "said") void said(line, entry, known.element);
    else if (what) void ask(entry.call, known.element);
    return known.element;
  }

  /** Show the card of an approval. @param {any} call @param {HTMLElement} place */
  async function ask(call, place) {
    fill(place, h("p", { class: "soft" }, h("a", { href: "#/inbox" }, "Open the approval in the inbox")));
    const approval = await details({ approval_id: call.approval.id }, leaving.signal).catch(() => null);
    if (approval?.status !== "pending") return;
    fill(place, approvalCard(approval, { inRun: true, may: may.decide, decided: (now) => {
      note([text(now.tool), `: ${now.status}.`]);
      watch.poke();
    } }).element);
  }

  /** Show the text of messages that were sent to the open run. @param {Line} line @param {Entry} entry @param {HTMLElement} place */
  async function said(line, entry, place) {
    const { sequence, data } = entry.events[0];
    const page = await all(`v1/runs/${line.id}/items`, {}, 1000, leaving.signal).catch(() => null);
    if (!page) return;
    const before = timeline.events.filter((one) => one.run_id === line.id && one.type === "input.received" && one.sequence < sequence).reduce((sum, one) => sum + Number(one.data.messages), 0);
    const later = page.data.filter((one) => one.role && one.role !== "assistant" && one.turn > 0);
    fill(place, later.slice(before, before + Number(data.messages)).map((one) => h("div", { class: "said" }, content(one, `said ${one.id}`))));
  }

  /** Add the forms for required actions other than approvals to their calls. */
  function require_() {
    let unfolds = false;
    for (const action of shown?.required_actions ?? []) {
      const line = timeline.lines.get(action.run_id);
      const entry = line?.byKey.get(`c ${action.call_id}`);
      if (!line || !entry || action.type === "approval") continue;
      const what = `required ${action.type} ${JSON.stringify(action.requests ?? null)}`;
      const known = slots.get(entryKey(line, entry)) ?? { what: "", element: h("div", { class: "slot" }) };
      slots.set(entryKey(line, entry), known);
      if (known.what === what) continue;
      unfolds ||= line.id !== id && !opened.has(line.id);
      opened.add(line.id);
      known.what = what;
      fill(known.element, requiredAction(action, { runId: id, may: who.scopes, done: () => {
        note([text(action.tool), ": settled."]);
        void refresh();
      } }));
    }
    if (unfolds) draw(); // a folded run is not drawn
  }

  /** @param {string} callId @param {Line} line */
  function ledger(callId, line) {
    return get(`v1/runs/${line.id}/tool_calls/${encodeURIComponent(callId)}`, undefined, leaving.signal);
  }

  /** Mark an entry and its events. @param {string | null} key @param {boolean} fromRaw */
  function pick(key, fromRaw) {
    const before = chosen && drawn.get(chosen)?.node;
    if (before) mark(before, false);
    chosen = key;
    if (key === null) {
      raw.choose([], false);
      return;
    }
    const [runId] = key.split(" ", 1);
    const line = timeline.line(runId);
    const entry = line.byKey.get(key.slice(runId.length + 1));
    if (!entry) return;
    const node = fromRaw && !matchMedia(NARROW).matches ? reveal(line, entry) : drawn.get(key)?.node;
    if (node) mark(node, true);
    raw.choose(entry.events, !fromRaw);
  }

  /** @param {HTMLElement} node @param {boolean} on */
  function mark(node, on) {
    node.classList.toggle("chosen", on);
    node.querySelector(":scope .raw-button")?.setAttribute("aria-pressed", String(on));
  }

  /** Unfold the runs that contain an entry, and scroll to it. @param {Line} line @param {Entry} entry @returns {HTMLElement | null} */
  function reveal(line, entry) {
    const parent = timeline.parents.get(line.id);
    if (parent && line.id !== id) {
      opened.add(line.id);
      reveal(parent.line, parent.entry);
      draw();
    }
    return (line.id === id ? list : below.get(line.id))?.reveal(entryKey(line, entry)) ?? null;
  }

  /** @param {string} key @param {number} version @param {() => HTMLElement} make */
  function kept(key, version, make) {
    const known = drawn.get(key);
    if (known?.version === version) return known.node;
    const node = make();
    drawn.set(key, { version, node });
    return node;
  }

  /** Return the keys of a run's rows. @param {Line} line */
  function keysOf(line) {
    /** @type {string[]} */
    const keys = [];
    const put = (/** @type {string} */ key, /** @type {"turn" | "axis" | "entry"} */ part, /** @type {Entry} */ entry) => {
      parts.set(key, { part, line, entry });
      keys.push(key);
    };
    let turn = 0;
    for (const entry of line.entries) {
      if (entry.turn !== turn && entry.turn > 0) {
        turn = entry.turn;
        put(`${line.id} turn ${turn} ${entry.key}`, "turn", entry);
        if (line.turns.get(turn)?.called) put(`${line.id} axis ${turn} ${entry.key}`, "axis", entry);
      }
      put(entryKey(line, entry), "entry", entry);
    }
    return keys;
  }

  /** @param {string} key */
  function rowOf(key) {
    const { part, line, entry } = /** @type {{part: string, line: Line, entry: Entry}} */ (parts.get(key));
    if (part === "entry") return view(line, entry);
    return kept(key, 0, () => (part === "axis" ? axis(line.id, entry.turn) : turnView(line, entry)));
  }

  /** @param {Line} line @param {Entry} first */
  function turnView(line, first) {
    const heading = h("h2", { class: "turn" }, h("span", null, `Turn ${first.turn}`, first.agent && first.agent !== line.created?.agent ? [" · ", text(first.agent)] : null), h("span", { class: "rule" }), h("span", { class: "took soft number" }));
    heading.dataset.run = line.id;
    heading.dataset.number = String(first.turn);
    return heading;
  }

  /** @param {Line} line @param {Entry} entry */
  function view(line, entry) {
    const key = entryKey(line, entry);
    const known = drawn.get(key);
    if (known && entry.open && entry.events.length === 0 && known.version !== entry.version) {
      rewrite(known.node, entry);
      known.version = entry.version;
    }
    const node = kept(key, entry.version, () => {
      const made = entryView(entry, key, { runId: line.id, choose: () => pick(chosen === key ? null : key, false), slot: () => slotOf(line, entry), ledger: (callId) => ledger(callId, line), nameOf: (by, approvalId) => deciderName(by, approvalId, who) });
      if (chosen === key) raw.choose(entry.events, false);
      return made;
    });
    mark(node, chosen === key);
    const child = entry.call?.child ? timeline.lines.get(entry.call.child) : null;
    if (child) childView(node, child);
    return node;
  }

  /** Return the element of a descendant run. Its content is drawn when it is unfolded. @param {HTMLElement} node @param {Line} child */
  function childView(node, child) {
    const lines_ = kept(`lines ${child.id}`, 0, () => h("div", { class: "timeline" }));
    const details = /** @type {HTMLDetailsElement} */ (kept(`child ${child.id}`, 0, () => {
      const made = h("details", { class: "child" }, h("summary"),
        h("p", { class: "small" }, h("a", { href: `#/runs/${child.id}` }, "Open the page of this run"), " ", h("code", { class: "soft" }, shortId(child.id))), lines_);
      // "toggle" comes later. An event of the run in between would unfold it again.
      made.firstElementChild?.addEventListener("click", () => made.open && opened.delete(child.id));
      made.addEventListener("toggle", draw);
      return made;
    }));
    const calls = child.entries.filter((one) => one.kind === "call").length;
    const now = `${child.status} ${child.done} ${calls}`;
    if (details.dataset.now !== now) {
      details.dataset.now = now;
      if (child.asking.size) opened.add(child.id);
      fill(/** @type {Element} */ (details.firstElementChild), "Child run of agent ", h("strong", null, text(child.created?.agent ?? "an agent")), " ", badge(child.status), h("span", { class: "soft small" }, ` ${child.done} ${child.done === 1 ? "turn" : "turns"}${calls ? `, ${calls} ${calls === 1 ? "call" : "calls"}` : ""}`));
    }
    if (opened.has(child.id)) details.open = true;
    if (details.parentNode !== node) add(node, details);
    if (!details.open) return;
    if (!below.has(child.id)) below.set(child.id, listIn(lines_));
    below.get(child.id)?.show(keysOf(child));
  }

  function draw() {
    pending = false;
    if (leaving.signal.aborted) return;
    const line = timeline.line(id);
    const follows = loaded && !OVER.has(line.status) && line.asking.size === 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_PX;
    keeping(lines, () => list.show(keysOf(line)));
    for (const one of below.values()) one.layout(); // lists that were just added to the page
    raw.grow(timeline.events);
    clock();
    finish();
    if (follows && scrollY > 0) scrollTo({ top: document.documentElement.scrollHeight });
    if (line.status !== status) {
      status = line.status;
      when(state, status, () => badge(status));
      if (OVER.has(status)) cancel.panel.hidden = true;
    }
    require_();
  }

  function finish() {
    const line = timeline.line(id);
    const parent = line.created?.parent_call_id;
    const kind = !may.write || shown?.erased_at ? "none" : OVER.has(line.status) ? "over" : "open";
    when(actions, kind, () => (kind === "none" ? null : kind === "over" ? runAgain(id) : cancel.opener));
    when(composer, !may.write || OVER.has(line.status) || line.created === null ? "none" : parent ? "child" : "open", () => (composer.dataset.now === "open" ? saying(id) : composer.dataset.now === "child" ? h("p", { class: "soft small" }, "A child run does not accept messages. Send the message to the parent run.") : null));
    when(end, OVER.has(line.status) ? `${line.status} ${shown?.status} ${shown?.erased_at}` : "", () => outcome(line, shown, may.write, go));
  }

  function clock() {
    const line = timeline.line(id);
    if (line.from === null) return;
    const now = Math.max(timeline.latest, Date.now());
    lay(lines, (runId) => timeline.line(runId), now);
    if (!OVER.has(line.status) || strip.dataset.now !== line.status) {
      strip.dataset.now = line.status;
      fill(strip, spent(line, now));
    }
    fill(took, duration((line.to ?? now) - line.from));
    const used = line.usage ?? shown?.usage;
    if (Number(used?.total_tokens)) fill(usage, `${count(used.total_tokens)} tokens (${count(used.input_tokens)} in, ${count(used.output_tokens)} out) · ${spentOn(used, line.created?.model ?? shown?.model)}`);
    for (const heading of /** @type {NodeListOf<HTMLElement>} */ (lines.querySelectorAll(".turn"))) {
      const turn = timeline.line(heading.dataset.run ?? "").turns.get(Number(heading.dataset.number));
      const said = turn?.answered ? `model ${duration(turn.answered - turn.from)}` : "";
      if (heading.dataset.said === said) continue;
      heading.dataset.said = said;
      fill(/** @type {Element} */ (heading.querySelector(".took")), said);
    }
  }

  async function refresh() {
    try {
      shown = await get(`v1/runs/${id}`, undefined, leaving.signal);
    } catch (error) {
      if (leaving.signal.aborted) return;
      if (error instanceof Problem && error.status === 404) {
        leaving.abort();
        fill(main, h("h1", null, "Run not found"), h("p", null, "This project has no run with this ID. ", h("a", { href: "#/runs" }, "All runs")));
      }
      return;
    }
    const models = [shown.model ?? "workflow"].flat().join(", ");
    fill(title, shown.agent ? text(shown.agent) : text(models));
    fill(facts, factsOf(shown, models, took, usage));
    if (shown.erased_at) fill(input, erasedView(shown));
    if (status === "") when(state, shown.status, () => badge(shown.status));
    clock();
    finish();
    require_();
  }

  async function begin() {
    void refresh().then(async () => {
      if (shown && !shown.erased_at) fill(input, inputView((await get(`v1/runs/${id}/items`, { limit: 50 }, leaving.signal)).data, shown));
    }).catch(() => undefined);
    await follow(id, (frame) => {
      timeline.take(frame);
      if (frame.id !== null && TELLING.test(frame.type)) void refreshSoon();
      if (pending) return;
      pending = true;
      const soon = () => {
        draw();
        loaded ||= timeline.events.length >= (shown?.last_sequence ?? Infinity);
      };
      if (loaded || timeline.events.length < FEW_EVENTS) requestAnimationFrame(soon);
      else setTimeout(soon, CATCH_UP_MS);
    }, (connected) => {
      main.dataset.link = connected ? "live" : "lost";
      fill(link, connected ? "" : "Connection lost. Reconnecting…");
    }, leaving.signal);
    fill(link, "");
    main.dataset.link = "done";
    loaded = true;
    void refresh();
  }
  let busy = false;
  let again = false;
  /** Load the run again, one request at a time. A change during a request causes one more. */
  async function refreshSoon() {
    again = true;
    if (busy) return;
    busy = true;
    while (again && !leaving.signal.aborted) {
      again = false;
      await refresh();
    }
    busy = false;
  }
  begin().catch((error) => leaving.signal.aborted || note(text(error.message), "error"));
  const ticking = setInterval(() => !OVER.has(timeline.line(id).status) && clock(), CLOCK_MS);
  return () => {
    leaving.abort();
    clearInterval(ticking);
    delete main.dataset.link;
  };
}

/** Events that change the run's required actions. */
const TELLING = /^(run\.(?!created)|tool_call\.(progress|outcome_unknown))/;
