// A secret that is shown once, with a button that copies it.

import { h, note, text } from "./dom.js";

/**
 * @param {string} title
 * @param {string} about
 * @param {string} value
 * @param {...import("./dom.js").Child} more
 */
export function shownOnce(title, about, value, ...more) {
  const copy = h("button", { type: "button" }, "Copy");
  copy.addEventListener("click", () => void navigator.clipboard.writeText(value).then(() => note("Copied."), () => note("The browser did not allow the console to copy the text.", "error")));
  return h("div", { class: "outcome good", tabindex: "-1" }, h("h2", null, title), h("p", null, about), h("code", { class: "secret" }, text(value)), h("div", { class: "actions" }, copy, more));
}
