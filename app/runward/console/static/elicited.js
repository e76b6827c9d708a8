// The questions of an MCP server to the user (elicitation): forms to fill in, and addresses to open.

import { fill, h, text } from "./dom.js";
import { isObject } from "./exact.js";
import { form } from "./form.js";

/** @typedef {{key: string, message: string, requestedSchema: any, url: any}} Question */

/** Return the questions of a required action, or null if it requests something else. @param {any} requests @returns {Question[] | null} */
export function questionsOf(requests) {
  if (!isObject(requests) || !isObject(requests.elicitations)) return null;
  const found = Object.entries(requests.elicitations).map(([key, one]) => ({ key, ...one }));
  return found.length && found.every((one) => typeof one.message === "string" && (isObject(one.requestedSchema) || typeof one.url === "string")) ? found : null;
}

/** @param {Question[]} questions */
export function questionTexts(questions) {
  return questions.map((one) => h("div", null, h("p", null, text(one.message)), typeof one.url === "string" ? address(one.url) : null));
}

/**
 * Return a panel with a form for each question.
 * @param {Question[]} questions
 * @param {(output: any) => void} give Called with the answers by their keys.
 */
export const answering = (questions, give) => (/** @type {HTMLElement} */ back) => {
  /** @type {Map<string, any>} */
  const contents = new Map();
  const button = h("button", { type: "button", class: "primary" }, questions.some((one) => isObject(one.requestedSchema)) ? "Send the answer" : "Continue");
  const forms = questions.filter((one) => isObject(one.requestedSchema)).map((one) => {
    const made = form(one.requestedSchema, defaultsOf(one.requestedSchema), (value) => {
      contents.set(one.key, value);
      button.disabled = [...contents.values()].includes(undefined);
    });
    return { made, heading: questions.length > 1 ? h("p", null, text(one.message)) : null };
  });
  button.addEventListener("click", () => {
    for (const { made } of forms) made.look();
    if ([...contents.values()].includes(undefined)) return;
    give(Object.fromEntries(questions.map(({ key }) => [key, contents.has(key) ? { action: "accept", content: contents.get(key) } : { action: "accept" }])));
  });
  const finished = questions.some((one) => typeof one.url === "string") ? h("p", null, "Continue after you have finished on the page.") : "";
  return [...forms.map(({ made, heading }) => h("div", null, heading, made.element)), h("div", null, finished), h("div", { class: "actions" }, button, back)];
};

/** Return the answers that decline all questions. @param {Question[]} questions */
export const declining = (questions) => Object.fromEntries(questions.map(({ key }) => [key, { action: "decline" }]));

/** @param {string} url */
function address(url) {
  const link = h("p", null, h("code", { class: "url" }, text(url)));
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return link;
  fill(link, h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, "Open ", text(new URL(url).host)), " ", h("code", { class: "url" }, text(url)));
  return link;
}

/** @param {any} schema */
function defaultsOf(schema) {
  const fields = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  return Object.fromEntries(fields.filter(([, one]) => isObject(one) && "default" in one).map(([name, one]) => [name, one.default]));
}
