// Buttons in a row, for what a person may do about one thing. Those that need more than a click open
// a panel below the row, one at a time.

import { add, fill, h } from "./dom.js";

/**
 * @typedef {object} Way
 * @property {string} label
 * @property {"primary" | "danger" | ""} [kind]
 * @property {() => void} [act] What a click does; or:
 * @property {(back: HTMLElement) => HTMLElement[] | Promise<HTMLElement[]>} [panel] What it opens.
 *   `back` is the button that closes it, for the panel's own row of buttons.
 *
 * @typedef {object} Choosing
 * @property {HTMLElement} actions The row.
 * @property {HTMLElement} panel
 */

/**
 * @param {string} key of this place on the page.
 * @param {Way[]} ways
 * @returns {Choosing}
 */
export function choosing(key, ways) {
  const actions = h("div", { class: "actions" });
  const panel = h("div", { class: "panel", hidden: true });
  /** @type {HTMLElement | null} */
  let opener = null;

  function close() {
    panel.hidden = true;
    fill(panel);
    opener?.setAttribute("aria-expanded", "false");
    opener?.focus();
    opener = null;
  }

  /** @param {HTMLElement} button @param {NonNullable<Way["panel"]>} make */
  async function open(button, make) {
    if (opener === button) {
      close();
      return;
    }
    opener?.setAttribute("aria-expanded", "false");
    opener = button;
    button.setAttribute("aria-expanded", "true");
    const content = await make(h("button", { type: "button", class: "quiet", onclick: close }, "Back"));
    if (opener !== button) return; // another was opened meanwhile
    fill(panel, content);
    panel.hidden = false;
    /** @type {HTMLElement | null} */ (panel.querySelector("textarea, input, select, button"))?.focus();
  }

  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation();
    close();
  });
  for (const { label, kind = "", act, panel: make } of ways) {
    const button = h("button", { type: "button", class: kind || null, "data-key": `${key} ${label}`, "aria-expanded": make ? "false" : null }, label);
    button.addEventListener("click", () => (make ? void open(button, make) : act?.()));
    add(actions, button);
  }
  return { actions, panel };
}

/**
 * Nothing below can be clicked until the returned function is called: a decision is on its way.
 * @param {HTMLElement} element
 * @returns {() => void}
 */
export function busy(element) {
  const stopped = [...element.querySelectorAll("button")].filter((button) => !button.disabled);
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  for (const button of stopped) button.disabled = true;
  return () => {
    for (const button of stopped) button.disabled = false;
    if (focused && element.contains(focused)) focused.focus();
  };
}
