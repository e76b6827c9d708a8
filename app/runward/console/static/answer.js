// A field for a result that a person enters instead of the tool: text or JSON.

import { fill, h, text } from "./dom.js";
import { parse, whyNot } from "./exact.js";
import { split } from "./invisible.js";

let fields = 0;

/**
 * @param {string} label
 * @param {string} help
 * @returns {{element: HTMLElement, read: () => {output: any} | null}} `read` returns null while the
 *   text is not valid JSON. The field then shows the error.
 */
export function answerField(label, help) {
  const id = `answer${++fields}`;
  const input = h("textarea", { id, rows: "4", autocomplete: "off", "aria-describedby": `${id}-wrong` });
  const wrong = h("p", { class: "wrong", id: `${id}-wrong`, "aria-live": "polite" });
  const unseen = h("p", { class: "small unseen" });
  /** @param {string} value @param {string} name @param {boolean} checked */
  const kind = (value, name, checked) => h("label", { class: "switch" }, h("input", { type: "radio", name: `${id}-kind`, value, checked, onchange: () => look() }), name);
  const kinds = h("div", { class: "choices", role: "radiogroup", "aria-label": "Format of the result" }, kind("text", "Text", true), kind("json", "JSON", false));
  const isJson = () => kinds.querySelector("input:checked")?.getAttribute("value") === "json";

  /** @returns {{output: any} | null} */
  function read() {
    if (!isJson()) return { output: input.value };
    try {
      return { output: parse(input.value) };
    } catch (error) {
      fill(wrong, text(whyNot(error)));
      return null;
    }
  }

  function look() {
    fill(wrong);
    input.classList.toggle("code", isJson());
    const found = read();
    input.setAttribute("aria-invalid", String(found === null));
    fill(unseen, split(input.value).some((part) => part.mark) ? ["The text contains invisible characters: ", text(input.value)] : null);
  }

  input.addEventListener("input", look);
  return { element: h("div", { class: "field" }, h("label", { for: id }, label, " ", h("span", { class: "soft" }, help)), kinds, input, wrong, unseen), read };
}

/**
 * Return a text field for a message to the model.
 * @param {string} label
 * @param {string} help
 * @param {number} rows 1 for a single-line field.
 * @returns {{element: HTMLElement, read: () => string, write: (words: string) => void}}
 */
export function wordsField(label, help, rows) {
  const id = `answer${++fields}`;
  const input = rows === 1 ? h("input", { id, type: "text", maxlength: "4096", autocomplete: "off" }) : h("textarea", { id, rows: String(rows), maxlength: "4096" });
  return { element: h("div", { class: "field" }, h("label", { for: id }, label, " ", h("span", { class: "soft" }, help)), input), read: () => input.value.trim(), write: (words) => void (input.value = words) };
}
