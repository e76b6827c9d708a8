// The head of a run's page: its facts and its input.

import { h, text } from "./dom.js";
import { content } from "./content.js";
import { ago, moment, shortId } from "./format.js";
import { item } from "./story.js";

/** @param {any} run_ @param {string} models @param {HTMLElement} took @param {HTMLElement} usage */
export function factsOf(run_, models, took, usage) {
  const by = run_.created_by;
  return [
    h("span", null, h("code", null, run_.id)),
    run_.agent ? h("span", null, text(models)) : null,
    h("span", { title: moment(run_.created_at) }, `started ${ago(run_.created_at, Date.now())}`, by ? [" by ", h("strong", null, text(by.name ?? by.id))] : null),
    took, usage,
    run_.session_id ? h("span", null, "session ", h("a", { href: `#/runs?session_id=${run_.session_id}`, title: "Show the runs of this session" }, h("code", null, shortId(run_.session_id))), " ", h("a", { href: `#/start?session_id=${run_.session_id}${run_.agent ? `&agent=${encodeURIComponent(run_.agent)}` : ""}`, title: "Start another run in this session" }, "Start another run")) : null,
    run_.parent_run_id ? h("a", { href: `#/runs/${run_.parent_run_id}` }, "parent run") : null,
    run_.continued_from ? h("a", { href: `#/runs/${run_.continued_from}` }, "continues this earlier run") : null,
    Object.keys(run_.metadata).length ? h("span", null, text(JSON.stringify(run_.metadata))) : null,
  ];
}

/** Return the section of a run whose content was erased. @param {any} run_ */
export function erasedView(run_) {
  return [h("h2", null, "Content erased"),
    h("p", null, "The content of this run was erased ", h("span", { title: moment(run_.erased_at) }, ago(run_.erased_at, Date.now())), ". Its events are kept without content.")];
}

/** Return the section with the run's input. @param {any[]} items @param {any} run_ */
export function inputView(items, run_) {
  const said = items.filter((one) => one.turn === 0 && one.role);
  if (said.length === 0) return [];
  const by = run_?.created_by;
  const alone = said.length === 1 && said[0].role === "user";
  return [h("h2", null, "Input", h("span", { class: "soft small" }, alone ? (by ? [" from ", text(by.name ?? by.id)] : "") : " a conversation")),
    alone ? content(said[0], "input") : said.map(item)];
}
