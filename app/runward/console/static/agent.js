// The page of one agent: its definition and its versions.

import { get } from "./api.js";
import { modelOf } from "./agents.js";
import { fill, h, text } from "./dom.js";
import { differences } from "./exact.js";
import { ago, moment } from "./format.js";
import { json, one } from "./values.js";

const PAGE = 20;
/** Fields that differ in every version. */
const ABOUT = ["version", "created_at", "updated_at", "object"];

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function agent(main, { id, who }) {
  const leaving = new AbortController();
  const head = [h("p", { class: "crumbs" }, h("a", { href: "#/agents" }, "Agents")), h("h1", null, text(id))];
  fill(main, head, h("p", { class: "soft" }, "Loading…"));
  get(`v1/agents/${encodeURIComponent(id)}`, undefined, leaving.signal).then(
    (found) => fill(main, head,
      found.description ? h("p", { class: "lead" }, text(found.description)) : null,
      h("div", { class: "actions" },
        who.scopes.includes("runs:write") ? h("a", { class: "button", href: `#/start?agent=${found.name}` }, "Start a run") : null,
        h("a", { class: "button", href: `#/runs?agent=${found.name}` }, "Runs of this agent")),
      about(found),
      versions(id, leaving.signal),
      h("details", { class: "card" }, h("summary", null, "All fields as JSON"), json(found))),
    (error) => leaving.signal.aborted || fill(main, head, h("p", { class: "wrong" }, text(error.message))));
  return () => leaving.abort();
}

/** @param {any} found */
function about(found) {
  const none = h("span", { class: "soft" }, "none");
  const links = (/** @type {string[]} */ names, /** @type {string} */ to) => names.flatMap((name, at) => [at ? ", " : "", h("a", { href: `#/${to}/${name}` }, text(name))]);
  // A tool that is defined in the agent itself is an object, and has no page.
  const tools = (/** @type {any[]} */ given) => given.flatMap((tool, at) => [at ? ", " : "", typeof tool === "string" ? links([tool], "tools") : text(tool.name)]);
  /** @type {[string, import("./dom.js").Child][]} */
  const facts = [
    ["Model", text(modelOf(found))],
    ["Instructions", found.instructions ? one(found.instructions, "instructions") : none],
    ["Tools", found.tools.length ? tools(found.tools) : none],
    ["Handoffs to", found.handoffs.length ? links(found.handoffs, "agents") : none],
    ["Limits", h("code", null, text(Object.entries(found.limits).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", ")))],
  ];
  return h("dl", { class: "rows about" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

/** Return the list of versions, each with its changes. @param {string} name @param {AbortSignal} leaving */
function versions(name, leaving) {
  const list = h("ol", { class: "versions plain" });
  const more = h("button", { type: "button", class: "quiet", hidden: true }, "Show older entries");
  /** @type {any[]} */
  const found = [];

  async function look() {
    const after = found.length ? found[found.length - 1].version : undefined;
    const page = await get(`v1/agents/${encodeURIComponent(name)}/versions`, { limit: PAGE, after }, leaving);
    found.push(...page.data);
    more.hidden = !page.has_more;
    fill(list, found.map((version, at) => entry(version, found[at + 1], at === 0)));
  }

  const failed = (/** @type {Error} */ error) => leaving.aborted || fill(list, h("li", { class: "wrong" }, text(error.message)));
  more.addEventListener("click", () => void look().catch(failed));
  look().catch(failed);
  return h("section", { class: "card", "aria-label": "Versions" }, h("h2", null, "Versions"), h("p", { class: "soft small" }, "A run uses the version that it was started with."), list, more);
}

/** @param {any} version @param {any} before The version before it, if it is loaded. @param {boolean} newest */
function entry(version, before, newest) {
  const changed = before ? differences(without(before), without(version)) : [];
  const what = before ? changed.map(([path]) => path).join(", ") || "nothing else" : version.version === 1 ? "registered" : "";
  return h("li", null,
    h("details", { "data-key": `v${version.version}` },
      h("summary", null, h("strong", null, `v${version.version}`), newest ? h("span", { class: "badge good" }, "now") : null, " ", text(what), h("span", { class: "soft small", title: moment(version.created_at) }, ` ${ago(version.created_at, Date.now())}`)),
      changed.length ? changed.map(([path, was, is]) => h("div", { class: "change" }, h("code", null, text(path)), was === undefined ? null : h("del", null, one(was, `was ${path}`)), h("span", { class: "soft", "aria-hidden": "true" }, "→"), is === undefined ? h("span", { class: "soft" }, "removed") : h("ins", null, one(is, `is ${path}`)))) : json(version)));
}

/** @param {any} version */
function without(version) {
  return Object.fromEntries(Object.entries(version).filter(([name]) => !ABOUT.includes(name)));
}
