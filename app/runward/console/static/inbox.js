// The inbox: a live list of the calls that wait for a person. Each card is drawn at once from the
// small list. Its details are loaded when it is on the screen.

import { Problem } from "./api.js";
import { approvalCard } from "./approval.js";
import { Together, withoutArguments } from "./details.js";
import { fill, h, icon, note, text, whenSeen } from "./dom.js";
import { removeEdit } from "./edits.js";
import { ago, moment, shortId, time } from "./format.js";
import { MOST, atLeast, keyOf } from "./pending.js";
import { requiredAction } from "./required.js";

const SHOWN_AT_ONCE = 20;
const TICK_MS = 15_000;
const SETTLE_MS = 500;
const TOLD_ONE_BY_ONE = 3;
/** @type {Record<string, string>} */
const OUTCOMES = { approved: "approved", rejected: "rejected", edited: "approved with edited arguments", responded: "answered with a given result", expired: "expired without a decision", cancelled: "cancelled, since its run has ended", superseded: "superseded, because its tool was updated" };

/** @typedef {{element: HTMLElement, tick: () => void, action: any}} Shown */

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function inbox(main, { watch, who }) {
  /** @type {Map<string, Shown>} */
  const cards = new Map();
  const leaving = new AbortController();
  const together = new Together(leaving.signal);
  /** Calls that were settled here and are still in the list. @type {Set<string>} */
  const mine = new Set();
  const list = h("div", { class: "cards" });
  const lead = h("p", { class: "soft" }, "Loading…");
  const stale = h("p", { class: "stale", role: "status" });
  const told = h("p", { class: "hidden", role: "status" });
  const more = h("button", { type: "button", class: "quiet", hidden: true });
  let most = SHOWN_AT_ONCE;
  let moved = -Infinity;
  let first = true;
  /** @type {any[]} */
  let listed = [];
  // A click right after the list has moved was probably meant for another call.
  list.addEventListener("click", (event) => {
    if (event.detail === 0 || performance.now() - moved > SETTLE_MS) return;
    event.preventDefault();
    event.stopPropagation();
    note("The list has just changed. Check the entry, then click again.");
  }, { capture: true });
  more.addEventListener("click", () => {
    const at = most;
    most += SHOWN_AT_ONCE;
    show(watch.now);
    /** @type {HTMLElement | undefined} */ (list.children[at])?.focus();
  });
  const onKey = (/** @type {KeyboardEvent} */ event) => step(event, main, list);
  main.addEventListener("keydown", onKey);
  const nothing = h("div", { class: "nothing", hidden: true }, icon("M2 9l2-6h8l2 6v4H2zM2 9h3.5a2.5 2.5 0 0 0 5 0H14"), h("strong", null, "No calls are waiting for you."),
    h("p", null, "Calls that require approval appear here automatically. The field approval of a ", h("a", { href: "#/tools" }, "tool"), " defines which calls require approval."));
  fill(main, h("h1", null, "Inbox"), stale, lead, told, list, nothing, more);

  /** @param {any} approval */
  function decided(approval) {
    mine.add(approval.id);
    drop(approval.id);
    say(approval);
    watch.poke();
  }

  /** @param {any} approval */
  function say(approval) {
    const by = approval.decided_by === null ? "" : approval.decided_by === who.key.id ? " with your key" : [" by ", text(approval.decider?.name ?? shortId(approval.decided_by))];
    note([approval.late ? "Already decided: " : null, text(approval.tool), ` was ${OUTCOMES[approval.status] ?? approval.status}`, by, ". ", h("a", { href: `#/runs/${approval.run_id}` }, "Open the run")]);
  }

  /** Announce calls that were settled elsewhere. If the list is truncated, they may only have moved down.
   * @param {string[]} keys */
  async function tell(keys) {
    const found = await Promise.all(keys.map((key) => (key.startsWith("apr_") ? withoutArguments(key) : null)));
    const gone = found.filter((one) => one !== null && one.status !== "pending");
    keys.forEach((key, at) => {
      if (found[at]?.status !== "pending") drop(key);
    });
    for (const one of gone) removeEdit(one.id);
    if (gone.length > TOLD_ONE_BY_ONE) note(`${gone.length} calls are no longer waiting.`);
    else gone.forEach(say);
  }

  /** @param {string} id */
  function drop(id) {
    const card = cards.get(id);
    if (!card) return;
    const had = card.element.contains(document.activeElement);
    const next = card.element.nextElementSibling ?? card.element.previousElementSibling;
    if (card.element.nextElementSibling) moved = performance.now();
    cards.delete(id);
    card.element.remove();
    // Focus the card, never one of its buttons: a key that is pressed twice must not decide twice.
    if (had) /** @type {HTMLElement} */ (next ?? main).focus();
  }

  /** Return a card that loads its details when it comes into view. @param {any} action @returns {Shown} */
  function card(action) {
    const state = h("p", { class: "soft" }, "Loading…");
    const element = h("article", { class: "card waiting", "aria-label": action.tool, "data-key": keyOf(action), tabindex: "-1" },
      h("header", { class: "card-head" }, h("h2", null, text(action.tool))), state);
    const shown = { element, tick: () => undefined, action };
    const load = () => void together.load(action, (found) => become(shown, action.approval_id ? approvalShown(found) : otherCard({ ...action, ...found, type: action.type })), (error) => {
      if (error instanceof Problem && error.status === 403) return become(shown, otherCard({ ...action, arguments: null }));
      fill(state, h("span", { class: "wrong" }, text(error.message)), " ", h("button", { type: "button", class: "small", onclick: load }, "Try again"));
    });
    whenSeen(element, load);
    return shown;
  }

  /** Replace a card that has no details yet with the complete card.
   * @param {Shown} shown @param {{element: HTMLElement, tick: () => void}} now */
  function become(shown, now) {
    const had = shown.element.contains(document.activeElement);
    shown.element.replaceWith(now.element);
    Object.assign(shown, now);
    if (had) now.element.focus();
  }

  /** @param {any} action An action with its arguments. */
  function otherCard(action) {
    const key = keyOf(action);
    const settled = () => {
      mine.add(key);
      drop(key);
      note([text(action.tool), " has a result now. ", h("a", { href: `#/runs/${action.run_id}` }, "Open the run")]);
      watch.poke();
    };
    const since = h("span", { title: moment(action.requested_at) });
    const element = h("article", { class: `card ${action.type === "resolve" ? "unknown" : ""}`, "aria-label": action.tool, "data-key": key, tabindex: "-1" },
      h("header", { class: "card-head" }, h("h2", null, text(action.tool)),
        h("p", { class: "when" }, since, " · ", h("a", { href: `#/runs/${action.run_id}` }, shortId(action.run_id)))),
      requiredAction(action, { runId: action.run_id, may: who.scopes, done: settled }));
    const tick = () => fill(since, `${action.type === "resolve" ? "sent" : "asked"} ${ago(action.requested_at, Date.now())}`);
    tick();
    return { element, tick };
  }

  /** @param {any} approval */
  const approvalShown = (approval) => approvalCard(approval, { may: who.scopes.includes("approvals:decide"), decided });

  /** @param {import("./pending.js").Pending} pending */
  function show(pending) {
    const wanted = pending.actions.filter((one) => !mine.has(keyOf(one)));
    leave(new Set(wanted.map(keyOf)), pending);
    /** @type {string[]} */
    const arrived = [];
    wanted.slice(0, most).forEach((action, at) => {
      const key = keyOf(action);
      let shown = cards.get(key);
      if (!shown) {
        shown = card(action);
        cards.set(key, shown);
        arrived.push(action.tool);
      }
      put(shown.element, at);
    });
    more.hidden = wanted.length <= most;
    fill(more, `Show ${Math.min(SHOWN_AT_ONCE, wanted.length - most)} more`);
    if (!first && arrived.length) fill(told, `New: ${arrived.slice(0, TOLD_ONE_BY_ONE).join(", ")}${arrived.length > TOLD_ONE_BY_ONE ? " and more" : ""}. ${pending.count || 0} waiting.`);
    first = first && pending.at === 0;
    outdated(pending);
    fill(lead, pending.at ? sentence(pending) : null);
    nothing.hidden = wanted.length > 0 || pending.at === 0;
  }

  /** Remove the cards of calls that no longer wait.
   * @param {Set<string>} keys @param {import("./pending.js").Pending} pending */
  function leave(keys, pending) {
    if (pending.actions === listed) return;
    listed = pending.actions;
    const gone = [...cards.keys()].filter((key) => !keys.has(key));
    if (!pending.more) gone.forEach(drop);
    const others = gone.filter((key) => !mine.has(key));
    if (others.length) void tell(others);
    const all = new Set(listed.map(keyOf));
    for (const key of mine) if (!all.has(key)) mine.delete(key);
  }

  /** @param {HTMLElement} element @param {number} at */
  function put(element, at) {
    const there = list.children[at] ?? null;
    if (there === element) return;
    if (there) moved = performance.now();
    const focused = element.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
    list.insertBefore(element, there);
    focused?.focus();
  }

  /** @param {import("./pending.js").Pending} pending */
  function outdated({ error, at }) {
    const said = error ? `The data shown may be out of date${at ? `: it is as of ${time(new Date(at).toISOString())}` : ""}. ${error.message} Retrying automatically.` : "";
    if (stale.textContent !== said) fill(stale, text(said));
    list.classList.toggle("old", Boolean(error));
  }

  const leaveWatch = watch.listen(show);
  const ticking = setInterval(() => cards.forEach((card) => card.tick()), TICK_MS);
  return () => {
    leaving.abort();
    leaveWatch();
    clearInterval(ticking);
    main.removeEventListener("keydown", onKey);
  };
}

