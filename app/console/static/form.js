// A form made from a JSON Schema, and the same value as JSON. What a form cannot show (alternatives,
// references, names that are not in the schema) has a field of JSON.

import { fill, h, text } from "./dom.js";
import { isExact, isObject, parse } from "./exact.js";
import { marked, split } from "./invisible.js";
import { join, problems } from "./schema.js";

/** @typedef {import("./schema.js").Schema} Schema */
/** @typedef {{element: HTMLElement, read: () => any}} Field `read` throws a Wrong. */

class Wrong extends Error {
  /** @param {string} path @param {string} message */
  constructor(path, message) {
    super(message);
    this.path = path;
  }
}

let forms = 0;

/**
 * @param {Schema | null} schema of an object; null leaves only JSON.
 * @param {any} value
 * @param {(value: any) => void} changed called with each value that fits, undefined for one that does not.
 * @returns {{element: HTMLElement, refused: (errors: {path: string, message: string}[]) => void, focus: () => void}}
 */
export function form(schema, value, changed) {
  const id = `form${++forms}`;
  const body = h("div", { class: "fields" });
  const rest = h("p", { class: "wrong", role: "alert", hidden: true });
  let current = value;
  let asJson = schema === null || !isObject(value);
  /** @type {Field} */
  let field;

  function draw() {
    field = asJson ? jsonField(id, "", "Arguments as JSON", current) : objectField(id, "", schema ?? {}, current);
    fill(body, field.element);
  }

  /** @param {[string, string][]} wrong */
  function mark(wrong) {
    const left = [...wrong];
    for (const place of body.querySelectorAll("[data-path]")) {
      const path = place.getAttribute("data-path");
      const at = left.findIndex(([where]) => where === path);
      const message = at < 0 ? "" : left.splice(at, 1)[0][1];
      place.textContent = message;
      /** @type {HTMLElement} */ (place).hidden = !message;
      const input = place.id && body.querySelector(`[aria-describedby="${place.id}"]`);
      if (input) input.setAttribute("aria-invalid", String(Boolean(message)));
    }
    rest.hidden = left.length === 0;
    fill(rest, text(left.map(([path, message]) => `${path || "The whole"} ${message}`).join("; ")));
  }

  function look() {
    try {
      current = field.read();
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      mark([[error.path, error.message]]);
      changed(undefined);
      return;
    }
    const wrong = problems(current, schema ?? undefined);
    mark(wrong);
    changed(wrong.length ? undefined : current);
  }

  const kind = h("input", {
    type: "checkbox",
    checked: asJson,
    disabled: schema === null,
    onchange: () => {
      asJson = kind.checked;
      draw();
      look();
    },
  });
  draw();
  body.addEventListener("input", look);
  body.addEventListener("click", (event) => {
    if (event.target instanceof HTMLButtonElement) look();
  });
  const element = h(
    "div",
    { class: "form" },
    body,
    rest,
    h("label", { class: "switch" }, kind, " Edit as JSON"),
  );
  return {
    element,
    refused: (errors) => mark(errors.map(({ path, message }) => [path.replace(/^arguments\.?/, ""), message])),
    focus: () => /** @type {HTMLElement | null} */ (body.querySelector("input, textarea, select"))?.focus(),
  };
}

/** @param {string} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function fieldOf(form, path, schema, value) {
  const type = schema.type;
  if (schema.$ref || schema.anyOf || schema.oneOf || schema.allOf || Array.isArray(type)) {
    return jsonField(form, path, null, value, schema);
  }
  if (schema.enum) return choiceField(form, path, schema, value);
  if (type === "boolean" && typeof value !== "string") return choiceField(form, path, { ...schema, enum: [true, false] }, value);
  if (type === "string" && (value === undefined || typeof value === "string")) return textField(form, path, schema, value);
  if ((type === "number" || type === "integer") && (value === undefined || typeof value === "number" || isExact(value))) {
    return numberField(form, path, schema, value);
  }
  if (type === "object" && schema.properties && (value === undefined || isObject(value))) {
    return unlessAbsent(value, objectField(form, path, schema, value ?? {}), (read) => Object.keys(read).length === 0);
  }
  if (type === "array" && isObject(schema.items) && (value === undefined || Array.isArray(value))) {
    return unlessAbsent(value, arrayField(form, path, schema, value ?? []), (read) => read.length === 0);
  }
  return jsonField(form, path, null, value, schema);
}

/** What was not there, and is still empty, stays away.
 * @param {any} value @param {Field} field @param {(read: any) => boolean} empty @returns {Field} */
function unlessAbsent(value, field, empty) {
  if (value !== undefined) return field;
  const read = () => {
    const found = field.read();
    return empty(found) ? undefined : found;
  };
  return { element: field.element, read };
}

/** @param {string} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function objectField(form, path, schema, value) {
  const required = new Set(schema.required ?? []);
  const known = schema.properties ?? {};
  const names = [...new Set([...Object.keys(known), ...Object.keys(value)])];
  const parts = names.map((name) => {
    const inner = isObject(known[name]) ? known[name] : {};
    const at = join(path, name);
    const field = fieldOf(form, at, inner, Object.hasOwn(value, name) ? value[name] : undefined);
    return { name, field, needed: required.has(name), ...labelled(form, at, name, inner, field, required.has(name)) };
  });
  return {
    element: h("div", { class: "object" }, parts.map((part) => part.row)),
    read: () => {
      /** @type {any} */
      const read = {};
      for (const { name, field } of parts) {
        const found = field.read();
        if (found !== undefined) Object.defineProperty(read, name, { value: found, enumerable: true, configurable: true, writable: true });
      }
      return read;
    },
  };
}

