// Forms that register a tool or an agent. Settings without a field are entered as JSON.

import { Problem, all, onceOnly, send } from "./api.js";
import { fill, h, text } from "./dom.js";
import { picker } from "./picker.js";
import { Unfit, drawn, mustBeObject } from "./plainform.js";
import { shownOnce } from "./secret.js";

const MOST = 1000;
const NAME = /** @type {const} */ ({ name: "name", label: "Name", about: "The first character is a letter. The others are letters, digits, _ or -. Models see the name.", kind: "line" });
const SCHEMA = { type: "object", properties: { amount: { type: "number", description: "In euros." } }, required: ["amount"], additionalProperties: false };
/** @type {import("./plainform.js").Field[]} */
const TOOL = [
  NAME,
  { name: "description", label: "Description", about: "State what the tool does and when to use it. Models see the description.", optional: "optional", kind: "text" },
  { name: "url", label: "URL", about: "Runward sends each call to this address with POST and signs it. The console shows the signing secret once.", optional: "required for webhook tools", kind: "line" },
  { name: "parameters", label: "Parameters", about: "The JSON Schema of the arguments.", kind: "json", first: JSON.stringify(SCHEMA, null, 2) },
  { name: "timeout_seconds", label: "Timeout", about: "Maximum duration of one call, in seconds. If empty, the limit of the run or of this deployment applies.", optional: "optional", kind: "number" },
  { name: "approval_expires_seconds", label: "Approval expires after", about: "Time to decide, in seconds. After this time, Runward does not send the call and informs the model. Default: 7 days. Maximum: 365 days.", optional: "optional", kind: "number" },
];
/** @type {import("./plainform.js").Field[]} */
const AGENT = [
  NAME,
  { name: "description", label: "Description", about: "People see the description, and so do agents that can hand off to this agent.", optional: "optional", kind: "text" },
  { name: "model", label: "Model", about: "Format: provider:name. The model offline:rules needs no API key.", optional: "required unless the agent is a workflow", kind: "line", first: "offline:rules" },
  { name: "instructions", label: "Instructions", about: "Instructions for the model.", optional: "optional", kind: "text" },
];

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function newTool(main, { who }) {
  const when = h("select", { id: "tool-approval" }, h("option", { value: "never" }, "Never"), h("option", { value: "always", selected: true }, "Before every call"), h("option", { value: "rule" }, "If a rule requires it"));
  const rule = drawn({ name: "rule", label: "The rule, in CEL", about: "For example: args.amount > 100.0", kind: "line" });
  rule.element.hidden = true;
  when.addEventListener("change", () => (rule.element.hidden = when.value !== "rule"));
  const again = h("input", { type: "checkbox" });
  registering(main, who, {
    title: "Register a tool",
    back: ["#/tools", "Tools"],
    about: "A webhook tool is an HTTP endpoint of yours that models can call.",
    path: "v1/tools",
    fields: TOOL.map((field) => drawn(field, field.name === "parameters" ? notASchema : undefined)),
    more: [
      h("div", { class: "field" }, h("label", { for: "tool-approval" }, "Approval is required"), when),
      rule.element,
      h("label", { class: "switch" }, again, " The tool is idempotent: a repeated call has no further effect"),
    ],
    asked: () => ({ approval: when.value === "rule" ? { when: rule.read() } : when.value, idempotent: again.checked }),
    rule,
    rest: "For example: headers, retry, on_timeout or output_schema. You can also register another type of tool: {\"type\": \"agent\", \"agent\": \"clerk\"}.",
    made: (tool) => shownOnce("Registered", "Runward signs the calls with this secret. The secret is not shown again.", tool.secret, h("a", { class: "button", href: `#/tools/${tool.name}` }, "Open the tool")),
  });
  return () => {};
}

/** @param {any} value */
function notASchema(value) {
  return mustBeObject(value) ?? (value.type === "object" ? null : "must be the schema of an object: {\"type\": \"object\", …}");
}

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function newAgent(main, { who }) {
  const leaving = new AbortController();
  const tools = offered("tools", "v1/tools", leaving.signal);
  const agents = offered("agents", "v1/agents", leaving.signal);
  registering(main, who, {
    title: "Register an agent",
    back: ["#/agents", "Agents"],
    about: "An agent is a named model with instructions, tools and limits.",
    path: "v1/agents",
    fields: AGENT.map((field) => drawn(field)),
    more: [
      h("fieldset", null, h("legend", null, "Tools that the agent can call"), tools.element),
      h("fieldset", null, h("legend", null, "Agents that the agent can hand off to"), agents.element),
    ],
    asked: () => ({ tools: tools.chosen(), handoffs: agents.chosen() }),
    rest: "For example: limits, output_schema, model_settings, or guardrails. You can also register a workflow: {\"kind\": \"sequential\", \"agents\": [\"clerk\"]}.",
    made: (agent) => h("div", { class: "outcome good", tabindex: "-1" }, h("h2", null, "Registered"), h("div", { class: "actions" }, h("a", { class: "button", href: `#/agents/${agent.name}` }, "Open the agent"))),
  });
  return () => leaving.abort();
}

