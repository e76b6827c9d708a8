// A form field for each shape of a JSON Schema: text, numbers, choices, objects, lists, maps,
// alternatives and nullable values. Any other schema gets a JSON field.

import { fill, h, text } from "./dom.js";
import { isExact, isObject, parse, same, whyNot } from "./exact.js";
import { marked, split } from "./invisible.js";
import { FORMATS, flat, join, prefix, problems, typeOf } from "./schema.js";

/** @typedef {import("./schema.js").Schema} Schema */

/**
 * @typedef {object} Field
 * @property {HTMLElement} element
 * @property {() => any} read The value; undefined for one that is not there. What cannot be read goes
 *   to the form's `wrong`.
 * @property {string} [control] ID of the labeled control. A group has none.
 *
 * @typedef {object} Form The state that the fields of one form share.
 * @property {string} id
 * @property {Schema} root
 * @property {[string, string][]} wrong Errors of the last reading: paths and messages.
 * @property {string[]} judged Paths below which only `wrong` counts.
 * @property {import("./schema.js").Effort} effort Effort of drawing since the last reading.
 * @property {string[]} places Paths that have a place for their error.
 */

const DEEPEST = 24;
const STEPS_A_FIELD = 200; // of an effort; a field that exceeds it is drawn as JSON
let controls = 0;

/** Return the ID of the element for the error at a path. @param {Form} form @param {string} path */
export function placeId(form, path) {
  if (!form.places.includes(path)) form.places.push(path);
  return `${form.id}-wrong${form.places.indexOf(path)}`;
}

/** @param {Form} form @param {string} path */
function place(form, path) {
  return h("p", { class: "wrong", "data-path": path, id: placeId(form, path), "aria-live": "polite", hidden: true });
}

/** Return the attributes of the control at a path. @param {Form} form @param {string} path */
function named(form, path) {
  return { id: `${form.id}-${++controls}`, "data-at": path, "aria-describedby": placeId(form, path), autocomplete: "off", spellcheck: "false" };
}

/**
 * @param {Form} form @param {string} path @param {any} given The schema. @param {any} value Undefined if there is no value.
 * @returns {Field}
 */
export function fieldOf(form, path, given, value) {
  form.effort.steps -= STEPS_A_FIELD;
  if (path.split(".").length > DEEPEST || form.effort.steps < 0) return jsonField(form, path, value);
  const schema = flat(given, form.root, 0, form.effort);
  const there = value !== undefined;
  const { alternatives, nullable } = ways(schema, form);
  if (nullable) return nullableField(form, path, nullable, value);
  if (alternatives) return alternativesField(form, path, alternatives, value);
  if (schema.const !== undefined) return there && same(schema.const, value) ? constField(schema.const) : choiceField(form, path, [schema.const], value);
  if (schema.enum) return choiceField(form, path, schema.enum, value);
  const type = schema.type ?? (schema.properties ? "object" : there ? typeOf(value) : undefined);
  if (type === "boolean" && (!there || typeof value === "boolean")) return choiceField(form, path, [true, false], value);
  if (type === "string" && (!there || typeof value === "string")) return textField(form, path, schema, value);
  if ((type === "number" || type === "integer") && (!there || typeof value === "number" || isExact(value))) return numberField(form, path, schema, value);
  if (type === "object" && (!there || isObject(value))) return objectField(form, path, schema, value ?? {});
  if (type === "array" && (isObject(schema.items) || prefix(schema).length > 0) && (!there || Array.isArray(value))) {
    const choices = flat(schema.items, form.root, 0, form.effort).enum;
    return choices && schema.uniqueItems && (value ?? []).every((/** @type {any} */ one) => choices.some((/** @type {any} */ other) => same(one, other))) ? checksField(form, path, choices, value ?? []) : arrayField(form, path, schema, value ?? []);
  }
  return jsonField(form, path, value);
}

/**
 * Return the shapes of a schema with several types, `anyOf` or `oneOf`: `nullable` for one shape or
 * null, and `alternatives` for several shapes.
 * @param {Schema} schema @param {Form} form
 * @returns {{nullable?: Schema, alternatives?: Schema[]}}
 */
