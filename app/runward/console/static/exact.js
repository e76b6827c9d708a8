// Lossless JSON. JSON.parse rounds 12345678901234567890. An approver of a payment must see the exact
// number that is sent, and an edit must not change it. Such numbers are kept as JSON.rawJSON
// (ECMAScript, "JSON.parse source text access"), as is 89.0, because not every reader takes it as an
// integer. To compute with a number of a response, use `Number(plain(value))`.

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
 * Return the message that explains why a text is not JSON.
 * @param {unknown} error The error that `parse` threw.
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
 * Return whether a value is a JSON object. A number that is kept as raw JSON is not.
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
 * Return the differences as `[path, before, after]`, at the deepest paths. Missing values are undefined.
 * Equal entries at the start and the end of two lists are skipped. The rest is compared in order.
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
 * Count the equal entries at the start of two lists and, in the rest, at the end.
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