/** @param {string} called @param {string} path @param {AbortSignal} leaving */
function offered(called, path, leaving) {
  const made = picker(called, leaving);
  all(path, { order: "asc" }, MOST, leaving).then(
    ({ data }) => made.offer(data.map(({ name, description, approval }) => ({ name, about: description ?? "", asks: approval === "always" }))),
    (error) => leaving.aborted || made.refuse(error.message));
  return made;
}

/**
 * @typedef {object} Registration
 * @property {string} title
 * @property {[string, string]} back
 * @property {string} about
 * @property {string} path
 * @property {import("./plainform.js").Drawn[]} fields
 * @property {HTMLElement[]} more Elements below the fields.
 * @property {() => any} asked Returns the values of `more`. Throws an Unfit.
 * @property {import("./plainform.js").Drawn} [rule] the one of these that may not fit.
 * @property {string} rest what else there is.
 * @property {(answer: any) => HTMLElement} made
 *
 * @param {HTMLElement} main
 * @param {any} who
 * @param {Registration} what
 */
function registering(main, who, { title, back, about, path, fields, more, asked, rule, rest, made }) {
  const head = [h("p", { class: "crumbs" }, h("a", { href: back[0] }, back[1])), h("h1", null, title)];
  if (!who.scopes.includes("tools:write")) {
    fill(main, head, h("p", { class: "soft" }, "This API key cannot register tools or agents. Registration requires the scope tools:write."));
    return;
  }
  const wrong = h("p", { class: "wrong", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, title);
  const others = drawn({ name: "others", label: "All other fields, as JSON", about: rest, optional: "optional", kind: "json" }, mustBeObject);
  const once = onceOnly();

  /** Return the request body. If a field is invalid, mark it and return null. */
  function body() {
    /** @type {Record<string, any>} */
    const found = {};
    /** @type {[import("./plainform.js").Drawn, () => void][]} */
    const parts = [
      ...fields.map((field) => /** @type {[import("./plainform.js").Drawn, () => void]} */ ([field, () => (found[field.name] = field.read())])),
      [rule ?? others, () => Object.assign(found, asked())],
      [others, () => Object.assign(found, others.read())],
    ];
    /** @type {import("./plainform.js").Drawn[]} */
    const unfit = [];
    for (const [field, take] of parts) {
      try {
        take();
        field.wrong("");
      } catch (error) {
        if (!(error instanceof Unfit)) throw error;
        field.wrong(error.message);
        unfit.push(field);
      }
    }
    unfit[0]?.focus();
    return unfit.length ? null : found;
  }

  /** Show an error next to its field, or below all fields. @param {Problem} problem */
  function say(problem) {
    /** @param {string} at */
    const place = (at) => {
      const [name] = at.split(".");
      return name === "approval" && rule && !rule.element.hidden ? rule : fields.find((field) => field.name === name);
    };
    for (const { path: at, message } of problem.errors) place(at)?.wrong([at.split(".").slice(1).join("."), message].join(" ").trim());
    const left = problem.errors.filter(({ path: at }) => !place(at));
    const first = problem.errors.map(({ path: at }) => place(at)).find(Boolean);
    first?.focus();
    const lines = left.map(({ path: at, message }) => `${at}: ${message}`);
    fill(wrong, text([problem.errors.length ? "Fix the highlighted fields." : problem.message, ...lines].join("\n")));
  }

  const whole = h("form", { class: "card form", novalidate: true }, fields.map(({ element }) => element), more, others.element, wrong, h("div", { class: "actions" }, button));
  whole.addEventListener("submit", async (event) => {
    event.preventDefault();
    fill(wrong);
    const sent = body();
    if (sent === null) return;
    button.disabled = true;
    try {
      const answer = made(await send("POST", path, sent, once(sent)));
      fill(main, head, answer);
      answer.focus();
      scrollTo(0, 0);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      say(error);
      button.disabled = false;
    }
  });
  fill(main, head, h("p", { class: "soft" }, about), whole);
}