function ways({ anyOf, oneOf, ...rest }, { root, effort }) {
  const { type, ...others } = rest;
  const each = (anyOf ?? oneOf ?? (Array.isArray(type) ? type.map((one) => ({ type: one })) : [])).map((/** @type {any} */ one) => flat(one, root, 0, effort));
  if (each.length === 0) return {};
  const { title, ...common } = Array.isArray(type) ? others : rest; // The alternatives have titles of their own.
  const shapes = each.filter((/** @type {Schema} */ one) => one.type !== "null" && one.const !== null).map((/** @type {Schema} */ one) => flat({ ...common, allOf: [one] }, root, 0, effort));
  if (common.enum && Array.isArray(type)) return {}; // the enum lists all values, including null
  if (shapes.length === each.length) return { alternatives: shapes };
  return { nullable: shapes.length === 1 ? shapes[0] : { anyOf: shapes } };
}

/** @param {Form} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function nullableField(form, path, schema, value) {
  const inner = fieldOf(form, path, schema, value === null ? undefined : value);
  const none = h("input", { type: "checkbox", checked: value === null, onchange: () => (inner.element.hidden = none.checked) });
  inner.element.hidden = value === null;
  return { element: h("div", { class: "nullable" }, inner.element, h("label", { class: "switch small" }, none, " null, no value")), read: () => (none.checked ? null : inner.read()), control: inner.control };
}

/** @param {Schema} shape @param {number} at */
function nameOf(shape, at) {
  if (shape.title) return shape.title;
  const fixed = Object.values(shape.properties ?? {}).find((one) => isObject(one) && typeof (/** @type {any} */ (one).const) === "string");
  if (fixed) return /** @type {any} */ (fixed).const;
  if (shape.const !== undefined) return JSON.stringify(shape.const);
  return shape.format ?? shape.type ?? `alternative ${at + 1}`;
}

/** @param {Form} form @param {string} path @param {Schema[]} shapes @param {any} value @returns {Field} */
function alternativesField(form, path, shapes, value) {
  const body = h("div", { class: "alternative" });
  const attributes = named(form, path);
  const select = h("select", { ...attributes, "data-at": null }, value === undefined ? h("option", { value: "" }, "—") : null, shapes.map((shape, at) => h("option", { value: String(at) }, marked(nameOf(shape, at)))), h("option", { value: "json" }, "JSON"));
  const fits = value === undefined ? -1 : shapes.findIndex((shape) => problems(value, shape, form.root, "", form.effort).length === 0);
  const near = fits >= 0 || value === undefined ? fits : shapes.findIndex((shape) => problems(value, { type: shape.type }, undefined, "", form.effort).length === 0);
  select.value = value === undefined ? "" : near < 0 ? "json" : String(near);
  /** @type {Field | null} */
  let inner = null;
  /** @param {any} start */
  function draw(start) {
    const shape = shapes[Number(select.value)];
    const fixed = shape?.const ?? fixedOf(shape);
    inner = select.value === "" ? null : select.value === "json" ? jsonField(form, path, start) : shape.const !== undefined ? null : fieldOf(form, path, shape, start ?? fixed);
    fill(body, inner?.element);
    if (inner?.control) body.querySelector(`#${inner.control}`)?.setAttribute("aria-label", marked(`${path}, ${select.selectedOptions[0].label}`));
  }
  draw(value);
  select.addEventListener("change", () => {
    const before = form.wrong.length;
    const now = inner?.read();
    form.wrong.length = before;
    const shape = shapes[Number(select.value)];
    draw(select.value === "json" || (shape && now !== undefined && problems(now, shape, form.root).length === 0) ? now : undefined);
  });
  return {
    element: h("div", { class: "alternatives" }, select, body),
    control: attributes.id,
    read: () => {
      if (select.value === "") return undefined;
      const shape = shapes[Number(select.value)];
      const read = shape?.const !== undefined ? shape.const : inner?.read();
      const found = shape && read !== undefined ? problems(read, shape, form.root, path) : [];
      if (found.length) {
        form.wrong.push(...found);
        form.judged.push(path);
      }
      return read;
    },
  };
}

