// A picker: a list of checkboxes, with a search field if the list is long.

import { fill, h, text } from "./dom.js";
import { List } from "./list.js";

const SEARCH_FROM = 9;
const ROW_PX = 46;

/** @typedef {{name: string, about: string, asks: boolean}} Choice `asks`: whether each call requires an approval. */

/**
 * @param {string} called The name of the choices, such as `tools`.
 * @param {AbortSignal} signal Ends the picker.
 */
export function picker(called, signal) {
  const find = h("input", { type: "search", "aria-label": `Find ${called}`, placeholder: `Find ${called}`, autocomplete: "off", hidden: true });
  const picks = h("div");
  const scroller = h("div", { class: "picks" }, picks);
  const said = h("p", { class: "soft small", "aria-live": "polite" }, "Loading…");
  const element = h("div", { class: "picker" }, find, scroller, said);
  /** @type {Map<string, {box: HTMLInputElement, row: HTMLElement, words: string}>} */
  const rows = new Map();

  const list = new List(picks, { height: ROW_PX, scroller, signal, draw: (name) => /** @type {HTMLElement} */ (rows.get(name)?.row) });
  const chosen = () => [...rows].filter(([, { box }]) => box.checked).map(([name]) => name);

  function draw() {
    const word = find.value.trim().toLowerCase();
    const fitting = [...rows].filter(([, { box, words }]) => box.checked || words.includes(word)).map(([name]) => name);
    const shown = fitting.length;
    list.show(fitting);
    const names = chosen();
    fill(said, word && shown === names.length ? `No other ${called} match. ` : "", names.length ? [`${names.length} chosen: `, names.map((name, at) => [at ? ", " : "", text(name)])] : "None chosen.");
  }
  find.addEventListener("input", draw);
  find.addEventListener("keydown", (event) => event.key === "Enter" && !event.ctrlKey && event.preventDefault());
  picks.addEventListener("change", draw);

  return {
    element,
    chosen,
    /** @param {Choice[]} choices */
    offer(choices) {
      for (const { name, about, asks } of choices) {
        const box = h("input", { type: "checkbox", name: "tool", value: name });
        const row = h("label", { class: "pick" }, box, h("span", null, h("span", { class: "pick-name" }, text(name)), asks ? h("span", { class: "badge wait" }, "asks first") : null, about ? h("span", { class: "soft small pick-about" }, text(about)) : null));
        rows.set(name, { box, row, words: `${name} ${about}`.toLowerCase() });
      }
      find.hidden = rows.size < SEARCH_FROM;
      draw();
    },
    /** @param {string} why */
    refuse(why) {
      fill(said, why);
    },
    /** Select only these names. @param {string[]} names @returns {string[]} The names that do not exist. */
    choose(names) {
      for (const [name, { box }] of rows) box.checked = names.includes(name);
      draw();
      return names.filter((name) => !rows.has(name));
    },
  };
}
