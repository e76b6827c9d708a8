// Virtualized lists: only the rows near the viewport are in the page. A row is identified by its key
// and keeps its element, so that focus, selection and open parts stay.

import { arrange, h } from "./dom.js";

const MARGIN_PX = 500;
const LEAST_ROWS = 30; // in the page even if the list is out of view, so that the keyboard reaches them
const SAME_PX = 0.5;

/**
 * @typedef {object} Options
 * @property {(key: string) => HTMLElement} draw The row of a key: the same element as before, as long as
 *   it shows the same. Rows have no margins.
 * @property {number} height The height in pixels of a row that is not measured yet.
 * @property {AbortSignal} signal Ends the list.
 * @property {HTMLElement} [scroller] The element that scrolls; by default the page.
 * @property {() => HTMLElement} [spacer] Makes the element that stands for rows that are left out.
 * @property {() => void} [drawn] Called after other rows have come into the page.
 */

export class List {
  /** @param {HTMLElement} element whose children are the rows @param {Options} options */
  constructor(element, options) {
    this.element = element;
    this.options = options;
    /** @type {string[]} */
    this.keys = [];
    /** @type {Map<string, number>} */
    this.heights = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.rows = new Map();
    /** @type {WeakMap<Element, string>} */
    this.keyOf = new WeakMap();
    /** @type {HTMLElement[]} */
    this.spacers = [];
    this.sizes = new ResizeObserver((entries) => this.measured(entries.map(({ target }) => target)));
    element.classList.add("windowed");
    const { scroller, signal } = options;
    const layout = () => this.layout();
    (scroller ?? window).addEventListener("scroll", layout, { passive: true, signal });
    addEventListener("resize", layout, { signal });
    if (scroller) this.sizes.observe(scroller);
    signal.addEventListener("abort", () => this.sizes.disconnect());
  }

  /** @param {string[]} keys The keys of all rows, in order. */
  show(keys) {
    this.keys = keys;
    this.layout();
  }

  /** Scroll until a row is in view. @param {string} key @returns {HTMLElement | null} The row. */
  reveal(key) {
    const at = this.keys.indexOf(key);
    if (at < 0) return null;
    if (!this.rows.has(key)) {
      const { scroller } = this.options;
      const top = this.top() + this.size(0, at) - this.viewHeight() / 2;
      (scroller ?? window).scrollBy({ top, behavior: "instant" });
      this.layout();
    }
    const row = this.rows.get(key) ?? null;
    row?.scrollIntoView({ block: "nearest", behavior: "instant" });
    return row;
  }

  /** Add the rows near the viewport to the page, and remove the others. */
  layout() {
    if (!this.element.isConnected) return;
    const top = this.top();
    const anchor = top < 0 ? this.anchor() : null;
    const wanted = this.near(-top - MARGIN_PX, -top + this.viewHeight() + MARGIN_PX);
    /** @type {Map<string, HTMLElement>} */
    const rows = new Map();
    /** @type {HTMLElement[]} */
    const children = [];
    let next = 0;
    let gaps = 0;
    const leaveOut = (/** @type {number} */ until) => {
      if (until > next) children.push(this.spacer(gaps++, this.size(next, until) - this.gap));
    };
    for (const at of wanted) {
      leaveOut(at);
      const row = this.options.draw(this.keys[at]);
      rows.set(this.keys[at], row);
      children.push(row);
      next = at + 1;
    }
    leaveOut(this.keys.length);
    const changed = this.replace(rows);
    arrange(this.element, children);
    if (anchor?.row.isConnected) this.scroll(anchor.row.getBoundingClientRect().top - anchor.top);
    if (changed) this.options.drawn?.();
  }

  /** @param {Map<string, HTMLElement>} rows @returns {boolean} Whether the rows have changed. */
  replace(rows) {
    let changed = false;
    for (const [key, row] of this.rows) if (rows.get(key) !== row) this.sizes.unobserve(row);
    for (const [key, row] of rows) {
      if (this.rows.get(key) === row) continue;
      changed = true;
      this.keyOf.set(row, key);
      this.sizes.observe(row);
    }
    this.rows = rows;
    return changed;
  }

  /** Return the indexes of the rows between two heights, and of rows with focus or a selection.
   * @param {number} from @param {number} to @returns {number[]} */
  near(from, to) {
    const gap = parseFloat(getComputedStyle(this.element).rowGap);
    this.gap = Number.isFinite(gap) ? gap : 0;
    const held = new Set([...this.rows].filter(([, row]) => inUse(row)).map(([key]) => key));
    const { length } = this.keys;
    let first = 0;
    let below = 0;
    for (; first < length && below + this.size(first, first + 1) <= from; first++) below += this.size(first, first + 1);
    let end = first;
    for (; end < length && below < to; end++) below += this.size(end, end + 1);
    end = Math.min(length, Math.max(end, first + LEAST_ROWS));
    first = Math.max(0, Math.min(first, end - LEAST_ROWS));
    const found = Array.from({ length: end - first }, (_, at) => first + at);
    if (held.size === 0) return found;
    const others = this.keys.flatMap((key, at) => (held.has(key) && (at < first || at >= end) ? [at] : []));
    return [...others, ...found].sort((one, other) => one - other);
  }

  gap = 0;

  /** Return the height of a range of rows with the gaps after them. @param {number} from @param {number} until */
  size(from, until) {
    let sum = 0;
    for (let at = from; at < until; at++) sum += (this.heights.get(this.keys[at]) ?? this.options.height) + this.gap;
    return sum;
  }

  /** @param {number} at @param {number} height */
  spacer(at, height) {
    this.spacers[at] ??= (this.options.spacer ?? (() => h("div", { "aria-hidden": "true" })))();
    this.spacers[at].style.height = `${Math.max(0, height)}px`;
    return this.spacers[at];
  }

  /** @param {Element[]} targets */
  measured(targets) {
    let changed = false;
    for (const target of targets) {
      const key = this.keyOf.get(target);
      if (key === undefined || !target.isConnected) continue;
      const { height } = target.getBoundingClientRect();
      changed ||= Math.abs((this.heights.get(key) ?? this.options.height) - height) > SAME_PX;
      this.heights.set(key, height);
    }
    if (changed || targets.includes(/** @type {Element} */ (this.options.scroller))) requestAnimationFrame(() => this.layout());
  }

  /** Return the offset of the list from the top of its viewport. */
  top() {
    const { scroller } = this.options;
    return this.element.getBoundingClientRect().top - (scroller ? scroller.getBoundingClientRect().top : 0);
  }

  viewHeight() {
    return this.options.scroller?.clientHeight ?? innerHeight;
  }

  /** Return the first visible row. It keeps its position while rows above it change. */
  anchor() {
    const edge = this.options.scroller?.getBoundingClientRect().top ?? 0;
    for (const row of this.rows.values()) {
      const { top, bottom } = row.getBoundingClientRect();
      if (bottom > edge) return { row, top };
    }
    return null;
  }

  /** @param {number} by */
  scroll(by) {
    if (Math.abs(by) > SAME_PX) (this.options.scroller ?? window).scrollBy({ top: by, behavior: "instant" });
  }
}

/** Return whether a row contains the focus or selected text. @param {HTMLElement} row */
function inUse(row) {
  const selection = getSelection();
  const selected = selection && !selection.isCollapsed && (row.contains(selection.anchorNode) || row.contains(selection.focusNode));
  return selected || row.contains(document.activeElement);
}
