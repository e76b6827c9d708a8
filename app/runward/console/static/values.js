// JSON from models and tools, shown completely: arguments, outputs, raw events.

import { add, fill, h, text } from "./dom.js";
import { isExact, isObject } from "./exact.js";
import { bytes, size } from "./format.js";

const FOLD_CHARACTERS = 600;
const FOLD_LINES = 16;
const PREVIEW_CHARACTERS = 90;
const SHORT_CHARACTERS = 80;

/**
 * Return the arguments of a call. Arguments that were left out are loaded with a click.
 * @param {any} shown An object with `arguments` and `omitted_arguments`.
 * @param {string} key
 * @param {() => Promise<any>} whole Loads all arguments.
 */
export function argumentRows(shown, key, whole) {
  const omitted = shown.omitted_arguments ?? [];
  const list = rows(shown.arguments, key);
  if (omitted.length === 0) return list;
  const place = h("div", { class: "stack" }, Object.keys(shown.arguments).length ? list : null);
  const wrong = h("p", { class: "wrong", role: "alert" });
  const load = async (/** @type {string | null} */ name) => {
    fill(wrong);
    const buttons = place.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    try {
      const all = rows(await whole(), key);
      place.replaceWith(all);
      const fold = [...all.querySelectorAll("details")].find((one_) => one_.dataset.key === `fold ${key}.${name}`);
      if (fold) fold.open = true;
      /** @type {HTMLElement | null | undefined} */ (fold?.querySelector("summary"))?.focus();
    } catch (error) {
      for (const button of buttons) button.disabled = false;
      fill(wrong, text(/** @type {Error} */ (error).message));
    }
  };
  const large = h("dl", { class: "rows" }, omitted.map((/** @type {any} */ { name, bytes: size_ }) => [
    h("dt", null, name === null ? "and more" : text(name)),
    h("dd", null, h("button", { type: "button", class: "small", "data-key": `load ${key}.${name}`, onclick: () => load(name) }, `Load ${size(Number(size_))}`)),
  ]));
  add(place, large, wrong);
  return place;
}

/**
 * Return an object as rows of name and value, and any other value as a single element.
 * @param {any} value
 * @param {string} key A key for this place on the page, which keeps its fold state.
 * @returns {HTMLElement}
 */
export function rows(value, key) {
  if (!isObject(value)) return one(value, key);
  const names = Object.keys(value);
  if (names.length === 0) return h("p", { class: "none" }, "No arguments");
  const list = h("dl", { class: "rows" });
  for (const name of names) {
    add(list, h("dt", null, text(name)), h("dd", null, one(value[name], `${key}.${name}`)));
  }
  return list;
}

/**
 * Return one value. A large value is folded and has its size and digest.
 * @param {any} value
 * @param {string} key
 * @returns {HTMLElement}
 */
export function one(value, key) {
  const source = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const short = JSON.stringify(value);
  const shown = scalar(value) ?? (short.length <= SHORT_CHARACTERS ? h("code", null, text(short)) : json(value));
  if (source.length <= FOLD_CHARACTERS && source.split("\n").length <= FOLD_LINES) return shown;
  shown.setAttribute("tabindex", "0"); // it scrolls
  const digest = h("code", { class: "digest" });
  void sha256(source).then((hex) => add(digest, `sha256 ${hex.slice(0, 16)}…`));
  const start = Array.from(source.slice(0, 2 * PREVIEW_CHARACTERS)).slice(0, PREVIEW_CHARACTERS).join("");
  const summary = h(
    "summary",
    null,
    text(`${start.replace(/\s+/g, " ")}…`, "preview"),
    h("span", { class: "soft" }, ` ${size(bytes(source))} `),
    digest,
  );
  return h("details", { class: "fold", "data-key": `fold ${key}` }, summary, shown);
}

/**
 * @param {any} value
 * @returns {HTMLElement | null} Null for a value that has parts.
 */
function scalar(value) {
  if (typeof value === "string") {
    if (value === "") return h("span", { class: "v-none" }, '""');
    return text(value, value.trim() !== value || /^(-?\d|true$|false$|null$)/.test(value) ? "v-string quoted" : "v-string");
  }
  if (typeof value === "number" || isExact(value)) return h("span", { class: "v-number" }, JSON.stringify(value));
  if (value === null || typeof value === "boolean") return h("span", { class: "v-word" }, String(value));
  return null;
}

/**
 * Return indented JSON.
 * @param {any} value
 */
export function json(value) {
  return h("pre", { class: "json", tabindex: "0" }, text(JSON.stringify(value, null, 2)));
}

/**
 * Return a model's or a tool's text, or its JSON.
 * @param {any} value
 * @param {string} key
 */
export function words(value, key) {
  return typeof value === "string" ? h("div", { class: "words" }, value ? one(value, key) : h("span", { class: "v-none" }, "(empty)")) : rows(value, key);
}

/** @param {string} source */
async function sha256(source) {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(source));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