/** Return the constant properties of an alternative, such as its `kind`. @param {Schema | undefined} shape */
function fixedOf(shape) {
  const fixed = Object.entries(shape?.properties ?? {}).filter(([name, one]) => isObject(one) && /** @type {any} */ (one).const !== undefined && (shape?.required ?? []).includes(name));
  return fixed.length ? Object.fromEntries(fixed.map(([name, one]) => [name, /** @type {any} */ (one).const])) : undefined;
}

/** Return the help text of a field. @param {Schema} schema @returns {string} */
export function limits(schema) {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, minItems, maxItems } = schema;
  /** @param {string} what @param {any} from @param {any} to */
  const range = (what, from, to) => (from !== undefined && to !== undefined ? `${from} to ${to}${what}` : from !== undefined ? `${from} or more${what}` : to !== undefined ? `at most ${to}${what}` : null);
  const said = [
    range("", minimum, maximum),
    exclusiveMinimum === undefined ? null : `more than ${exclusiveMinimum}`,
    exclusiveMaximum === undefined ? null : `less than ${exclusiveMaximum}`,
    schema.multipleOf === undefined ? null : `in steps of ${schema.multipleOf}`,
    range(" characters", minLength > 1 ? minLength : undefined, maxLength),
    range(" entries", minItems, maxItems),
    FORMATS[schema.format]?.said ?? schema.format ?? null,
    schema.pattern ? `matches ${schema.pattern}` : null,
    schema.default === undefined ? null : `if left out: ${JSON.stringify(schema.default)}`,
  ];
  return said.filter((one) => one !== null).join("; ");
}

/**
 * Return a field with its name, its help text, and a place for its error.
 * @param {Form} form @param {string} path @param {string} name @param {any} given @param {any} value
 * @param {{needed: boolean, beside?: HTMLElement}} options
 * @returns {{row: HTMLElement, read: () => any}}
 */
function labelled(form, path, name, given, value, { needed, beside }) {
  const schema = flat(given, form.root, 0, form.effort);
  const field = needed || value !== undefined || !isGroup(schema, form) ? fieldOf(form, path, given, value) : null;
  let shown = field;
  const title = [text(name), needed ? null : h("span", { class: "soft" }, " optional")];
  const rules = limits(schema);
  const help = [schema.description ? h("p", { class: "help" }, text(schema.description)) : null, rules ? h("p", { class: "limits" }, text(rules)) : null];
  const body = h("div", { class: "value" }, field?.element);
  const leave = h("button", { type: "button", class: "quiet small" });
  const offer = () => fill(leave, shown ? "Remove" : field ? "Restore" : "Add", h("span", { class: "hidden" }, ` ${name}`));
  leave.addEventListener("click", () => {
    shown = shown ? null : (field ?? fieldOf(form, path, given, undefined));
    fill(body, shown?.element);
    offer();
    if (shown) /** @type {HTMLElement | null} */ (body.querySelector("input, select, textarea, button"))?.focus();
  });
  offer();
  const may = !needed && (field === null || value !== undefined);
  const act = beside ?? (may ? leave : null);
  const group = field ? field.control === undefined && !field.element.matches(".const") : true;
  const head = group ? h("legend", null, title, act) : h("div", { class: "field-head" }, h(field?.control ? "label" : "p", { for: field?.control ?? null, class: "label" }, title), act);
  const row = h(group ? "fieldset" : "div", { class: group ? null : "field" }, head, help, body, place(form, path));
  return { row, read: () => shown?.read() };
}

/** Return whether a schema has parts. Parts are drawn only on demand. @param {Schema} schema @param {Form} form */
function isGroup(schema, form) {
  const { nullable, alternatives } = ways(schema, form);
  const one = nullable ?? schema;
  return !alternatives && !one.enum && (one.type === "object" || one.type === "array" || Boolean(one.properties));
}

/** @param {Form} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function objectField(form, path, schema, value) {
  const required = new Set(schema.required ?? []);
  const known = schema.properties ?? {};
  const parts = Object.keys(known).map((name) => ({ name, ...labelled(form, join(path, name), name, known[name], Object.hasOwn(value, name) ? value[name] : undefined, { needed: required.has(name) }) }));
  const more = entriesOf(form, path, schema, value, required);
  return {
    element: h("div", { class: "object" }, parts.map((part) => part.row), more.element),
    read: () => {
      /** @type {any} */
      const read = {};
      for (const [name, found] of [...parts.map((part) => [part.name, part.read()]), ...more.read()]) {
        if (found !== undefined) Object.defineProperty(read, name, { value: found, enumerable: true, configurable: true, writable: true });
      }
      return read;
    },
  };
}