/** @param {string} form @param {string} path @param {string} name @param {Schema} schema @param {Field} field @param {boolean} needed */
function labelled(form, path, name, schema, field, needed) {
  const title = [text(name), needed ? null : h("span", { class: "soft" }, " optional")];
  const help = schema.description ? h("p", { class: "help" }, text(schema.description)) : null;
  const wrong = h("p", { class: "wrong", "data-path": path, id: `${idOf(form, path)}:wrong`, "aria-live": "polite", hidden: true });
  const many = field.element.matches(".object, .array");
  if (many) return { row: h("fieldset", null, h("legend", null, title), help, field.element, wrong) };
  return { row: h("div", { class: "field" }, h("label", { for: idOf(form, path) }, title), help, field.element, wrong) };
}

/** A name may have anything in it; an id that others refer to, no spaces. @param {string} form @param {string} path */
function idOf(form, path) {
  return `${form}:${path.replace(/[^\w.-]/gu, (character) => `~${character.codePointAt(0)}~`)}`;
}

/** @param {string} form @param {string} path */
function names(form, path) {
  return { id: idOf(form, path), "aria-describedby": `${idOf(form, path)}:wrong`, autocomplete: "off", spellcheck: "false" };
}

/** @param {string} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function textField(form, path, schema, value) {
  const long = (value ?? "").length > 60 || (value ?? "").includes("\n") || (schema.maxLength ?? 0) > 200;
  const input = long
    ? h("textarea", { ...names(form, path), rows: "4" })
    : h("input", { ...names(form, path), type: "text" });
  input.value = value ?? "";
  let typed = false; // an input has no carriage returns: what nobody typed into stays as it was
  input.addEventListener("input", () => (typed = true));
  const unseen = h("p", { class: "small unseen" });
  const look = () => fill(unseen, split(input.value).some((part) => part.mark) ? ["With what cannot be seen: ", text(input.value)] : null);
  input.addEventListener("input", look);
  look();
  return { element: h("div", null, input, unseen), read: () => (!typed ? value : input.value || value !== undefined ? input.value : undefined) };
}

/** @param {string} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function numberField(form, path, schema, value) {
  const input = h("input", { ...names(form, path), type: "text", inputmode: schema.type === "integer" ? "numeric" : "decimal" });
  const first = value === undefined ? "" : JSON.stringify(value);
  input.value = first;
  return {
    element: input,
    read: () => {
      const typed = input.value.trim();
      if (typed === "") return undefined;
      if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(typed)) throw new Wrong(path, "must be a number, such as 12 or 0.5");
      return parse(typed);
    },
  };
}

/** @param {string} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function choiceField(form, path, schema, value) {
  /** @type {any[]} */
  const choices = schema.enum;
  const select = h("select", names(form, path));
  const at = choices.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
  if (at < 0) select.append(h("option", { value: "" }, value === undefined ? "—" : marked(JSON.stringify(value))));
  choices.forEach((one, index) => select.append(h("option", { value: String(index) }, marked(typeof one === "string" ? one : JSON.stringify(one)))));
  select.value = at < 0 ? "" : String(at);
  return {
    element: select,
    read: () => (select.value === "" ? value : choices[Number(select.value)]),
  };
}

/** @param {string} form @param {string} path @param {Schema} schema @param {any[]} value @returns {Field} */
function arrayField(form, path, schema, value) {
  const list = h("div", { class: "entries" });
  /** @type {Field[]} */
  let fields = [];
  /** @param {any[]} values */
  function draw(values) {
    fields = values.map((one, at) => fieldOf(form, join(path, String(at)), schema.items, one));
    fill(
      list,
      fields.map((field, at) => {
        const drop = h("button", { type: "button", class: "quiet small" }, "Remove");
        drop.addEventListener("click", () => redraw((now) => now.filter((_, index) => index !== at)));
        const { row } = labelled(form, join(path, String(at)), String(at + 1), {}, field, true);
        return h("div", { class: "entry" }, row, drop);
      }),
    );
  }
  /** @param {(now: any[]) => any[]} change */
  function redraw(change) {
    try {
      draw(change(fields.map((field) => field.read())));
    } catch (error) {
      if (!(error instanceof Wrong)) throw error; // it is shown at its place already
    }
  }
  draw(value);
  const more = h("button", { type: "button", class: "quiet small" }, "Add one");
  more.addEventListener("click", () => redraw((now) => [...now, undefined]));
  return {
    element: h("div", { class: "array" }, list, more),
    read: () => fields.map((field) => field.read() ?? null),
  };
}

/** @param {string} form @param {string} path @param {string | null} label @param {any} value @param {Schema} [schema] @returns {Field} */
function jsonField(form, path, label, value, schema) {
  const first = value === undefined ? "" : JSON.stringify(value, null, 2);
  const input = h("textarea", { ...names(form, path), class: "code", rows: String(Math.min(16, first.split("\n").length + 1)) });
  input.value = first;
  const hint = schema?.description ? null : label && h("label", { for: idOf(form, path) }, label);
  const wrong = label ? h("p", { class: "wrong", "data-path": path, id: `${idOf(form, path)}:wrong`, "aria-live": "polite", hidden: true }) : null;
  return {
    element: label ? h("div", { class: "field" }, hint, input, wrong) : input,
    read: () => {
      if (input.value.trim() === "" && !label) return undefined;
      try {
        return parse(input.value);
      } catch {
        throw new Wrong(path, "is not JSON yet");
      }
    },
  };
}
