// JSON to the letter. A browser's own JSON.parse rounds 12345678901234567890; a person who decides
// about a payment must see the number that is sent, and an edit must not change it. Such numbers
// are kept as JSON.rawJSON (ECMAScript, "JSON.parse source text access"), as is 89.0, which is no
// integer to everyone. Whoever computes with a number of an answer takes `Number(plain(value))`.

/** @type {any} */
const Json = JSON;
export const KEEPS_NUMBERS = typeof Json.rawJSON === "function";

/**
 * @param {string} source
 * @returns {any}
 */
export function parse(source) {
  if (!KEEPS_NUMBERS) return JSON.parse(source);
  return Json.parse(source, (/** @type {string} */ _, /** @type {any} */ value, /** @type {any} */ context) => {
    return typeof value === "number" && String(value) !== context.source ? Json.rawJSON(context.source) : value;
  });
}

/**
 * Why a text is not JSON, for whoever types it.
 * @param {unknown} error what `parse` has thrown.
 */
export function whyNot(error) {
  const at = /\(line (\d+) column (\d+)\)/.exec(String(error));
  return at ? `is not JSON yet: look at line ${at[1]}, character ${at[2]}` : "is not JSON yet";
}

/** @param {any} value */
export function isExact(value) {
  return KEEPS_NUMBERS && Json.isRawJSON(value);
}

/**
 * Whether it is a JSON object, and no number kept to the letter.
 * @param {any} value
 */
export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !isExact(value);
}

/**
 * @param {any} a
 * @param {any} b
 * @returns {boolean}
 */
export function same(a, b) {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((one, at) => same(one, b[at]));
  }
  if (isObject(a) && isObject(b)) {
    const names = Object.keys(a);
    return (
      names.length === Object.keys(b).length &&
      names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]))
    );
  }
  return a === b || (typeof a !== "string" && JSON.stringify(a) === JSON.stringify(b));
}

/**
 * What differs, deepest first found: `[path, before, after]`, undefined for what is not there. Of
 * lists, what they begin and end with alike is left out; what is between is compared in order.
 * @param {any} before
 * @param {any} after
 * @param {string} [path]
 * @returns {[string, any, any][]}
 */
export function differences(before, after, path = "") {
  if (before === undefined && after === undefined) return [];
  if (before !== undefined && after !== undefined && same(before, after)) return [];
  const at = (/** @type {string | number} */ step) => (path ? `${path}.${step}` : String(step));
  if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    const of = (/** @type {any} */ one, /** @type {string} */ name) => (Object.hasOwn(one, name) ? one[name] : undefined);
    return [...names].flatMap((name) => differences(of(before, name), of(after, name), at(name)));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const { start, end } = alike(before, after, same);
    const most = Math.max(before.length, after.length) - end;
    const of = (/** @type {any[]} */ list, /** @type {number} */ index) => (index < list.length - end ? list[index] : undefined);
    return Array.from({ length: most - start }, (_, index) => start + index).flatMap((index) => differences(of(before, index), of(after, index), at(index)));
  }
  return [[path, before, after]];
}

/**
 * How many entries two lists begin with alike, and, of the rest, end with alike.
 * @template T
 * @param {T[]} a @param {T[]} b @param {(a: T, b: T) => boolean} equal
 */
export function alike(a, b, equal) {
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && equal(a[start], b[start])) start += 1;
  let end = 0;
  while (end < shorter - start && equal(a[a.length - 1 - end], b[b.length - 1 - end])) end += 1;
  return { start, end };
}
