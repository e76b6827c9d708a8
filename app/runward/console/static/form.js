// A form from a JSON Schema, and an editor for the same value as JSON. Errors are shown while a person
// types. The fields are in fields.js.

import { fill, h, text } from "./dom.js";
import { isObject } from "./exact.js";
import { fieldOf, jsonField, placeId } from "./fields.js";
import { newEffort, problems } from "./schema.js";

/** @typedef {import("./schema.js").Schema} Schema */

let forms = 0;

/**
 * @param {Schema | null} schema The schema of an object. With null, the form has only the JSON editor.
 * @param {any} value
 * @param {(value: any) => void} changed Called with each valid value, and with undefined for an invalid one.
 * @returns {{element: HTMLElement, refused: (errors: {path: string, message: string}[]) => void, look: () => void}}
 *   `look` reads the form now and calls `changed`.
 */
export function form(schema, value, changed) {
  /** @type {import("./fields.js").Form} */
  const shared = { id: `form${++forms}`, root: schema ?? {}, wrong: [], judged: [], effort: newEffort(), places: [] };
  const body = h("div", { class: "fields" });
  const rest = h("p", { class: "wrong", role: "alert", hidden: true });
  let current = value;
  let asJson = schema === null || !isObject(value);
  /** @type {import("./fields.js").Field} */
  let field;

  function draw() {
    field = asJson ? jsonField(shared, "", current) : fieldOf(shared, "", { ...schema, type: "object" }, current);
    if (!asJson) return fill(body, field.element);
    const wrong = h("p", { class: "wrong", "data-path": "", id: placeId(shared, ""), "aria-live": "polite", hidden: true });
    fill(body, h("div", { class: "field" }, h("label", { for: field.control }, "Arguments as JSON"), field.element, wrong));
  }

  /** @param {[string, string][]} wrong */
  function mark(wrong) {
    const left = [...wrong];
    for (const place of /** @type {NodeListOf<HTMLElement>} */ (body.querySelectorAll("[data-path]"))) {
      const path = place.getAttribute("data-path");
      const here = left.filter(([where]) => where === path);
      for (const one of here) left.splice(left.indexOf(one), 1);
      const message = here.map(([, said]) => said).join("; ");
      if (place.textContent !== message) fill(place, text(message));
      place.hidden = !message;
    }
    const paths = new Set(wrong.map(([path]) => path));
    for (const input of body.querySelectorAll("[data-at]")) input.setAttribute("aria-invalid", String(paths.has(input.getAttribute("data-at") ?? "")));
    rest.hidden = left.length === 0;
    fill(rest, text(left.map(([path, message]) => `${path || "The whole"} ${message}`).join("; ")));
  }

  function look() {
    shared.wrong = [];
    shared.judged = [];
    shared.effort = newEffort();
    const read = field.read();
    const unread = new Set(shared.wrong.map(([path]) => path));
    const below = (/** @type {string} */ path) => shared.judged.some((one) => path === one || path.startsWith(`${one}.`));
    const found = read === undefined ? [] : problems(read, schema ?? undefined).filter(([path]) => !unread.has(path) && !below(path));
    const wrong = [...shared.wrong, ...found];
    if (shared.wrong.length === 0) current = read;
    mark(wrong);
    changed(wrong.length ? undefined : current);
  }

  const kind = h("input", {
    type: "checkbox",
    checked: asJson,
    disabled: schema === null,
    onchange: () => {
      asJson = kind.checked || !isObject(current);
      kind.checked = asJson;
      draw();
      look();
    },
  });
  draw();
  body.addEventListener("input", look);
  body.addEventListener("change", look);
  body.addEventListener("click", (event) => {
    if (event.target instanceof HTMLButtonElement) look();
  });
  return {
    element: h("div", { class: "form" }, body, rest, h("label", { class: "switch small" }, kind, " Edit as JSON")),
    refused: (errors) => mark(errors.map(({ path, message }) => [path.replace(/^arguments\.?/, ""), message])),
    look,
  };
}
