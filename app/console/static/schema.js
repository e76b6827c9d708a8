// What a JSON Schema (2020-12) asks of a value, as far as a form shows it while a person types. The
// server checks everything again, and has the last word.

import { isExact, isObject, same } from "./exact.js";

/** @typedef {{[keyword: string]: any}} Schema */

/**
 * @param {any} value
 * @param {Schema | boolean | undefined} schema
 * @param {string} [path]
 * @returns {[string, string][]} paths such as `lines.0.amount`, and what is wrong there.
 */
export function problems(value, schema, path = "") {
  if (!isObject(schema)) return [];
  const s = /** @type {Schema} */ (schema);
  const type = typeOf(value);
  const allowed = s.type === undefined ? null : [s.type].flat();
  if (allowed && !allowed.includes(type) && !(type === "integer" && allowed.includes("number"))) {
    return [[path, `must be ${allowed.join(" or ")}`]];
  }
  /** @type {[string, string][]} */
  const found = [];
  if (s.enum && !s.enum.some((/** @type {any} */ one) => same(one, value))) {
    found.push([path, `must be one of ${s.enum.map((/** @type {any} */ one) => JSON.stringify(one)).join(", ")}`]);
  }
  if (s.const !== undefined && !same(s.const, value)) found.push([path, `must be ${JSON.stringify(s.const)}`]);
  if (type === "string") found.push(...ofText(value, s, path));
  if (type === "number" || type === "integer") found.push(...ofNumber(value, s, path));
  if (type === "array") found.push(...ofArray(value, s, path));
  if (type === "object") found.push(...ofObject(value, s, path));
  return found;
}

/** @param {any} value */
export function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  if (isExact(value)) return /[.eE]/.test(value.rawJSON) ? "number" : "integer";
  return typeof value;
}

/** @param {string} value @param {Schema} s @param {string} path @returns {[string, string][]} */
function ofText(value, s, path) {
  const length = Array.from(value).length;
  /** @type {[string, string][]} */
  const found = [];
  if (length < (s.minLength ?? 0)) found.push([path, length ? `needs ${s.minLength} characters` : "must not be empty"]);
  if (length > (s.maxLength ?? Infinity)) found.push([path, `may have ${s.maxLength} characters`]);
  if (s.pattern && pattern(s.pattern)?.test(value) === false) found.push([path, `must match ${s.pattern}`]);
  return found;
}

/** @param {string} source */
function pattern(source) {
  try {
    return new RegExp(source, "u");
  } catch {
    return null; // a dialect that the browser does not have: the server checks it
  }
}

/** @param {any} value @param {Schema} s @param {string} path @returns {[string, string][]} */
function ofNumber(value, s, path) {
  const number = Number(isExact(value) ? value.rawJSON : value);
  /** @type {[boolean, string][]} */
  const rules = [
    [number < s.minimum, `must be ${s.minimum} or more`],
    [number > s.maximum, `must be ${s.maximum} or less`],
    [number <= s.exclusiveMinimum, `must be more than ${s.exclusiveMinimum}`],
    [number >= s.exclusiveMaximum, `must be less than ${s.exclusiveMaximum}`],
  ];
  return rules.filter(([broken]) => broken).map(([, message]) => [path, message]);
}

/** @param {any[]} value @param {Schema} s @param {string} path @returns {[string, string][]} */
function ofArray(value, s, path) {
  /** @type {[string, string][]} */
  const found = value.flatMap((one, at) => problems(one, s.items, join(path, String(at))));
  if (value.length < (s.minItems ?? 0)) found.push([path, `needs ${s.minItems} or more`]);
  if (value.length > (s.maxItems ?? Infinity)) found.push([path, `may have ${s.maxItems}`]);
  return found;
}

/** @param {any} value @param {Schema} s @param {string} path @returns {[string, string][]} */
function ofObject(value, s, path) {
  const known = s.properties ?? {};
  /** @type {[string, string][]} */
  const found = [];
  for (const name of s.required ?? []) {
    if (!Object.hasOwn(value, name)) found.push([join(path, name), "is needed"]);
  }
  for (const name of Object.keys(value)) {
    if (Object.hasOwn(known, name)) found.push(...problems(value[name], known[name], join(path, name)));
    else if (s.additionalProperties === false) found.push([join(path, name), "is not known to the tool"]);
  }
  return found;
}

/** @param {string} path @param {string} name */
export function join(path, name) {
  return path ? `${path}.${name}` : name;
}
