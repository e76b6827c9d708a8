// JSON Schema validation (2020-12 and the equivalent older keywords) for forms while a person types.
// It is never stricter than the server, which validates everything again. Unknown keywords are left
// to the server.

import { isExact, isObject, same } from "./exact.js";

const MOST_TRIES = 1e7; // of one pattern on one text
const TRIES_A_STEP = 1000;
const MOST_STEPS = 200_000; // of one validation and of one rendering: about a second
const MOST_UNIQUE = 1000; // items that are compared with each other
const MOST_WRONGS = 1000; // of one list, object or combination; a call cannot have 100,000 arguments

/** @typedef {{steps: number}} Effort Remaining steps. Below zero, the rest is left to the server. */

/** @typedef {{[keyword: string]: any}} Schema */
/** @typedef {[string, string]} Wrong A path such as `lines.0.amount`, and the error there. */

const DEEPEST = 64;

/** @returns {Effort} */
export const newEffort = () => ({ steps: MOST_STEPS });

/**
 * Return the errors of a value. Returns no errors if the validation takes too many steps.
 * @param {any} value
 * @param {Schema | boolean | undefined} schema
 * @param {Schema} [root] The schema that `$ref` refers to.
 * @param {string} [path]
 * @param {Effort} [effort]
 * @returns {Wrong[]}
 */
export function problems(value, schema, root = isObject(schema) ? /** @type {Schema} */ (schema) : {}, path = "", effort = newEffort()) {
  const found = wrongs(value, schema, root, path, 0, effort);
  return effort.steps < 0 ? [] : found;
}

/** @param {any} value @param {Schema | boolean | undefined} schema @param {Schema} root @param {string} path @param {number} depth @param {Effort} effort @returns {Wrong[]} */
function wrongs(value, schema, root, path, depth, effort) {
  if (--effort.steps < 0) return [];
  if (schema === false) return [[path, "must be left out"]];
  if (!isObject(schema) || depth > DEEPEST) return [];
  const s = /** @type {Schema} */ (schema);
  /** @param {any} inner @param {any} of @param {string} [at] */
  const look = (inner, of, at = path) => wrongs(inner, of, root, at, depth + 1, effort);
  const type = typeOf(value);
  const allowed = s.type === undefined ? null : [s.type].flat();
  if (allowed && !allowed.includes(type) && !(type === "integer" && allowed.includes("number"))) {
    return [[path, `must be ${allowed.join(" or ")}`]];
  }
  /** @type {Wrong[]} */
  const found = [];
  effort.steps -= (s.enum?.length ?? 0) + (s.required?.length ?? 0);
  if (s.enum && !s.enum.some((/** @type {any} */ one) => same(one, value))) {
    found.push([path, `must be one of ${s.enum.map((/** @type {any} */ one) => JSON.stringify(one)).join(", ")}`]);
  }
  if (s.const !== undefined && !same(s.const, value)) found.push([path, `must be ${JSON.stringify(s.const)}`]);
  if (type === "string") found.push(...ofText(value, s, path, effort));
  if (type === "number" || type === "integer") found.push(...ofNumber(value, s, path));
  if (type === "array") found.push(...ofArray(value, s, path, look, effort));
  if (type === "object") found.push(...ofObject(value, s, path, look, effort));
  found.push(...ofParts(value, s, path, look));
  if (s.$ref !== undefined) found.push(...look(value, target(s.$ref, root)));
  return found;
}

/** @param {any} value */
export function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  if (isExact(value)) return /^-?\d+(\.0+)?$/.test(value.rawJSON) ? "integer" : "number";
  return typeof value;
}

/**
 * Return the target of a reference inside the schema, or undefined for any other reference.
 * @param {any} reference such as `#/$defs/address`
 * @param {Schema} root
 * @returns {any}
 */