/** Return the fields for an object's additional properties.
 * @param {Form} form @param {string} path @param {Schema} schema @param {any} value @param {Set<string>} required */
function entriesOf(form, path, schema, value, required) {
  const known = schema.properties ?? {};
  const of = isObject(schema.additionalProperties) ? schema.additionalProperties : {};
  const open = schema.additionalProperties === true || isObject(schema.additionalProperties) || (schema.additionalProperties === undefined && Object.keys(known).length === 0);
  const rows = h("div", { class: "entries" });
  /** @type {Set<{name: string, read: () => any}>} */
  const entries = new Set();
  /** @param {string} name @param {any} start */
  function put(name, start) {
    const drop = h("button", { type: "button", class: "quiet small" }, "Remove", h("span", { class: "hidden" }, ` ${name}`));
    const { row, read } = labelled(form, join(path, name), name, of, start, { needed: true, beside: drop });
    const entry = { name, read };
    drop.addEventListener("click", () => {
      entries.delete(entry);
      row.remove();
      (element.querySelector("input, button") ?? element).dispatchEvent(new Event("input", { bubbles: true }));
    });
    entries.add(entry);
    rows.appendChild(row);
    return row;
  }
  for (const name of Object.keys(value)) if (!Object.hasOwn(known, name)) put(name, value[name]);
  for (const name of required) if (!Object.hasOwn(known, name) && !Object.hasOwn(value, name)) put(name, undefined);
  const fresh = h("input", { type: "text", "aria-label": "Name of a new entry", placeholder: "Name", autocomplete: "off" });
  const add_ = h("button", { type: "button" }, "Add");
  const taken = (/** @type {string} */ name) => Object.hasOwn(known, name) || [...entries].some((one) => one.name === name);
  fresh.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) add_.click();
  });
  add_.addEventListener("click", () => {
    const name = fresh.value;
    if (name === "" || taken(name)) return fresh.focus();
    fresh.value = "";
    /** @type {HTMLElement | null} */ (put(name, undefined).querySelector(".value input, .value select, .value textarea"))?.focus();
  });
  const element = h("div", { class: "entries" }, rows, open ? h("div", { class: "adding" }, fresh, add_) : null);
  return { element, read: () => [...entries].map((one) => [one.name, one.read()]) };
}

/** @param {Form} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function textField(form, path, schema, value) {
  const long = (value ?? "").length > 60 || (value ?? "").includes("\n") || (schema.maxLength ?? 0) > 200;
  const names = named(form, path);
  const rows = Math.min(14, Math.max(3, (value ?? "").split("\n").length, Math.ceil((value ?? "").length / 90)));
  const input = long ? h("textarea", { ...names, rows: String(rows) }) : h("input", { ...names, type: "text" });
  input.value = value ?? "";
  // A single-line field drops line breaks, and every field drops carriage returns. Until a person types, the original value is kept.
  let read = value;
  const unseen = h("p", { class: "small unseen" });
  const look = () => fill(unseen, split(read ?? "").some((part) => part.mark) ? ["The text contains invisible characters: ", text(read)] : null);
  input.addEventListener("input", () => {
    read = input.value === "" && value === undefined ? undefined : input.value;
    look();
  });
  look();
  return { element: h("div", null, input, unseen), read: () => read, control: names.id };
}

/** @param {Form} form @param {string} path @param {Schema} schema @param {any} value @returns {Field} */
function numberField(form, path, schema, value) {
  const names = named(form, path);
  const input = h("input", { ...names, type: "text", inputmode: schema.type === "integer" ? "numeric" : "decimal" });
  input.value = value === undefined ? "" : JSON.stringify(value);
  return {
    element: input,
    control: names.id,
    read: () => {
      const typed = input.value.trim();
      if (typed === "") return undefined;
      if (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(typed)) return parse(typed);
      form.wrong.push([path, "must be a number, such as 12 or 0.5"]);
      return undefined;
    },
  };
}

