// The list of budgets, with a bar of the usage in the current period.

import { Problem, all } from "./api.js";
import { h, fill, text } from "./dom.js";
import { moment, number, shortId } from "./format.js";
import { empty, lead, pagedTable } from "./resources.js";

/** @param {any} one @param {"limit" | "spent" | "reserved"} name */
const amountOf = (one, name) => number(one[`${name}_tokens`]) ?? number(one[`${name}_usd`]) ?? 0;
/** Return an amount in the unit of a budget, or of the arguments of a call to exceed it. @param {any} one @param {number} amount */
export const inUnit = (one, amount) => number(one.limit_tokens) === null ? `$${amount.toFixed(2)}` : `${amount.toLocaleString("en-US")} tokens`;
const MOST_KEYS = 1000;
/** @type {Record<string, string>} */
const AT_LIMIT = { wait: "Runs wait for the next period", ask: "Runs ask a person" };

/**
 * @param {HTMLElement} main
 * @returns {() => void} leaves the view.
 */
export function budgets(main) {
  const leaving = new AbortController();
  // The name of each API key, by its ID. A row with a key shows it when the keys are loaded.
  const names = all("v1/keys", {}, MOST_KEYS, leaving.signal).then(({ data }) => new Map(data.map((key) => [key.id, key.name])), (error) => {
    if (!(error instanceof Problem) && !leaving.signal.aborted) throw error;
    return new Map();
  });
  fill(main, h("h1", null, "Budgets"),
    lead("Budgets limit the cost or the tokens of models for each minute, day or month.", "budgets"),
    pagedTable({
      path: "v1/budgets",
      caption: "Budgets, newest first",
      columns: ["Applies to", "Used", "Spent", "Reserved", "Limit", "At the limit", "Period ends"],
      numbers: ["Spent", "Reserved", "Limit"],
      row: (one) => row(one, names),
      none: empty("There are no budgets.", "runward budgets create 20"),
      signal: leaving.signal,
    }).element);
  return () => leaving.abort();
}

/** @param {any} one @param {Promise<Map<string, string>>} names */
function row(one, names) {
  const limit = amountOf(one, "limit");
  const [spent, reserved] = [amountOf(one, "spent"), amountOf(one, "reserved")];
  const subject = h("th", { scope: "row", class: "long" });
  if (one.agent) fill(subject, "Agent ", h("a", { href: `#/agents/${one.agent}` }, text(one.agent)));
  else fill(subject, one.key_id ? `API key ${shortId(one.key_id)}` : "All runs");
  if (one.key_id) void names.then((found) => found.has(one.key_id) && fill(subject, "API key ", text(found.get(one.key_id))));
  return h("tr", null,
    subject,
    h("td", null, h("meter", { min: 0, max: limit, high: 0.8 * limit, value: spent + reserved, "aria-label": `${inUnit(one, spent + reserved)} of ${inUnit(one, limit)} spent or reserved` })),
    h("td", { class: "number", "data-label": "Spent" }, inUnit(one, spent)),
    h("td", { class: "number", "data-label": "Reserved" }, inUnit(one, reserved)),
    h("td", { class: "number", "data-label": "Limit" }, `${inUnit(one, limit)} per ${one.period}`),
    h("td", null, AT_LIMIT[one.on_limit] ?? text(one.on_limit)),
    h("td", { "data-label": "Period ends" }, moment(one.period_end)));
}
