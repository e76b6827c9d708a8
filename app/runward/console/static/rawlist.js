// The raw events of a run: one row for each event, with folded JSON.

import { fill, h, text } from "./dom.js";
import { time } from "./format.js";
import { List } from "./list.js";
import { json } from "./values.js";

const NEAR_PX = 40;
const ROW_PX = 32;

export class RawList {
  /**
   * @param {string} runId
   * @param {AbortSignal} signal Ends the list.
   * @param {(event: any) => string | null} agentOf The name of a child run's agent.
   * @param {(event: any) => void} picked Called with the event that a person points at.
   */
  constructor(runId, signal, agentOf, picked) {
    this.runId = runId;
    this.agentOf = agentOf;
    this.picked = picked;
    /** @type {Map<string, any>} */
    this.events = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.rows = new Map();
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.heading = h("h2", null, "Events");
    const rows = h("div", { class: "raw-list" });
    this.scroller = h("div", { class: "raw-scroll" }, rows);
    this.element = h("aside", { class: "raw", "aria-label": "Raw events" }, h("div", { class: "raw-head" }, this.heading, h("p", { class: "soft small" }, "Choose an event to see its entry.")), this.scroller);
    this.list = new List(rows, { draw: (key) => this.row(key), height: ROW_PX, scroller: this.scroller, signal });
  }

  /** Show new events. @param {any[]} events All events. The list only grows. */
  grow(events) {
    const before = this.events.size;
    if (events.length === before) return;
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    const atEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    for (const event of events.slice(before)) this.events.set(event.id, event);
    this.list.show([...this.events.keys()]);
    fill(this.heading, `Events · ${events.length}`);
    if (atEnd && before) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** Mark the events of one entry. @param {any[]} events @param {boolean} scroll */
  choose(events, scroll) {
    this.chosen = new Set(events.map((one) => one.id));
    for (const [id, row] of this.rows) row.classList.toggle("chosen", this.chosen.has(id));
    if (scroll && events.length) this.list.reveal(events[0].id);
  }

  /** @param {string} id */
  row(id) {
    const known = this.rows.get(id);
    if (known) return known;
    const event = this.events.get(id);
    const of = event.run_id === this.runId ? null : this.agentOf(event);
    const summary = h("summary", null,
      h("span", { class: "soft small number" }, event.sequence),
      h("code", null, text(event.type), of ? h("span", { class: "soft" }, " · ", text(of)) : null),
      h("time", { class: "soft small number", datetime: event.created_at }, time(event.created_at)));
    const row = h("details", { "data-key": id, class: this.chosen.has(id) ? "chosen" : null }, summary);
    row.dataset.run = event.run_id;
    row.dataset.sequence = event.sequence;
    row.addEventListener("toggle", () => row.open && row.childElementCount === 1 && row.append(json(event)));
    summary.addEventListener("click", () => this.picked(event));
    this.rows.set(id, row);
    return row;
  }
}
