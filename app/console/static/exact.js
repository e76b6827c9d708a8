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
  return JSON.stringify(a) === JSON.stringify(b);
}

/**
 * What differs, deepest first found: `[path, before, after]`, undefined for what is not there.
 * @param {any} before
 * @param {any} after
 * @param {string} [path]
 * @returns {[string, any, any][]}
 */
export function differences(before, after, path = "") {
  if (same(before, after) && before !== undefined) return [];
  if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => {
      const at = path ? `${path}.${name}` : name;
      const [a, b] = [before, after].map((one) => (Object.hasOwn(one, name) ? one[name] : undefined));
      return a === undefined && b === undefined ? [] : differences(a, b, at);
    });
  }
  return [[path, before, after]];
}
