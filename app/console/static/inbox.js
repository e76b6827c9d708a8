// The inbox: what waits for a person, soonest to expire first, as it comes and goes.

import { get } from "./api.js";
import { approvalCard } from "./approval.js";
import { fill, h, note, text } from "./dom.js";
import { shortId } from "./format.js";
import { MOST } from "./pending.js";

const SHOWN_AT_ONCE = 20;
const TICK_MS = 15_000;
const SETTLE_MS = 500;
/** @type {Record<string, string>} */
const OUTCOMES = { approved: "approved", rejected: "rejected", edited: "approved with other arguments", responded: "answered in the tool's place", expired: "expired unanswered", withdrawn: "withdrawn, since its run has ended", void: "asked again, since its tool has changed" };

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function inbox(main, { watch, who }) {
  /** @type {Map<string, import("./approval.js").Card & {approval: any}>} */
  const cards = new Map();
  const mine = new Set();
  const list = h("div", { class: "cards" });
  const lead = h("p", { class: "soft" }, "Looking…");
  const more = h("button", { type: "button", class: "quiet", hidden: true });
  let most = SHOWN_AT_ONCE;
  let moved = -Infinity;
  // A click that comes right after the list has moved was meant for another call.
  list.addEventListener("click", (event) => {
    if (event.detail === 0 || performance.now() - moved > SETTLE_MS) return;
    event.preventDefault();
    event.stopPropagation();
    note("The list has just moved; look again, then click.");
  }, { capture: true });
  more.addEventListener("click", () => {
    most += SHOWN_AT_ONCE;
    show(watch.now);
  });
  fill(main, h("h1", null, "Inbox"), lead, list, more);

  /** @param {any} approval */
  function decided(approval) {
    mine.add(approval.id);
    drop(approval.id);
    say(approval);
    watch.poke();
  }

  /** @param {any} approval */
  function say(approval) {
    const by = approval.decided_by === null ? "" : approval.decided_by === who.key.id ? " with your key" : ` by ${shortId(approval.decided_by)}`;
    note([text(approval.tool), ` was ${OUTCOMES[approval.status] ?? approval.status}${by}. `, h("a", { href: `#/runs/${approval.run_id}` }, "See the run")]);
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
    if (had) /** @type {HTMLElement | null} */ (next?.querySelector("button") ?? main)?.focus();
  }

  /** @param {import("./pending.js").Pending} pending */
  function show({ approvals, more: beyond, error }) {
    const waiting = approvals.filter((one) => !mine.has(one.id));
    const ids = new Set(waiting.map((one) => one.id));
    for (const id of [...cards.keys()]) {
      if (ids.has(id)) continue;
      drop(id);
      void get(`v1/approvals/${id}`).then((now) => now.status !== "pending" && say(now), () => undefined);
    }
    waiting.slice(0, most).forEach((approval, at) => {
      let card = cards.get(approval.id);
      if (!card) {
        card = { approval, ...approvalCard(approval, { may: who.scopes.includes("approvals:decide"), decided }) };
        cards.set(approval.id, card);
      }
      const there = list.children[at] ?? null;
      if (there === card.element) return;
      if (there) moved = performance.now();
      list.insertBefore(card.element, there);
    });
    more.hidden = waiting.length <= most;
    fill(more, `Show ${Math.min(SHOWN_AT_ONCE, waiting.length - most)} more`);
    lead.className = error ? "wrong" : "soft";
    fill(lead, error ? ["What is shown may be old: ", text(error.message)] : sentence(waiting.length, beyond));
    list.classList.toggle("nothing", waiting.length === 0);
  }

  const leave = watch.listen(show);
  const ticking = setInterval(() => cards.forEach((card) => card.tick()), TICK_MS);
  return () => {
    leave();
    clearInterval(ticking);
  };
}

/** @param {number} count @param {boolean} beyond */
function sentence(count, beyond) {
  if (count === 0) return "Nothing waits for you. New approvals appear here by themselves.";
  if (beyond) return `More than ${MOST} calls wait for a decision.`;
  return count === 1 ? "One call waits for a decision." : `${count} calls wait for a decision; the first to expire comes first.`;
}
