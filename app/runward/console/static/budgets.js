// The list of budgets, with a bar of the cost in the current period.

import { h, fill, text } from "./dom.js";
import { moment, number, shortId } from "./format.js";
import { empty, pagedTable } from "./resources.js";

/** @param {unknown} value */
const dollars = (value) => `$${(number(value) ?? 0).toFixed(2)}`;
/** @type {Record<string, string>} */
const AT_LIMIT = { wait: "Runs wait for the next period", ask: "Runs ask a person" };

/**
 * @param {HTMLElement} main
 * @returns {() => void} leaves the view.
 */
export function budgets(main) {
  const leaving = new AbortController();
  fill(main, h("h1", null, "Budgets"),
    h("p", { class: "soft" }, "A budget limits the cost of models for each day or month. To change a budget, use ", h("code", null, "runward budgets update"), "."),
    pagedTable({
      path: "v1/budgets",
      caption: "Budgets, newest first",
      columns: ["Applies to", "Used", "Spent", "Reserved", "Limit", "At the limit", "Period ends"],
      numbers: ["Spent", "Reserved", "Limit"],
      row,
      none: empty("There are no budgets.", "runward budgets create 20"),
      signal: leaving.signal,
    }).element);
  return () => leaving.abort();
}

/** @param {any} one */
function row(one) {
  const [limit, used] = [number(one.limit_usd) ?? 0, (number(one.spent_usd) ?? 0) + (number(one.reserved_usd) ?? 0)];
  const subject = [one.agent, one.key_id && shortId(one.key_id)].filter(Boolean).join(", ") || "All runs";
  return h("tr", null,
    h("th", { scope: "row" }, text(subject)),
    h("td", null, h("meter", { min: 0, max: limit, high: 0.8 * limit, value: used, "aria-label": `${dollars(used)} of ${dollars(limit)} spent or reserved` })),
    h("td", { class: "number", "data-label": "Spent" }, dollars(one.spent_usd)),
    h("td", { class: "number", "data-label": "Reserved" }, dollars(one.reserved_usd)),
    h("td", { class: "number", "data-label": "Limit" }, `${dollars(limit)} per ${one.period}`),
    h("td", null, AT_LIMIT[one.on_limit] ?? text(one.on_limit)),
    h("td", null, moment(one.period_end)));
}
