// Starting a run: an agent, or a model with tools; type, and watch.

import { Problem, all, get, send } from "./api.js";
import { fill, h, note, text } from "./dom.js";

const MOST = 400;

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function start(main, { go, query }) {
  const leaving = new AbortController();
  const agent = h("select", { id: "start-agent" }, h("option", { value: "" }, "None: a model of its own"));
  const model = h("input", { id: "start-model", type: "text", value: "offline:rules", autocomplete: "off", spellcheck: "false" });
  const tools = h("div", { class: "choices" }, h("p", { class: "soft" }, "Looking…"));
  const instructions = h("textarea", { id: "start-instructions", rows: "2" });
  const input = h("textarea", { id: "start-input", rows: "4", required: true });
  const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
  const button = h("button", { type: "submit", class: "primary" }, "Start");
  const inline = h("div", { class: "form" },
    h("div", { class: "field" }, h("label", { for: "start-model" }, "Model ", h("span", { class: "soft" }, "vendor:name; offline:rules needs no key")), model),
    h("fieldset", null, h("legend", null, "Tools"), tools),
    h("div", { class: "field" }, h("label", { for: "start-instructions" }, "Instructions ", h("span", { class: "soft" }, "optional")), instructions));
  const form = h("form", { class: "card form" },
    h("div", { class: "field" }, h("label", { for: "start-agent" }, "Agent"), agent), inline,
    h("div", { class: "field" }, h("label", { for: "start-input" }, "Input"), input),
    wrong, h("div", { class: "actions" }, button));
  fill(main, h("h1", null, "Start a run"), form);
  agent.addEventListener("change", () => (inline.hidden = agent.value !== ""));

  const agents = all("v1/agents", {}, MOST, leaving.signal).then(({ data }) => agent.append(...data.map((one) => h("option", { value: one.name }, one.name))), () => undefined);
  const listed = all("v1/tools", {}, MOST, leaving.signal).then(
    ({ data }) => fill(tools, data.length ? data.map((tool) => h("label", { class: "switch", title: tool.description }, h("input", { type: "checkbox", name: "tool", value: tool.name }), " ", text(tool.name))) : h("p", { class: "soft" }, "No tool is registered yet.")),
    () => fill(tools, h("p", { class: "soft" }, "This key may not read tools.")),
  );

  /** Of a run that is to be run again: what its first event says, and its input. @param {string} id */
  async function like(id) {
    const path = `v1/runs/${encodeURIComponent(id)}`;
    const [events, items] = await Promise.all([get(`${path}/events`, { limit: 1 }), get(`${path}/items`, { limit: 50 })]);
    await Promise.all([agents, listed]);
    const made = events.data[0].data;
    const said = items.data.findLast((/** @type {any} */ one) => one.role === "user" && one.turn === 0);
    agent.value = made.agent ?? "";
    inline.hidden = agent.value !== "";
    model.value = [made.model ?? ""].flat()[0];
    for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (tools.querySelectorAll("input"))) box.checked = (made.tools ?? []).includes(box.value);
    input.value = typeof said?.content === "string" ? said.content : "";
  }

  const from = query.get("from");
  if (from) like(from).catch((error) => note(text(error.message), "error"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = /** @type {HTMLInputElement[]} */ ([...tools.querySelectorAll("input:checked")]).map((one) => one.value);
    const own = { model: model.value.trim(), tools: chosen, ...(instructions.value && { instructions: instructions.value }) };
    const body = { input: input.value, ...(agent.value ? { agent: agent.value } : own) };
    button.disabled = true;
    try {
      go(`#/runs/${(await send("POST", "v1/runs", body, { "Idempotency-Key": crypto.randomUUID() })).id}`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      button.disabled = false;
      wrong.hidden = false;
      fill(wrong, text([error.message, ...error.errors.map(({ path, message }) => `${path}: ${message}`)].join("\n")));
    }
  });
  return () => leaving.abort();
}
