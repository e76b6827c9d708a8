// The content of messages and answers: Markdown from models, plain text from people, images and files.

import { add, h, text } from "./dom.js";
import { markdown, picture } from "./markdown.js";
import { json, rows, words } from "./values.js";

/**
 * Return the element of a message or of the content of a tool's result.
 * @param {any} item with `role` and `content`
 * @param {string} key
 * @returns {HTMLElement}
 */
export function content(item, key) {
  const say = (/** @type {string} */ said, /** @type {string} */ place) => (item.role === "assistant" && said ? markdown(said) : words(said, place));
  if (typeof item.content === "string") return say(item.content, key);
  if (!Array.isArray(item.content)) return rows(item, key);
  const parts = h("div", { class: "parts" });
  item.content.forEach((/** @type {any} */ part, /** @type {number} */ at) => add(parts, part.type === "text" ? say(part.text, `${key} ${at}`) : fileView(part)));
  return parts;
}

/** Return an image or a file. A file at an address is not loaded, because its server would see the request. @param {any} part */
function fileView(part) {
  const shown = part.data && part.media_type ? picture(`data:${part.media_type};base64,${part.data}`, part.filename ?? "") : null;
  if (shown) return shown;
  if (part.url) return h("p", null, `${part.type}: `, h("code", { class: "url" }, text(part.url)));
  return part.data ? h("p", { class: "soft" }, `${part.type} `, text(part.filename ?? part.media_type ?? "")) : json(part);
}

/**
 * Return the answer of a run, unfolded.
 * @param {any} output
 * @param {any} parsed The output as JSON if the run has a schema, otherwise null.
 */
export function answerView(output, parsed) {
  if (parsed !== null && typeof parsed === "object") return rows(parsed, "output");
  if (typeof output !== "string") return rows(output, "output");
  return output ? markdown(output) : h("p", { class: "soft" }, "The output is empty.");
}