export function target(reference, root) {
  if (typeof reference !== "string" || !reference.startsWith("#")) return undefined;
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  /** @type {any} */
  let found = root;
  for (const step of reference.slice(2).split("/")) {
    const name = unescaped(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (found === null || typeof found !== "object" || !Object.hasOwn(found, name)) return undefined;
    found = found[name];
  }
  return found;
}

/** @param {string} step A step of a reference, percent-encoded. */
function unescaped(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

/** @typedef {(inner: any, of: any, at?: string) => Wrong[]} Look */

/** Return the errors of alternatives, combinations and conditions.
 * @param {any} value @param {Schema} s @param {string} path @param {Look} look @returns {Wrong[]} */
function ofParts(value, s, path, look) {
  /** @type {Wrong[]} */
  const found = (s.allOf ?? []).flatMap((/** @type {any} */ one) => look(value, one));
  if (s.anyOf) found.push(...closest(s.anyOf.map((/** @type {any} */ one) => look(value, one)), path));
  if (s.oneOf) {
    const each = s.oneOf.map((/** @type {any} */ one) => look(value, one));
    const fitting = each.filter((/** @type {Wrong[]} */ one) => one.length === 0).length;
    if (fitting > 1) found.push([path, "must match exactly one of the alternatives, but matches several"]);
    else found.push(...closest(each, path));
  }
  if (s.not !== undefined && look(value, s.not).length === 0) found.push([path, "is a value that the tool excludes"]);
  if (s.if !== undefined) found.push(...look(value, look(value, s.if).length === 0 ? s.then : s.else));
  return found.slice(0, MOST_WRONGS);
}

/** If all alternatives fail, return the errors of the closest one.
 * @param {Wrong[][]} each @param {string} path @returns {Wrong[]} */
function closest(each, path) {
  if (each.length === 0 || each.some((one) => one.length === 0)) return [];
  const deep = each.filter((one) => one.every(([at]) => at !== path)); // at least of the right type
  if (deep.length) return deep.reduce((a, b) => (b.length < a.length ? b : a));
  const said = [...new Set(each.map((one) => one[0][1]))];
  return [[path, said.length <= 3 ? said.join(", or ") : "must match one of the alternatives"]];
}

/** @param {string} value @param {Schema} s @param {string} path @param {Effort} effort @returns {Wrong[]} */
function ofText(value, s, path, effort) {
  effort.steps -= value.length / TRIES_A_STEP;
  const length = Array.from(value).length;
  /** @type {Wrong[]} */
  const found = [];
  if (length < (s.minLength ?? 0)) found.push([path, length ? `must have at least ${s.minLength} characters` : "must not be empty"]);
  if (length > (s.maxLength ?? Infinity)) found.push([path, `must have at most ${s.maxLength} characters, but has ${length}`]);
  if (s.pattern && matches(s.pattern, value, effort) === false) found.push([path, `must match ${s.pattern}`]);
  const format = FORMATS[s.format];
  if (format && !format.is(value)) found.push([path, `must be ${format.said}`]);
  return found;
}

/**
 * Return whether a text matches a pattern, or null if only the server can tell: the browser does not
 * support the dialect, or the pattern could keep the page busy for hours. Such patterns repeat a group,
 * use a backreference, or have too many ways to match: each optional part and each alternative
 * doubles them, and each repetition and each starting position multiplies them by the text's length.
 * @param {string} source @param {string} value @param {Effort} effort
 */
function matches(source, value, effort) {
  effort.steps -= 1 + source.length / TRIES_A_STEP;
  const plain = source.replace(/\\[^1-9k]/g, "x").replace(/\[[^\]]*\]/g, "x");
  const repeats = plain.match(/[*+{]/g)?.length ?? 0;
  const choices = plain.replaceAll("(?", "(").match(/[?|]/g)?.length ?? 0;
  const tries = 2 ** choices * value.length ** (repeats + 1);
  if (/\)[*+{]|\\/.test(plain) || tries > MOST_TRIES) return null;
  effort.steps -= tries / TRIES_A_STEP;
  if (effort.steps < 0) return null;
  try {
    return new RegExp(source, "u").test(value);
  } catch {
    return null;
  }
}

/** @param {string} value */
const isDate = (value) => {
  const [year, month, day] = value.split("-").map(Number);
  const at = new Date(Date.UTC(2000, month - 1, day));
  at.setUTCFullYear(year, month - 1, day);
  return /^\d{4}-\d{2}-\d{2}$/.test(value) && at.getUTCMonth() === month - 1 && at.getUTCDate() === day;
};

/** Formats that a form can check. @type {Record<string, {is: (value: string) => boolean, said: string}>} */
export const FORMATS = {
  date: { is: isDate, said: "a date, such as 2026-03-31" },
  time: { is: (value) => /^\d{2}:\d{2}:\d{2}(\.\d+)?([zZ]|[+-]\d{2}:\d{2})$/.test(value), said: "a time with its zone, such as 09:30:00Z" },
  "date-time": { is: (value) => /^[^tT\s]+[tT\s]\d{2}:\d{2}:\d{2}(\.\d+)?([zZ]|[+-]\d{2}:\d{2})$/.test(value) && isDate(value.slice(0, 10)), said: "a date and time with its zone, such as 2026-03-31T09:30:00Z" },
  email: { is: (value) => /^.+@.+$/s.test(value), said: "an e-mail address" },
  uri: { is: (value) => /^[a-zA-Z][a-zA-Z0-9+.-]*:[^\s]*$/.test(value), said: "an address with its scheme, such as mailto:ada@example.com" },
  uuid: { is: (value) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value), said: "a UUID, such as 3f2a6c1e-8d1b-4c57-9b0e-2f1d5a7c9e10" },
  ipv4: { is: (value) => value.split(".").length === 4 && value.split(".").every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256), said: "an IPv4 address, such as 192.0.2.7" },
};

