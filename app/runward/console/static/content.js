// The content of messages and answers: Markdown of models, text of people, pictures and files.

import { add, h, text } from "./dom.js";
import { markdown, picture } from "./markdown.js";
import { json, rows, words } from "./values.js";

/**
 * A message of a conversation, or the content of a tool's result.
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

/** A picture or a file. One at an address is not loaded: that would tell its server. @param {any} part */
function fileView(part) {
  const shown = part.data && part.media_type ? picture(`data:${part.media_type};base64,${part.data}`, part.filename ?? "") : null;
  if (shown) return shown;
  if (part.url) return h("p", null, `${part.type}: `, h("code", { class: "url" }, text(part.url)));
  return part.data ? h("p", { class: "soft" }, `${part.type} `, text(part.filename ?? part.media_type ?? "")) : json(part);
}

/**
 * The answer of a run, unfolded.
 * @param {any} output
 * @param {any} parsed the output as JSON where the run has a schema, else null
 */
export function answerView(output, parsed) {
  if (parsed !== null && typeof parsed === "object") return rows(parsed, "output");
  if (typeof output !== "string") return rows(output, "output");
  return output ? markdown(output) : h("p", { class: "soft" }, "The output is empty.");
}
