// The tools that are registered: what each is, and a form to try it. Registering one, and agents.

import { Problem, all, get, send } from "./api.js";
import { add, fill, h, text } from "./dom.js";
import { form } from "./form.js";
import { ago, duration } from "./format.js";
import { json, words } from "./values.js";

const MOST = 1000;
const SAMPLE = { name: "pay", description: "Pays an amount in euros.", parameters: { type: "object", properties: { amount: { type: "number" } }, required: ["amount"] }, url: "", approval: "always" };

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function tools(main, { who, go }) {
  const leaving = new AbortController();
  const list = h("div", { class: "tiles" }, h("p", { class: "soft" }, "Looking…"));
  const agents = h("div", { class: "tiles" });
  fill(main, h("h1", null, "Tools"), h("h2", { class: "hidden" }, "Registered tools"), list, h("h2", null, "Agents"), agents, who.scopes.includes("tools:write") ? [registering("tool", "v1/tools", SAMPLE, go), registering("agent", "v1/agents", { name: "", model: "offline:rules", instructions: "", tools: [] }, go)] : null);
  void all("v1/tools", {}, MOST, leaving.signal).then(
    ({ data }) => fill(list, data.length ? data.map((tool) => tile(tool, `#/tools/${tool.name}`, [tool.type, tool.enabled === false ? "off" : null, asks(tool.approval)])) : h("p", { class: "soft" }, "None yet.")),
    (error) => leaving.signal.aborted || fill(list, h("p", { class: "wrong" }, text(error.message))));
  void all("v1/agents", {}, MOST, leaving.signal).then(
    ({ data }) => fill(agents, data.length ? data.map((agent) => tile(agent, `#/runs?agent=${agent.name}`, [[agent.model ?? agent.kind].flat().join(", "), `${agent.tools.length} tools`])) : h("p", { class: "soft" }, "None yet.")),
    () => undefined);
  return () => leaving.abort();
}

/** @param {any} approval */
function asks(approval) {
  return approval === "never" ? null : approval === "always" ? "always asks" : "asks by rule";
}

/** @param {any} one @param {string} href @param {(string | null)[]} facts */
function tile(one, href, facts) {
  return h("article", { class: "card tile" }, h("h3", { class: "name" }, h("a", { href }, text(one.name)), h("span", { class: "soft small" }, ` v${one.version}`)), h("p", { class: "soft" }, text(one.description ?? "")), h("p", { class: "small soft" }, text(facts.filter(Boolean).join(" · "))));
}

/** @param {string} what @param {string} path @param {any} sample @param {(to: string) => void} go */
function registering(what, path, sample, go) {
  const wrong = h("p", { class: "wrong", role: "alert" });
  const shown = h("div", { "aria-live": "polite" });
  /** @type {any} */
  let asked;
  const made = form(null, sample, (value) => (asked = value));
  asked = sample;
  const button = h("button", { type: "button", class: "primary" }, `Register the ${what}`);
  button.addEventListener("click", async () => {
    fill(wrong);
    try {
      const answer = await send("POST", path, asked, { "Idempotency-Key": crypto.randomUUID() });
      if (answer.secret) {
        fill(shown, h("div", { class: "outcome good" }, h("h3", null, "Registered. Its secret, shown this once:"), h("code", { class: "secret" }, text(answer.secret)), h("a", { href: `#/tools/${answer.name}` }, "To the tool")));
      } else go(`#/start`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(wrong, text([error.message, ...error.errors.map(({ path: at, message }) => `${at}: ${message}`)].join("\n")));
    }
  });
  return h("details", { class: "card" }, h("summary", null, `Register a${what === "agent" ? "n agent" : " tool"}`), made.element, wrong, h("div", { class: "actions" }, button), shown);
}

/**
 * One tool, and a form to try it.
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function tool(main, { id, who }) {
  const leaving = new AbortController();
  fill(main, h("p", { class: "crumbs" }, h("a", { href: "#/tools" }, "Tools")), h("h1", null, text(id)), h("p", { class: "soft" }, "Looking…"));
  void get(`v1/tools/${encodeURIComponent(id)}`, undefined, leaving.signal).then(
    (found) => {
      const facts = [`version ${found.version}`, found.type, asks(found.approval), found.idempotent ? "idempotent" : null, `changed ${ago(found.updated_at ?? found.created_at, Date.now())}`];
      fill(main, h("p", { class: "crumbs" }, h("a", { href: "#/tools" }, "Tools")), h("h1", null, text(id)),
        h("p", { class: "soft" }, text(found.description)), found.url ? h("code", { class: "url" }, text(found.url)) : null,
        h("p", { class: "small soft" }, facts.filter(Boolean).join(" · ")),
        who.scopes.includes("tools:write") && !["agent", "client", "hosted"].includes(found.type) ? trying(found) : null,
        h("details", { class: "card" }, h("summary", null, "As it is registered"), json(found)));
    },
    (error) => leaving.signal.aborted || add(main, h("p", { class: "wrong" }, text(error.message))));
  return () => leaving.abort();
}

/** @param {any} found */
function trying(found) {
  const result = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "button", class: "primary" }, "Call it now");
  /** @type {any} */
  let asked = {};
  const made = form(found.parameters, {}, (value) => {
    asked = value;
    button.disabled = value === undefined;
  });
  button.addEventListener("click", async () => {
    button.disabled = true;
    const began = performance.now();
    try {
      const trial = await send("POST", `v1/tools/${encodeURIComponent(found.name)}/test`, { arguments: asked });
      const { object, ...said } = trial;
      fill(result, h("p", { class: "small soft" }, `Answered in ${duration(performance.now() - began)}`), words(said, "trial"));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.errors.length) made.refused(error.errors);
      fill(result, h("p", { class: "wrong" }, text(error.message)));
    }
    button.disabled = false;
  });
  return h("section", { class: "card", "aria-label": "Try it" }, h("h2", null, "Try it"), h("p", { class: "soft small" }, "It is really called, once, outside of any run: nobody is asked, and nothing is recorded."), made.element, h("div", { class: "actions" }, button), result);
}
