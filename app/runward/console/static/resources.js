// Parts of the views of schedules, webhook endpoints and budgets: lists that are loaded page by page, and buttons.

import { Problem, get, onceOnly } from "./api.js";
import { busy } from "./choosing.js";
import { fill, h, keeping, note, text } from "./dom.js";
import { ago, moment } from "./format.js";

const PAGE = 50;

/**
 * Return a button. An error of `act` is shown as a notice.
 * @param {string} label @param {string} kind
 * @param {(once: Record<string, string>) => Promise<void>} act Receives `Idempotency-Key` headers.
 * @param {string} [name] The accessible name, if several buttons have the same label.
 */
export function action(label, kind, act, name = label) {
  const button = h("button", { type: "button", class: kind, "aria-label": name, "data-key": name }, label);
  const once = onceOnly();
  button.addEventListener("click", async () => {
    const release = busy(/** @type {HTMLElement} */ (button.parentElement));
    try {
      await act(once(null));
      once.again();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      note(text(error.message), "error");
    } finally {
      release();
    }
  });
  return button;
}

/**
 * Return a table of a list, newest first, with a button that loads older rows.
 * @param {object} list
 * @param {string} list.path such as `v1/budgets`
 * @param {Record<string, any>} [list.query]
 * @param {string} list.caption
 * @param {string[]} list.columns
 * @param {string[]} [list.numbers] The columns that contain numbers.
 * @param {(one: any) => HTMLElement} list.row
 * @param {import("./dom.js").Child} list.none The content of an empty list.
 * @param {AbortSignal} list.signal
 */
export function pagedTable({ path, query, caption, columns, numbers = [], row, none, signal }) {
  const body = h("tbody");
  const table = h("table", { class: "runs", hidden: true }, h("caption", { class: "hidden" }, caption),
    h("thead", null, h("tr", null, columns.map((title) => h("th", { scope: "col", class: numbers.includes(title) ? "number" : null }, title)))), body);
  const lead = h("div", { class: "soft", role: "status" }, "Loading…");
  const more = h("button", { type: "button", class: "quiet", hidden: true }, "Show older entries");
  /** @type {any[]} */
  let found = [];

  async function look() {
    try {
      const page = await get(path, { ...query, limit: PAGE, after: found.at(-1)?.id }, signal);
      found = [...found, ...page.data];
      more.hidden = !page.has_more;
      table.hidden = !found.length;
      lead.hidden = Boolean(found.length);
      fill(lead, found.length ? null : none);
      keeping(body, () => fill(body, found.map(row)));
    } catch (error) {
      if (signal.aborted || !(error instanceof Problem)) return;
      lead.hidden = false;
      fill(lead, h("p", { class: "wrong" }, text(error.message)));
    }
  }

  more.addEventListener("click", () => void look());
  void look();
  const again = () => {
    found = [];
    return look();
  };
  return { element: h("div", { class: "calls" }, lead, h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, table), more), again };
}

/** @param {string} what @param {string} command */
export function empty(what, command) {
  return h("p", null, `${what} Create one with `, h("code", null, command), ".");
}

/** Return the introduction of a list. @param {string} what @param {string} group The commands for its resources. */
export function lead(what, group) {
  return h("p", { class: "soft" }, `${what} To manage them, use the command `, h("code", null, `runward ${group}`), ".");
}

/** Return what the page of a resource shows if it cannot be loaded. @param {string} title @param {any} error */
export function unloaded(title, error) {
  return [h("h1", null, title), h("p", { class: "wrong" }, text(error.message))];
}

/** @param {[string, import("./dom.js").Child][]} facts */
export function factList(facts) {
  return h("dl", { class: "rows about" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

/** @param {string | null} at A time in the past. @param {string} [otherwise] */
export function past(at, otherwise = "never") {
  return at ? h("span", { title: moment(at) }, ago(at, Date.now())) : h("span", { class: "soft" }, otherwise);
}
