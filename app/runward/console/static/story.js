// The context of a call: the run's creator and input, the model's message with the call, and the
// conversation before it.

import { get } from "./api.js";
import { content } from "./content.js";
import { fill, h, text } from "./dom.js";
import { ago, moment, shortId } from "./format.js";
import { markdown } from "./markdown.js";
import { rows, words } from "./values.js";

const LATEST = 100;
const INPUT_SHOWN = 2000; // characters of the input that an approval contains

/**
 * @param {any} approval
 * @returns {HTMLElement}
 */
export function story(approval) {
  const run = approval.run;
  const key = approval.id;
  const items = h("div", { class: "conversation" });
  const place = h("details", { "data-key": `story ${key}` }, h("summary", null, "The conversation so far"), items);
  const cut = Array.from(run?.input ?? "").length >= INPUT_SHOWN;
  const input = h("div", null, run?.input ? words(run.input, `${key} input`) : h("p", { class: "soft" }, "The input is empty."),
    cut ? h("button", { type: "button", class: "quiet small", onclick: () => void loadInput() }, "Load the complete input") : null);

  /** The approval contains only the beginning of a long input. */
  async function loadInput() {
    const page = await get(`v1/runs/${run.id}/items`, { limit: LATEST }).catch(() => ({ data: [] }));
    const whole = page.data.findLast((/** @type {any} */ one) => one.role === "user" && one.turn === 0);
    if (whole) fill(input, content(whole, `${key} input`));
  }

  async function load() {
    fill(items, h("p", { class: "soft" }, "Loading…"));
    const page = await get(`v1/runs/${approval.run_id}/items`, { limit: LATEST, order: "desc" }).catch(() => null);
    if (page === null) {
      fill(items, h("p", { class: "soft" }, "This API key cannot read the conversation. To read a conversation, a key requires the scope ", h("code", null, "runs:read"), "."));
      return;
    }
    fill(items, page.has_more ? h("p", { class: "soft small" }, `Only the last ${LATEST} items are shown. `, h("a", { href: `#/runs/${approval.run_id}` }, "Open the complete conversation")) : null, page.data.reverse().map(item));
  }
  place.addEventListener("toggle", () => place.open && void load(), { once: true });
  return h("section", { class: "story", "aria-label": "Context" },
    h("h3", null, "Started by"),
    h("p", null, starter(run), h("span", { class: "soft" }, run ? [" ", h("span", { title: moment(run.created_at) }, ago(run.created_at, Date.now()))] : null)),
    h("p", { class: "soft small" }, chain(approval)),
    h("h3", null, "Requested"),
    input,
    approval.model_message ? h("div", { class: "said" }, h("h3", null, "Message from the model"), markdown(approval.model_message)) : null,
    place);
}

/** @param {any} run */
function starter(run) {
  const by = run?.created_by;
  return by ? h("strong", { title: by.id }, text(by.name)) : h("span", { class: "soft" }, "an unknown API key");
}

/** Return the agents that led to the call, from the root run down. @param {any} approval */
function chain(approval) {
  const path = [...approval.path];
  if (approval.agent && path.at(-1) !== approval.agent) path.push(approval.agent);
  const names = path.length ? path.flatMap((name, at) => (at ? [" › ", text(name)] : [text(name)])) : "A run without a registered agent";
  const link = (/** @type {string} */ id) => h("a", { href: `#/runs/${id}` }, shortId(id));
  const root = approval.run?.id ?? approval.run_id;
  return [names, " · ", link(root), root === approval.run_id ? null : [" › ", link(approval.run_id)]];
}

/** Return one item of a conversation. @param {any} item_ */
export function item(item_) {
  const who = item_.role ?? { tool_call: "calls", tool_result: "result" }[/** @type {string} */ (item_.type)] ?? item_.type;
  const { id, agent, turn, native, type, ...rest } = item_;
  return h("div", { class: `item ${item_.role ?? type}` }, h("p", { class: "soft small item-who" }, text(who), agent ? [" · ", text(agent)] : null, turn ? ` · turn ${turn}` : null), item_.content === undefined ? rows(rest, id) : content(item_, id));
}