/** @param {any} value @param {Schema} s @param {string} path @returns {Wrong[]} */
function ofNumber(value, s, path) {
  const number = Number(isExact(value) ? value.rawJSON : value);
  const parts = number / s.multipleOf;
  /** @type {[boolean, string][]} */
  const rules = [
    [number < s.minimum, `must be ${s.minimum} or more`],
    [number > s.maximum, `must be ${s.maximum} or less`],
    [number <= s.exclusiveMinimum, `must be more than ${s.exclusiveMinimum}`],
    [number >= s.exclusiveMaximum, `must be less than ${s.exclusiveMaximum}`],
    [Math.abs(parts) < 1e9 && Math.abs(parts - Math.round(parts)) > 1e-6, `must be a multiple of ${s.multipleOf}`],
  ];
  return rules.filter(([broken]) => broken).map(([, message]) => [path, message]);
}

/** @param {any[]} value @param {Schema} s @param {string} path @param {Look} look @param {Effort} effort @returns {Wrong[]} */
function ofArray(value, s, path, look, effort) {
  const first = prefix(s);
  const rest = Array.isArray(s.items) ? s.additionalItems : s.items;
  /** @type {Wrong[]} */
  const found = value.flatMap((one, at) => look(one, at < first.length ? first[at] : rest, join(path, String(at))));
  if (value.length < (s.minItems ?? 0)) found.push([path, `must have at least ${s.minItems}`]);
  if (value.length > (s.maxItems ?? Infinity)) found.push([path, `must have at most ${s.maxItems}, but has ${value.length}`]);
  if (s.uniqueItems && value.length <= MOST_UNIQUE) {
    effort.steps -= value.length ** 2 / 10;
    value.forEach((one, at) => {
      if (value.slice(0, at).some((before) => same(before, one))) found.push([join(path, String(at)), "must be unique"]);
    });
  }
  if (s.contains !== undefined && (s.minContains ?? 1) > value.filter((one) => look(one, s.contains).length === 0).length) {
    found.push([path, "must contain an entry that the tool requires"]);
  }
  return found.slice(0, MOST_WRONGS);
}

/** Return the schemas of an array's first entries. @param {Schema} s @returns {any[]} */
export function prefix(s) {
  return s.prefixItems ?? (Array.isArray(s.items) ? s.items : []);
}

/** @param {any} value @param {Schema} s @param {string} path @param {Look} look @param {Effort} effort @returns {Wrong[]} */
function ofObject(value, s, path, look, effort) {
  const known = s.properties ?? {};
  const names = Object.keys(value);
  /** @type {Wrong[]} */
  const found = [];
  const needs = (/** @type {string} */ name) => {
    if (!Object.hasOwn(value, name)) found.push([join(path, name), "is required"]);
  };
  (s.required ?? []).forEach(needs);
  for (const [name, others] of Object.entries(s.dependentRequired ?? {})) if (Object.hasOwn(value, name)) others.forEach(needs);
  for (const [name, of] of Object.entries(s.dependentSchemas ?? {})) if (Object.hasOwn(value, name)) found.push(...look(value, of));
  for (const name of names) {
    const at = join(path, name);
    const matching = Object.entries(s.patternProperties ?? {}).filter(([source]) => matches(source, name, effort) !== false);
    if (Object.hasOwn(known, name)) found.push(...look(value[name], known[name], at));
    for (const [source, of] of matching) if (matches(source, name, effort)) found.push(...look(value[name], of, at));
    if (Object.hasOwn(known, name) || matching.length) continue;
    if (s.additionalProperties === false) found.push([at, "is unknown to the tool"]);
    else found.push(...look(value[name], s.additionalProperties, at));
  }
  if (s.propertyNames !== undefined) {
    for (const name of names) found.push(...look(name, s.propertyNames, join(path, name)).map(([at, said]) => /** @type {Wrong} */ ([at, `has a name that ${said}`])));
  }
  if (names.length < (s.minProperties ?? 0)) found.push([path, `must have at least ${s.minProperties} entries`]);
  if (names.length > (s.maxProperties ?? Infinity)) found.push([path, `must have at most ${s.maxProperties} entries`]);
  return found.slice(0, MOST_WRONGS);
}

/** @param {string} path @param {string} name */
export function join(path, name) {
  return path ? `${path}.${name}` : name;
}

/**
 * Return a schema with its references resolved and its `allOf` merged.
 * @param {any} schema
 * @param {Schema} root
 * @param {number} [depth]
 * @param {Effort} [effort]
 * @returns {Schema}
 */
export function flat(schema, root, depth = 0, effort = newEffort()) {
  if (!isObject(schema) || depth > DEEPEST || --effort.steps < 0) return {};
  const { $ref, allOf, ...own } = /** @type {Schema} */ (schema);
  const parts = [...($ref === undefined ? [] : [target($ref, root)]), ...(allOf ?? [])];
  return parts.reduce((whole, part) => {
    const one = flat(part, root, depth + 1, effort);
    effort.steps -= Object.keys(whole.properties ?? {}).length + (whole.required?.length ?? 0);
    const both = { ...one, ...whole };
    if (one.properties || whole.properties) both.properties = { ...one.properties, ...whole.properties };
    if (one.required || whole.required) both.required = [...new Set([...(whole.required ?? []), ...(one.required ?? [])])];
    return both;
  }, own);
}
