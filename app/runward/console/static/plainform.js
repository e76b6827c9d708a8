// Fields without a schema: single lines, texts, numbers and JSON. Each shows its error below.

import { fill, h, text } from "./dom.js";
import { isObject, parse, whyNot } from "./exact.js";

/**
 * @typedef {object} Field
 * @property {string} name The field's name in the request body.
 * @property {string} label
 * @property {string} [about]
 * @property {string} [optional] The hint for a field that may be empty.
 * @property {"line" | "text" | "number" | "json"} kind
 * @property {string} [first] The initial value.
 *
 * @typedef {object} Drawn
 * @property {string} name
 * @property {HTMLElement} element
 * @property {() => any} read Returns undefined for an empty field. Throws an Unfit.
 * @property {(message: string) => void} wrong
 * @property {() => void} focus
 */

export class Unfit extends Error {}

/**
 * @param {Field} field
 * @param {(value: any) => string | null} [check] Returns the error of a JSON value, or null.
 * @returns {Drawn}
 */
export function drawn({ name, label, about, optional, kind, first = "" }, check = () => null) {
  const id = `f-${name}`;
  const names = { id, "aria-describedby": `${id}-about ${id}-wrong`, autocomplete: "off", spellcheck: kind === "text" ? "true" : "false" };
  const lines = Math.min(16, Math.max(3, first.split("\n").length + 1));
  const input = kind === "line" || kind === "number" ? h("input", { ...names, type: "text", inputmode: kind === "number" ? "decimal" : null }) : h("textarea", { ...names, rows: String(lines), class: kind === "json" ? "code" : null });
  input.value = first;
  const below = h("p", { class: "wrong", id: `${id}-wrong`, "aria-live": "polite" });

  /** @param {string} message */
  function wrong(message) {
    fill(below, text(message));
    input.setAttribute("aria-invalid", String(message !== ""));
  }

  function read() {
    const typed = input.value.trim();
    if (typed === "") {
      if (!optional) throw new Unfit("is required");
      return undefined;
    }
    if (kind === "number") {
      if (!/^\d+(\.\d+)?$/.test(typed)) throw new Unfit("must be a number, such as 30 or 0.5");
      return Number(typed);
    }
    if (kind !== "json") return kind === "line" ? typed : input.value;
    const value = jsonOf(typed);
    const problem = check(value);
    if (problem) throw new Unfit(problem);
    return value;
  }

  input.addEventListener("input", () => {
    if (input.value.trim() === "") return wrong("");
    try {
      read();
      wrong("");
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
      wrong(error.message);
    }
  });
  const element = h("div", { class: "field" }, h("label", { for: id }, label, optional ? h("span", { class: "soft" }, ` ${optional}`) : null), about ? h("p", { class: "help", id: `${id}-about` }, about) : null, input, below);
  return { name, element, read, wrong, focus: () => input.focus() };
}

/** @param {string} typed */
function jsonOf(typed) {
  try {
    return parse(typed);
  } catch (error) {
    throw new Unfit(whyNot(error));
  }
}

/** @param {any} value */
export function mustBeObject(value) {
  return isObject(value) ? null : "must be a JSON object: {…}";
}