/** @param {any} one */
const shownChoice = (one) => marked(typeof one === "string" && one !== "" ? one : JSON.stringify(one));

/** @param {Form} form @param {string} path @param {any[]} choices @param {any} value @returns {Field} */
function choiceField(form, path, choices, value) {
  const names = named(form, path);
  const select = h("select", names);
  const at = choices.findIndex((one) => same(one, value));
  if (at < 0) select.append(h("option", { value: "" }, value === undefined ? "—" : shownChoice(value)));
  choices.forEach((one, index) => select.append(h("option", { value: String(index) }, shownChoice(one))));
  select.value = at < 0 ? "" : String(at);
  return { element: select, control: names.id, read: () => (select.value === "" ? value : choices[Number(select.value)]) };
}

/** @param {any} value @returns {Field} */
function constField(value) {
  return { element: h("div", { class: "const" }, h("code", null, text(shownChoice(value)))), read: () => value };
}

/** Return a field for a set of distinct choices. @param {Form} form @param {string} path @param {any[]} choices @param {any[]} value @returns {Field} */
function checksField(form, path, choices, value) {
  const boxes = choices.map((one) => h("input", { type: "checkbox", checked: value.some((other) => same(one, other)), "data-at": path, "aria-describedby": placeId(form, path) }));
  const isChecked = (/** @type {any} */ one) => boxes[choices.findIndex((other) => same(one, other))].checked;
  return {
    element: h("div", { class: "choices" }, choices.map((one, at) => h("label", { class: "switch" }, boxes[at], shownChoice(one)))),
    read: () => [...value.filter(isChecked), ...choices.filter((one) => isChecked(one) && !value.some((other) => same(one, other)))],
  };
}

/** @param {Form} form @param {string} path @param {Schema} schema @param {any[]} value @returns {Field} */
function arrayField(form, path, schema, value) {
  const first = prefix(schema);
  const rest = Array.isArray(schema.items) ? (schema.additionalItems ?? {}) : (schema.items ?? {});
  const list = h("div", { class: "entries" });
  /** @type {(() => any)[]} */
  let reads = [];
  /** @param {any[]} values */
  function draw(values) {
    const entries = values.map((one, at) => {
      const drop = h("button", { type: "button", class: "quiet small" }, "Remove", h("span", { class: "hidden" }, ` ${at + 1}`));
      drop.addEventListener("click", () => redraw((now) => now.filter((_, index) => index !== at)) && more.focus());
      return labelled(form, join(path, String(at)), String(at + 1), at < first.length ? first[at] : rest, one, { needed: true, beside: drop });
    });
    reads = entries.map((entry) => entry.read);
    fill(list, entries.map((entry) => entry.row));
  }
  /** @param {(now: any[]) => any[]} change @returns {boolean} False while a value in the list cannot be read. */
  function redraw(change) {
    const before = form.wrong.length;
    const now = reads.map((read) => read());
    const readable = form.wrong.length === before;
    form.wrong.length = before;
    if (readable) draw(change(now));
    return readable;
  }
  draw(value);
  const more = h("button", { type: "button", class: "quiet small", hidden: rest === false }, "Add one");
  more.addEventListener("click", () => {
    if (redraw((now) => [...now, undefined])) /** @type {HTMLElement | null} */ (list.lastElementChild?.querySelector(".value input, .value select, .value textarea"))?.focus();
  });
  return { element: h("div", { class: "array" }, list, more), read: () => reads.map((read) => read() ?? null) };
}

/** @param {Form} form @param {string} path @param {any} value @returns {Field} */
export function jsonField(form, path, value) {
  const first = value === undefined ? "" : JSON.stringify(value, null, 2);
  const names = named(form, path);
  const input = h("textarea", { ...names, class: "code", rows: String(Math.min(20, Math.max(2, first.split("\n").length + 1))), placeholder: path ? "JSON" : null });
  input.value = first;
  return {
    element: input,
    control: names.id,
    read: () => {
      if (input.value.trim() === "" && path) return undefined;
      try {
        return parse(input.value);
      } catch (error) {
        form.wrong.push([path, whyNot(error)]);
        return undefined;
      }
    },
  };
}