/**
 * Handle j and k: move to the next or the previous card, except while a person types.
 * @param {KeyboardEvent} event @param {HTMLElement} main @param {HTMLElement} list
 */
function step(event, main, list) {
  const way = { j: 1, k: -1 }[event.key];
  const target = /** @type {HTMLElement} */ (event.target);
  if (!way || event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select")) return;
  const all = /** @type {HTMLElement[]} */ ([...list.children]);
  const at = all.findIndex((one) => one.contains(target));
  const next = at < 0 ? all[0] : all[at + way];
  if (!next || target === document.body || !main.contains(target)) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "start" });
}

/** @param {import("./pending.js").Pending} pending */
function sentence({ counts, more }) {
  const { approval, resolve, tool_result } = counts;
  const many = (/** @type {number} */ count) => atLeast(count, count === MOST);
  const parts = [
    resolve ? `${resolve === 1 ? "One outcome is" : `${many(resolve)} outcomes are`} unknown.` : null,
    approval ? `${approval === 1 ? "One call waits" : `${many(approval)} calls wait`} for a decision.` : null,
    tool_result ? `${tool_result === 1 ? "One call waits" : `${many(tool_result)} calls wait`} for a result from the client.` : null,
    more ? `This page lists the ${MOST} most urgent calls.` : null,
  ].filter((one) => one !== null);
  return parts.length ? parts.join(" ") : null;
}
