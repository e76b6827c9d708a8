// The raw events of a run: one row each, its JSON folded. What is there is never drawn again.

import { fill, h, text } from "./dom.js";
import { time } from "./format.js";
import { json } from "./values.js";

const AT_ONCE = 300;
const NEAR_PX = 40;

export class RawList {
  /**
   * @param {string} runId
   * @param {(event: any) => string | null} whose The name of a child run's agent; null for the run's own.
   * @param {(event: any) => void} picked Called with the event that a person points at.
   */
  constructor(runId, whose, picked) {
    this.runId = runId;
    this.whose = whose;
    this.picked = picked;
    /** @type {any[]} */
    this.events = [];
    this.first = 0; // of those that are drawn
    /** @type {Map<string, HTMLElement>} */
    this.rows = new Map();
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.heading = h("h2", null, "Events");
    this.earlier = h("button", { type: "button", class: "quiet small", hidden: true });
    this.list = h("div", { class: "raw-list" });
    this.scroller = h("div", { class: "raw-scroll" }, this.earlier, this.list);
    this.element = h("aside", { class: "raw", "aria-label": "Raw events" }, h("div", { class: "raw-head" }, this.heading, h("p", { class: "soft small" }, "Choose one to see what it made.")), this.scroller);
    this.earlier.addEventListener("click", () => this.show(Math.max(0, this.first - AT_ONCE)));
  }

  /** Draws those that are new. @param {any[]} events All of them: the list only grows. */
  grow(events) {
    const drawn = this.events.length;
    if (events.length === drawn) return;
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    const atEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    this.events = events.slice();
    if (drawn === 0) this.first = Math.max(0, events.length - AT_ONCE);
    this.list.append(...this.events.slice(Math.max(drawn, this.first)).map((event) => this.row(event)));
    fill(this.heading, `Events · ${events.length}`);
    this.offer();
    if (atEnd && drawn) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** @param {number} first */
  show(first) {
    const before = this.scroller.scrollHeight;
    this.list.prepend(...this.events.slice(first, this.first).map((event) => this.row(event)));
    this.first = first;
    this.offer();
    this.scroller.scrollTop += this.scroller.scrollHeight - before;
  }

  offer() {
    this.earlier.hidden = this.first === 0;
    fill(this.earlier, `Show ${Math.min(AT_ONCE, this.first)} earlier ones`);
  }

  /** Marks the events of one entry. @param {any[]} events @param {boolean} scroll */
  choose(events, scroll) {
    for (const id of this.chosen) this.rows.get(id)?.classList.remove("chosen");
    this.chosen = new Set(events.map((one) => one.id));
    const at = this.events.findIndex((one) => this.chosen.has(one.id));
    if (at >= 0 && at < this.first) this.show(at);
    for (const id of this.chosen) this.rows.get(id)?.classList.add("chosen");
    const row = this.rows.get(events[0]?.id);
    if (scroll && row) row.scrollIntoView({ block: "nearest" });
  }

  /** @param {any} event */
  row(event) {
    const of = event.run_id === this.runId ? null : this.whose(event);
    const summary = h("summary", null,
      h("span", { class: "soft small number" }, event.sequence),
      h("code", null, text(event.type), of ? h("span", { class: "soft" }, " · ", text(of)) : null),
      h("time", { class: "soft small number", datetime: event.created_at }, time(event.created_at)));
    const row = h("details", { "data-key": event.id, class: this.chosen.has(event.id) ? "chosen" : null }, summary);
    row.dataset.run = event.run_id;
    row.dataset.sequence = event.sequence;
    row.addEventListener("toggle", () => row.open && row.childElementCount === 1 && row.append(json(event)));
    summary.addEventListener("click", () => this.picked(event));
    this.rows.set(event.id, row);
    return row;
  }
}
