// Choosing some of many: boxes to tick, with a search when there are more than an eye takes in.

import { fill, h, text } from "./dom.js";

const SEARCH_FROM = 9;

/** @typedef {{name: string, about: string, asks: boolean}} Choice `asks`: a person decides before each call. */

/**
 * @param {string} called What is chosen, such as `tools`.
 */
export function picker(called) {
  const find = h("input", { type: "search", "aria-label": `Find ${called}`, placeholder: `Find ${called}`, autocomplete: "off", hidden: true });
  const list = h("div", { class: "picks" });
  const said = h("p", { class: "soft small", "aria-live": "polite" }, "Looking…");
  const element = h("div", { class: "picker" }, find, list, said);
  /** @type {Map<string, {box: HTMLInputElement, row: HTMLElement, words: string}>} */
  const rows = new Map();

  const chosen = () => [...rows].filter(([, { box }]) => box.checked).map(([name]) => name);

  function draw() {
    const word = find.value.trim().toLowerCase();
    let shown = 0;
    for (const { box, row, words } of rows.values()) {
      row.hidden = !box.checked && !words.includes(word);
      if (!row.hidden) shown += 1;
    }
    const names = chosen();
    fill(said, word && shown === names.length ? `No other of the ${rows.size} ${called} fits. ` : "", names.length ? [`${names.length} chosen: `, names.map((name, at) => [at ? ", " : "", text(name)])] : "None is chosen.");
  }
  find.addEventListener("input", draw);
  find.addEventListener("keydown", (event) => event.key === "Enter" && !event.ctrlKey && event.preventDefault());
  list.addEventListener("change", draw);

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
      fill(list, [...rows.values()].map(({ row }) => row));
      find.hidden = rows.size < SEARCH_FROM;
      draw();
    },
    /** @param {string} why */
    refuse(why) {
      fill(said, why);
    },
    /** Chooses these alone. @param {string[]} names @returns {string[]} those that are not there. */
    choose(names) {
      for (const [name, { box }] of rows) box.checked = names.includes(name);
      draw();
      return names.filter((name) => !rows.has(name));
    },
  };
}
