// Buttons in a row for the actions on one thing. An action that needs more than a click replaces the
// row by a panel, so that each state has one primary button and no other way to decide.

import { add, fill, h } from "./dom.js";
import { marked } from "./invisible.js";

/**
 * @typedef {object} Way
 * @property {string} name
 * @property {string} label
 * @property {"primary" | "danger" | ""} [kind]
 * @property {() => void} [act] The effect of a click; or:
 * @property {(back: HTMLElement) => HTMLElement[] | Promise<HTMLElement[]>} [panel] The content of the
 *   panel that it opens. `back` is the button that closes it, for the panel's own row of buttons.
 *
 * @typedef {object} Choosing
 * @property {HTMLElement} actions The row.
 * @property {HTMLElement} panel
 * @property {(name: string) => Promise<void>} open Opens the panel of an action without moving the focus.
 * @property {(name: string, label: string) => void} rename
 */

/**
 * @param {string} key of this place on the page.
 * @param {string} subject The thing that the buttons act on. Screen readers hear it after each label.
 * @param {Way[]} ways
 * @param {(name: string) => void} [closed] Called when a person has closed a panel.
 * @returns {Choosing}
 */
export function choosing(key, subject, ways, closed) {
  const actions = h("div", { class: "actions" });
  const panel = h("div", { class: "panel", hidden: true });
  /** @type {Map<string, HTMLElement>} */
  const buttons = new Map();
  let opened = "";

  function close() {
    const name = opened;
    opened = "";
    panel.hidden = true;
    fill(panel);
    actions.hidden = false;
    closed?.(name);
    buttons.get(name)?.focus();
  }

  /** @param {string} name */
  async function open(name) {
    const way = ways.find((one) => one.name === name);
    if (!way?.panel) return;
    opened = name;
    actions.hidden = true;
    panel.hidden = false;
    const back = h("button", { type: "button", class: "quiet", onclick: close }, "Back");
    fill(panel, h("div", { class: "actions" }, h("span", { class: "soft" }, "Loading…"), back));
    const content = await way.panel(back);
    if (opened === name) fill(panel, h("h3", null, way.label), content); // it may have been closed meanwhile
  }

  /** @param {HTMLElement} button @param {string} label */
  function name_(button, label) {
    button.setAttribute("aria-label", marked(`${label}: ${subject}`));
    fill(button, label);
  }

  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation();
    close();
  });
  for (const { name, label, kind = "", act, panel: make } of ways) {
    const button = h("button", { type: "button", class: kind || null, "data-key": `${key} ${name}` });
    name_(button, label);
    button.addEventListener("click", () => {
      if (!make) return act?.();
      void open(name).then(() => /** @type {HTMLElement | null} */ (panel.querySelector("textarea, input, select, button"))?.focus());
    });
    buttons.set(name, button);
    add(actions, button);
  }
  return {
    actions,
    panel,
    open,
    rename(name, label) {
      const button = buttons.get(name);
      if (button) name_(button, label);
    },
  };
}

/**
 * Disable all controls of an element while a decision is sent. Call the returned function to enable them.
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
