// The list of budgets, with a bar of the usage in the current period.

import { h, fill, text } from "./dom.js";
import { moment, number, shortId } from "./format.js";
import { empty, pagedTable } from "./resources.js";

/** @param {any} one @param {"limit" | "spent" | "reserved"} name */
const amountOf = (one, name) => number(one[`${name}_tokens`]) ?? number(one[`${name}_usd`]) ?? 0;
/** Return an amount in the unit of a budget, or of the arguments of a call to exceed it. @param {any} one @param {number} amount */
export const inUnit = (one, amount) => number(one.limit_tokens) === null ? `$${amount.toFixed(2)}` : `${amount.toLocaleString("en-US")} tokens`;
/** @type {Record<string, string>} */
const AT_LIMIT = { wait: "Runs wait for the next period", ask: "Runs ask a person" };

/**
 * @param {HTMLElement} main
 * @returns {() => void} leaves the view.
 */
export function budgets(main) {
  const leaving = new AbortController();
  fill(main, h("h1", null, "Budgets"),
    h("p", { class: "soft" }, "A budget limits the cost or the tokens of models for each minute, day or month. To change a budget, use ", h("code", null, "runward budgets update"), "."),
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
  const limit = amountOf(one, "limit");
  const [spent, reserved] = [amountOf(one, "spent"), amountOf(one, "reserved")];
  const subject = [one.agent, one.key_id && shortId(one.key_id)].filter(Boolean).join(", ") || "All runs";
  return h("tr", null,
    h("th", { scope: "row" }, text(subject)),
    h("td", null, h("meter", { min: 0, max: limit, high: 0.8 * limit, value: spent + reserved, "aria-label": `${inUnit(one, spent + reserved)} of ${inUnit(one, limit)} spent or reserved` })),
    h("td", { class: "number", "data-label": "Spent" }, inUnit(one, spent)),
    h("td", { class: "number", "data-label": "Reserved" }, inUnit(one, reserved)),
    h("td", { class: "number", "data-label": "Limit" }, `${inUnit(one, limit)} per ${one.period}`),
    h("td", null, AT_LIMIT[one.on_limit] ?? text(one.on_limit)),
    h("td", null, moment(one.period_end)));
}
