// JSON of others, shown so that nothing of it is hidden: arguments, outputs, raw events.

import { add, h, text } from "./dom.js";
import { isExact, isObject } from "./exact.js";
import { bytes, size } from "./format.js";

const FOLD_CHARACTERS = 600;
const FOLD_LINES = 16;
const PREVIEW_CHARACTERS = 90;
const SHORT_CHARACTERS = 80;

/**
 * An object as rows of name and value; anything else as one value.
 * @param {any} value
 * @param {string} key of this place on the page, for what a person has unfolded.
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
 * One value, folded with its size and digest where it is large.
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
 * @returns {HTMLElement | null} null for what has parts.
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
 * Indented JSON.
 * @param {any} value
 */
export function json(value) {
  return h("pre", { class: "json", tabindex: "0" }, text(JSON.stringify(value, null, 2)));
}

/**
 * A model's or a tool's words, or its JSON.
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
