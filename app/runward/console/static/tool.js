// The page of one tool: its definition, a form to try it, and its recent calls.

import { Problem, get, send } from "./api.js";
import { fill, h, text } from "./dom.js";
import { form } from "./form.js";
import { recentCalls } from "./calls.js";
import { ago, duration, moment, number, roughly } from "./format.js";
import { json, words } from "./values.js";

/** Types that can be called only within a run. */
const UNTRIED = ["agent", "client", "hosted"];
/** @type {Record<string, [string, string]>} */
const TRIALS = { completed: ["Completed", "good"], accepted: ["Accepted; the tool will send a callback", "wait"], failed: ["Failed", "bad"] };

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function tool(main, { id, who }) {
  const leaving = new AbortController();
  const head = [h("p", { class: "crumbs" }, h("a", { href: "#/tools" }, "Tools")), h("h1", null, text(id))];
  fill(main, head, h("p", { class: "soft" }, "Loading…"));
  get(`v1/tools/${encodeURIComponent(id)}`, undefined, leaving.signal).then(
    (found) => {
      const tried = who.scopes.includes("tools:write") && !UNTRIED.includes(found.type);
      fill(main, head,
        found.description ? h("p", { class: "lead" }, text(found.description)) : null,
        who.scopes.includes("runs:write") ? h("div", { class: "actions" }, h("a", { class: "button", href: `#/start?tool=${found.name}` }, "Start a run with this tool")) : null,
        about(found),
        tried ? trying(found) : null,
        recentCalls(found.name, leaving.signal),
        h("details", { class: "card" }, h("summary", null, "JSON Schema of the parameters"), json(found.parameters)),
        h("details", { class: "card" }, h("summary", null, "All fields as JSON"), json(found)));
    },
    (error) => leaving.signal.aborted || fill(main, head, h("p", { class: "wrong" }, text(error.message))));
  return () => leaving.abort();
}

/** Return the main facts about a tool. @param {any} found */
function about(found) {
  const expires = number(found.approval_expires_seconds) ?? 0;
  const rule = found.approval?.when ? [h("code", null, text(found.approval.when)), " in CEL"] : found.approval?.callable ? [h("code", null, text(found.approval.callable))] : null;
  /** @type {[string, import("./dom.js").Child][]} */
  const facts = [
    ["Location", found.type === "mcp" ? [text(`${found.mcp.tool} of the MCP server `), h("a", { href: `#/mcp-servers/${found.mcp.server}` }, text(found.mcp.server))] : found.url ? h("code", { class: "url" }, text(found.url)) : text(origin(found))],
    ["Approval is required", found.approval === "never" ? "never" : [found.approval === "always" ? "always" : ["if ", rule], h("span", { class: "soft" }, `; an approval expires after ${roughly(expires * 1000)}`)]],
    ["Timeout", found.timeout_seconds === null ? "the limit of the run or of this deployment" : duration((number(found.timeout_seconds) ?? 0) * 1000)],
    ["Retried after a failure", found.idempotent ? "yes, because the tool is idempotent" : "only if the call was certainly not sent"],
    ["Version", [String(found.version), h("span", { class: "soft", title: moment(found.updated_at) }, ` updated ${ago(found.updated_at, Date.now())}`)]],
    ["Enabled", found.enabled === true ? "yes" : found.enabled === false ? "no" : "depends on a rule"],
  ];
  return h("dl", { class: "rows about" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

/** @param {any} found */
function origin({ type, agent, hosted }) {
  if (type === "agent") return `a child run of ${agent}`;
  if (type === "client") return "the client that started the run";
  if (type === "hosted") return `the model's provider: ${hosted.kind}`;
  return `a ${type} of this deployment`;
}

/** @param {any} found */
function trying(found) {
  const result = h("div", { class: "trial", "aria-live": "polite" });
  const button = h("button", { type: "button", class: "primary" }, "Call the tool");
  /** @type {any} */
  let asked = {};
  const made = form(found.parameters, {}, (value) => {
    asked = value;
    button.disabled = value === undefined;
  });
  button.addEventListener("click", async () => {
    button.disabled = true;
    fill(result, h("p", { class: "soft" }, "Calling…"));
    try {
      fill(result, answered(await send("POST", `v1/tools/${encodeURIComponent(found.name)}/test`, { arguments: asked })));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.errors.length) made.refused(error.errors);
      fill(result, h("p", { class: "wrong" }, text(error.errors.length ? "Fix the highlighted arguments." : error.message)));
    }
    button.disabled = false;
  });
  return h("section", { class: "card", "aria-label": "Test the tool" }, h("h2", null, "Test the tool"), h("p", { class: "soft small" }, "Runward sends one real call to the tool, without a run and without approval. Runward does not record the call."), made.element, h("div", { class: "actions" }, button), result);
}

/** @param {any} trial */
function answered(trial) {
  const [label, tone] = TRIALS[trial.outcome];
  const status = trial.status === null ? "" : ` · HTTP ${trial.status}`;
  return [
    h("p", null, h("span", { class: `badge ${tone}` }, label), h("span", { class: "soft small" }, ` ${duration((number(trial.seconds) ?? 0) * 1000)}${status}`)),
    trial.detail ? h("p", { class: "wrong" }, text(trial.detail)) : null,
    trial.output === null && trial.outcome !== "completed" ? null : words(trial.output, "trial"),
  ];
}
