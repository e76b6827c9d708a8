// One run: a timeline that grows as it happens, and the raw events beside it.

import { factsOf, inputView } from "./about.js";
import { cancelling, runAgain, saying, when } from "./acting.js";
import { Problem, all, follow, get } from "./api.js";
import { approvalCard } from "./approval.js";
import { details } from "./details.js";
import { add, arrange, fill, h, keeping, note, text } from "./dom.js";
import { deciderName, entryView, rewrite, saidView } from "./entries.js";
import { count, duration, shortId, spentOn } from "./format.js";
import { outcome } from "./outcome.js";
import { RawList } from "./rawlist.js";
import { requiredAction } from "./required.js";
import { badge } from "./runs.js";
import { OVER, Timeline, entryKey } from "./timeline.js";
import { axis, lay, spent } from "./timing.js";

/** @typedef {import("./timeline.js").Line} Line */
/** @typedef {import("./timeline.js").Entry} Entry */

const CLOCK_MS = 500;
const TURNS_BEFORE = 2; // of a long run: what is drawn of its beginning, and of its end
const TURNS_BEHIND = 15;
const MOST_TURNS = 25;
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
  const strip = h("section", { class: "spent", "aria-label": "Where the time went" });
  const input = h("section", { class: "run-input", "aria-label": "Input" });
  const lines = h("div", { class: "timeline" });
  const end = h("section", { "aria-label": "Outcome", "aria-live": "polite" });
  const composer = h("div", { class: "acting" });
  const cancel = cancelling(id, () => void refresh());
  const raw = new RawList(id, (event) => timeline.line(event.run_id).created?.agent ?? "child run", (event) => pick(timeline.owners.get(event.id) ?? null, true));
  fill(main, h("p", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs")),
    h("header", { class: "run-head" }, h("div", { class: "run-title" }, title, state, link, actions), cancel.panel, facts, strip),
    h("div", { class: "columns" }, h("div", { class: "story-column" }, input, lines, end, composer), raw.element));

  /** @type {any} The run as the API shows it. */
  let shown = null;
  let pending = false;
  let loaded = false; // all that had happened when the page was opened is here
  let status = "";
  /** @type {string | null} The entry whose events are marked. */
  let chosen = null;
  /** @type {Map<string, {version: number, node: HTMLElement}>} */
  const drawn = new Map();
  /** What a person does about a call, by its entry: it outlives its entry's drawings. @type {Map<string, {what: string, element: HTMLElement}>} */
  const slots = new Map();
  /** The first turn of the end that is drawn, by run. @type {Map<string, {from: number, asked: boolean}>} */
  const unfolded = new Map();

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

  /** The card of an approval. @param {any} call @param {HTMLElement} place */
  async function ask(call, place) {
    fill(place, h("p", { class: "soft" }, h("a", { href: "#/inbox" }, "It waits in the inbox")));
    const approval = await details({ approval_id: call.approval.id }, leaving.signal).catch(() => null);
    if (approval?.status !== "pending") return;
    fill(place, approvalCard(approval, { inRun: true, may: may.decide, decided: (now) => {
      note([text(now.tool), `: ${now.status}.`]);
      watch.poke();
    } }).element);
  }

  /** The words of messages that came in while the run was open. @param {Line} line @param {Entry} entry @param {HTMLElement} place */
  async function said(line, entry, place) {
    const { sequence, data } = entry.events[0];
    const page = await all(`v1/runs/${line.id}/items`, {}, 1000, leaving.signal).catch(() => null);
    if (!page) return;
    const before = timeline.events.filter((one) => one.run_id === line.id && one.type === "input.received" && one.sequence < sequence).reduce((sum, one) => sum + Number(one.data.messages), 0);
    const later = page.data.filter((one) => one.role && one.role !== "assistant" && one.turn > 0);
    fill(place, later.slice(before, before + Number(data.messages)).map((one) => h("div", { class: "said" }, saidView(one, `said ${one.id}`))));
  }

  /** Puts the forms for what else the run waits for beside their calls. */
  function require_() {
    for (const action of shown?.required_actions ?? []) {
      const line = timeline.lines.get(action.run_id);
      const entry = line?.byKey.get(`c ${action.call_id}`);
      if (!line || !entry || action.type === "approval") continue;
      const what = `required ${action.type} ${JSON.stringify(action.requests ?? null)}`;
      const known = slots.get(entryKey(line, entry));
      if (!known) reveal(line.id, entry); // its child run is folded; unfolding it draws the place
      if (!known || known.what === what) continue;
      known.what = what;
      fill(known.element, requiredAction(action, { runId: id, may: who.scopes, done: () => {
        note([text(action.tool), ": settled."]);
        void refresh();
      } }));
    }
  }

  /** @param {string} callId @param {Line} line */
  function ledger(callId, line) {
    return get(`v1/runs/${line.id}/tool_calls/${encodeURIComponent(callId)}`, undefined, leaving.signal);
  }

  /** Marks an entry and its events. @param {string | null} key @param {boolean} fromRaw */
  function pick(key, fromRaw) {
    const before = chosen && drawn.get(chosen)?.node;
    if (before) mark(before, false);
    chosen = key;
    if (key === null) {
      raw.choose([], false);
      return;
    }
    const [runId] = key.split(" ", 1);
    const entry = timeline.line(runId).byKey.get(key.slice(runId.length + 1));
    if (!entry) return;
    if (fromRaw) {
      reveal(runId, entry);
      draw();
    }
    const node = drawn.get(key)?.node;
    if (node) mark(node, true);
    const narrow = matchMedia(NARROW).matches;
    raw.choose(entry.events, !fromRaw);
    if (fromRaw && !narrow) node?.scrollIntoView({ block: "nearest" });
  }

  /** @param {HTMLElement} node @param {boolean} on */
  function mark(node, on) {
    node.classList.toggle("chosen", on);
    node.querySelector(":scope .raw-button")?.setAttribute("aria-pressed", String(on));
  }

  /** Unfolds what hides an entry. @param {string} runId @param {Entry} entry */
  function reveal(runId, entry) {
    if (entry.turn > TURNS_BEFORE && entry.turn < tail(timeline.line(runId))) unfolded.set(runId, { from: entry.turn, asked: true });
    for (let node = drawn.get(`child ${runId}`)?.node ?? null; node; node = node.parentElement) {
      if (node instanceof HTMLDetailsElement) node.open = true;
    }
  }

  /** @param {string} key @param {number} version @param {() => HTMLElement} make */
  function kept(key, version, make) {
    const known = drawn.get(key);
    if (known?.version === version) return known.node;
    const node = make();
    drawn.set(key, { version, node });
    return node;
  }

  /** From which turn on a long run's end is drawn. Once somebody has unfolded more, it stays; and
   * what is drawn while somebody watches is folded only when it has become too much.
   * @param {Line} line */
  function tail(line) {
    const last = line.entries.at(-1)?.turn ?? 0;
    const known = unfolded.get(line.id);
    if (known !== undefined && (known.asked || last - known.from < MOST_TURNS)) return known.from;
    const from = last <= MOST_TURNS ? TURNS_BEFORE + 1 : last - TURNS_BEHIND + 1;
    if (loaded && from > TURNS_BEFORE + 1) unfolded.set(line.id, { from, asked: false });
    return from;
  }

  /** @param {Line} line @returns {HTMLElement[]} */
  function lineView(line) {
    /** @type {HTMLElement[]} */
    const nodes = [];
    const from = tail(line);
    let turn = 0;
    let folded = false;
    for (const entry of line.entries) {
      if (entry.turn > TURNS_BEFORE && entry.turn < from) {
        if (!folded) nodes.push(foldView(line, from));
        folded = true;
        continue;
      }
      if (entry.turn !== turn && entry.turn > 0) {
        turn = entry.turn;
        nodes.push(...turnView(line, entry));
      }
      nodes.push(view(line, entry));
    }
    return nodes;
  }

  /** @param {Line} line @param {Entry} first */
  function turnView(line, first) {
    const key = `${line.id} turn ${first.turn}`;
    const called = line.entries.some((one) => one.turn === first.turn && one.call?.attempts.length + one.call?.waits.length > 0);
    const heading = kept(`${key} ${first.key}`, 0, () => h("h2", { class: "turn" }, h("span", null, `Turn ${first.turn}`, first.agent && first.agent !== line.created?.agent ? [" · ", text(first.agent)] : null), h("span", { class: "rule" }), h("span", { class: "took soft number" })));
    heading.dataset.run = line.id;
    heading.dataset.number = String(first.turn);
    return called ? [heading, kept(`${key} axis`, 0, () => axis(line.id, first.turn))] : [heading];
  }

  /** @param {Line} line @param {number} from */
  function foldView(line, from) {
    const node = kept(`fold ${line.id}`, from, () => {
      const button = (/** @type {string} */ label, /** @type {number} */ to) => h("button", { type: "button", class: "quiet small", "data-key": `${label} ${line.id}`, onclick: () => {
        unfolded.set(line.id, { from: to, asked: true });
        draw();
      } }, label);
      return h("div", { class: "folded soft small" }, h("span", null, `Turns ${TURNS_BEFORE + 1} to ${from - 1} are folded`), from - TURNS_BEFORE - 1 > TURNS_BEHIND ? button(`Show ${TURNS_BEHIND} more`, from - TURNS_BEHIND) : null, button("Show all", TURNS_BEFORE + 1));
    });
    return node;
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
      if (chosen === key) {
        mark(made, true);
        raw.choose(entry.events, false);
      }
      return made;
    });
    const child = entry.call?.child ? timeline.lines.get(entry.call.child) : null;
    if (child) childView(node, child);
    return node;
  }

  /** A run below this one, drawn once it is unfolded. @param {HTMLElement} node @param {Line} child */
  function childView(node, child) {
    const details = kept(`child ${child.id}`, 0, () => h("details", { class: "child", ontoggle: () => draw() }));
    const calls = child.entries.filter((one) => one.kind === "call").length;
    const summary = kept(`summary ${child.id}`, 0, () => h("summary"));
    const now = `${child.status} ${child.done} ${calls}`;
    if (summary.dataset.now !== now) {
      summary.dataset.now = now;
      fill(summary, "Run of ", h("strong", null, text(child.created?.agent ?? "an agent")), " ", badge(child.status), h("span", { class: "soft small" }, ` ${child.done} ${child.done === 1 ? "turn" : "turns"}${calls ? `, ${calls} ${calls === 1 ? "call" : "calls"}` : ""}`));
      if (child.asking.size) details.setAttribute("open", "");
    }
    const alone = kept(`alone ${child.id}`, 0, () => h("p", { class: "small" }, h("a", { href: `#/runs/${child.id}` }, "Open this run alone"), " ", h("code", { class: "soft" }, shortId(child.id))));
    arrange(details, [summary, ...(/** @type {HTMLDetailsElement} */ (details).open ? [alone, ...lineView(child)] : [])]);
    if (details.parentNode !== node) add(node, details);
  }

  function draw() {
    pending = false;
    if (leaving.signal.aborted) return;
    const line = timeline.line(id);
    const follows = loaded && !OVER.has(line.status) && line.asking.size === 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_PX;
    keeping(lines, () => arrange(lines, lineView(line)));
    raw.grow(timeline.events);
    clock();
    finish();
    if (follows && scrollY > 0) scrollTo({ top: document.documentElement.scrollHeight });
    if (line.status !== status) {
      status = line.status;
      when(state, status, () => badge(status));
      when(actions, OVER.has(status) ? "over" : "open", () => (!may.write ? null : OVER.has(status) ? runAgain(id) : cancel.opener));
      if (OVER.has(status)) cancel.panel.hidden = true;
    }
    require_();
  }

  function finish() {
    const line = timeline.line(id);
    const parent = line.created?.parent_call_id;
    when(composer, !may.write || OVER.has(line.status) || line.created === null ? "none" : parent ? "child" : "open", () => (composer.dataset.now === "open" ? saying(id) : composer.dataset.now === "child" ? h("p", { class: "soft small" }, "Messages go to the run above this one.") : null));
    when(end, OVER.has(line.status) ? `${line.status} ${shown?.status}` : "", () => outcome(line, shown, may.write, go));
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
        fill(main, h("h1", null, "No such run"), h("p", null, "There is no run of this id in this project. ", h("a", { href: "#/runs" }, "All runs")));
      }
      return;
    }
    const models = [shown.model ?? "workflow"].flat().join(", ");
    fill(title, shown.agent ? text(shown.agent) : text(models));
    fill(facts, factsOf(shown, models, took, usage));
    if (status === "") when(state, shown.status, () => badge(shown.status));
    clock();
    finish();
    require_();
  }

  async function begin() {
    void Promise.all([get(`v1/runs/${id}/items`, { limit: 50 }, leaving.signal), refresh()]).then(([page]) => fill(input, inputView(page.data, shown)), () => undefined);
    await follow(id, (frame) => {
      timeline.take(frame);
      if (frame.id !== null && TELLING.test(frame.type)) void refreshSoon();
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => {
        draw();
        loaded ||= timeline.events.length >= (shown?.last_sequence ?? Infinity);
      });
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
  /** Asks once more when something happens meanwhile, never twice at a time. */
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

/** Events after which the run waits for something else. */
const TELLING = /^(run\.(?!created)|tool_call\.(progress|outcome_unknown))/;
