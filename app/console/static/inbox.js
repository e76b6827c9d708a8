// The inbox: what waits for a person, as it comes and goes.

import { get } from "./api.js";
import { approvalCard } from "./approval.js";
import { fill, h, icon, note, text } from "./dom.js";
import { shortId, time } from "./format.js";
import { MOST } from "./pending.js";
import { requiredAction } from "./required.js";

const SHOWN_AT_ONCE = 20;
const TICK_MS = 15_000;
const SETTLE_MS = 500;
const TOLD_ONE_BY_ONE = 3;
/** @type {Record<string, string>} */
const OUTCOMES = { approved: "approved", rejected: "rejected", edited: "approved with other arguments", responded: "answered in the tool's place", expired: "expired unanswered", withdrawn: "withdrawn, since its run has ended", void: "asked again, since its tool has changed" };

/** @typedef {{element: HTMLElement, tick: () => void, of: any}} Shown `of`: the approval, or the action. */

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function inbox(main, { watch, who }) {
  /** @type {Map<string, Shown>} */
  const cards = new Map();
  /** What was settled here, until the list knows it too. @type {Set<string>} */
  const mine = new Set();
  const list = h("div", { class: "cards" });
  const lead = h("p", { class: "soft" }, "Looking…");
  const stale = h("p", { class: "stale", role: "status" });
  const told = h("p", { class: "hidden", role: "status" });
  const more = h("button", { type: "button", class: "quiet", hidden: true });
  let most = SHOWN_AT_ONCE;
  let moved = -Infinity;
  let first = true;
  // A click that comes right after the list has moved was meant for another call.
  list.addEventListener("click", (event) => {
    if (event.detail === 0 || performance.now() - moved > SETTLE_MS) return;
    event.preventDefault();
    event.stopPropagation();
    note("The list has just moved; look again, then click.");
  }, { capture: true });
  more.addEventListener("click", () => {
    const at = most;
    most += SHOWN_AT_ONCE;
    show(watch.now);
    /** @type {HTMLElement | undefined} */ (list.children[at])?.focus();
  });
  const onKey = (/** @type {KeyboardEvent} */ event) => step(event, main, list);
  main.addEventListener("keydown", onKey);
  const nothing = h("div", { class: "nothing", hidden: true }, icon("M2 9l2-6h8l2 6v4H2zM2 9h3.5a2.5 2.5 0 0 0 5 0H14"), h("strong", null, "Nothing waits for you."),
    h("p", null, "A call of a tool that needs a person appears here by itself. Which ones do is said by each ", h("a", { href: "#/tools" }, "tool"), "."));
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
    note([approval.late ? "Too late: " : null, text(approval.tool), ` was ${OUTCOMES[approval.status] ?? approval.status}`, by, ". ", h("a", { href: `#/runs/${approval.run_id}` }, "See the run")]);
  }

  /** What has gone without this window's doing. @param {string[]} ids */
  async function tell(ids) {
    const found = await Promise.all(ids.map((id) => get(`v1/approvals/${id}`).catch(() => null)));
    const gone = found.filter((one) => one !== null && one.status !== "pending");
    if (gone.length > TOLD_ONE_BY_ONE) note(`${gone.length} calls were decided meanwhile, or wait no longer.`);
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
    // To the card, never to a button of it: a key that is pressed twice must not decide twice.
    if (had) /** @type {HTMLElement} */ (next ?? main).focus();
  }

  /** @param {any} action @returns {Shown} */
  function otherCard(action) {
    const key = keyOf(action);
    const settled = () => {
      mine.add(key);
      drop(key);
      note([text(action.tool), " is settled. ", h("a", { href: `#/runs/${action.run_id}` }, "See the run")]);
      watch.poke();
    };
    const by = action.run.created_by;
    const element = h("article", { class: "card", "aria-label": action.tool, "data-key": key, tabindex: "-1" },
      h("header", { class: "card-head" }, h("h2", null, text(action.tool)),
        h("p", { class: "when" }, by ? ["started by ", text(by.name), " · "] : null, h("a", { href: `#/runs/${action.run_id}` }, shortId(action.run_id)))),
      requiredAction(action, { runId: action.run_id, may: who.scopes, done: settled }));
    return { element, tick: () => undefined, of: action };
  }

  /** @param {any} approval @returns {Shown} */
  const approvalShown = (approval) => ({ of: approval, ...approvalCard(approval, { may: who.scopes.includes("approvals:decide"), decided }) });

  /** @param {import("./pending.js").Pending} pending */
  function show(pending) {
    const approvals = pending.approvals.filter((one) => !mine.has(one.id));
    const others = pending.others.filter((one) => !mine.has(keyOf(one)));
    const wanted = [...approvals.map((one) => ({ key: one.id, make: () => approvalShown(one) })), ...others.map((one) => ({ key: keyOf(one), make: () => otherCard(one) }))];
    leave(new Set(wanted.map((one) => one.key)));
    /** @type {string[]} */
    const arrived = [];
    wanted.slice(0, most).forEach(({ key, make }, at) => {
      let card = cards.get(key);
      if (!card) {
        card = make();
        cards.set(key, card);
        arrived.push(card.of.tool);
      }
      put(card.element, at);
    });
    more.hidden = wanted.length <= most;
    fill(more, `Show ${Math.min(SHOWN_AT_ONCE, wanted.length - most)} more`);
    if (!first && arrived.length) fill(told, `New: ${arrived.slice(0, TOLD_ONE_BY_ONE).join(", ")}${arrived.length > TOLD_ONE_BY_ONE ? " and more" : ""}. ${wanted.length} waiting.`);
    first = first && pending.at === 0;
    outdated(pending);
    fill(lead, pending.at ? sentence(approvals.length, pending.more, others) : null);
    nothing.hidden = wanted.length > 0 || pending.at === 0;
  }

  /** Takes away what waits no longer. @param {Set<string>} keys */
  function leave(keys) {
    const gone = [...cards.keys()].filter((key) => !keys.has(key));
    gone.forEach(drop);
    const approvals = gone.filter((key) => key.startsWith("apr_"));
    if (approvals.length) void tell(approvals);
    for (const key of mine) if (!keys.has(key) && !watch.knows(key)) mine.delete(key);
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
    const said = error ? `What is shown may be old${at ? `: it is as of ${time(new Date(at).toISOString())}` : ""}. ${error.message} Trying again by itself.` : "";
    if (stale.textContent !== said) fill(stale, text(said));
    list.classList.toggle("old", Boolean(error));
  }

  const leaveWatch = watch.listen(show);
  const ticking = setInterval(() => cards.forEach((card) => card.tick()), TICK_MS);
  return () => {
    leaveWatch();
    clearInterval(ticking);
    main.removeEventListener("keydown", onKey);
  };
}

/** @param {any} action */
const keyOf = (action) => `${action.run_id} ${action.call_id}`;

/**
 * j and k: to the next card and to the one before. They only move, and not while somebody types.
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

/** @param {number} count @param {boolean} beyond @param {any[]} others */
function sentence(count, beyond, others) {
  const unknown = others.filter(({ type }) => type === "resolve").length;
  const wanted = others.length - unknown;
  const calls = beyond ? `More than ${MOST} calls wait for a decision` : count === 1 ? "One call waits for a decision" : count ? `${count} calls wait for a decision` : null;
  const parts = [
    calls,
    unknown ? `${unknown === 1 ? "one outcome is" : `${unknown} outcomes are`} unknown` : null,
    wanted ? `${wanted === 1 ? "one result is" : `${wanted} results are`} wanted from whoever started the run` : null,
  ].filter((one) => one !== null);
  if (parts.length === 0) return null;
  const all = `${parts.join(", ")}.`;
  return `${all[0].toUpperCase()}${all.slice(1)}${count > 1 ? " What expires within the hour comes first, then the oldest." : ""}`;
}
