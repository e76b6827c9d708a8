// Registering a tool or an agent: a form, or the same as JSON.

import { Problem, all, send } from "./api.js";
import { fill, h, text } from "./dom.js";
import { form } from "./form.js";
import { problems } from "./schema.js";
import { shownOnce } from "./secret.js";

const MOST = 1000;
const NAME = { type: "string", pattern: "^[A-Za-z][A-Za-z0-9_-]{0,63}$", description: "A letter, then letters, digits, _ and -; models read it." };
/** What the form shows of a webhook tool; JSON may have more. @type {import("./schema.js").Schema} */
const TOOL = {
  type: "object",
  properties: {
    name: NAME,
    description: { type: "string", maxLength: 16384, description: "What it does and when to use it; models read it." },
    url: { type: "string", minLength: 1, description: "Where its calls are POSTed, signed with a secret that is shown once." },
    parameters: { type: "object", description: "The JSON Schema of its arguments, an object's." },
    timeout_seconds: { type: "number", minimum: 0.01, maximum: 3600, description: "How long one call may take." },
    idempotent: { type: "boolean", description: "Whether a call may be sent again without doing harm." },
    approval_expires_seconds: { type: "number", minimum: 1, maximum: 31536000, description: "After how long nobody's answer counts as no. A day, if empty." },
  },
  required: ["name", "url", "parameters"],
};
/** What the form shows of an agent beside its tools and handoffs. @type {import("./schema.js").Schema} */
const AGENT = {
  type: "object",
  properties: {
    name: NAME,
    description: { type: "string", maxLength: 4096, description: "For people, and for agents that may hand over to it." },
    model: { type: "string", minLength: 1, description: "vendor:name; offline:rules needs no key." },
    instructions: { type: "string", maxLength: 262144, description: "What the model is told first." },
  },
  required: ["name", "model"],
};
const PARAMETERS = { type: "object", properties: { amount: { type: "number", description: "In euros." } }, required: ["amount"], additionalProperties: false };

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function newTool(main, { who }) {
  const when = h("select", { id: "tool-approval" }, h("option", { value: "never" }, "Never"), h("option", { value: "always", selected: true }, "Before every call"), h("option", { value: "rule" }, "Where a rule says so"));
  const rule = h("input", { id: "tool-rule", type: "text", class: "code", placeholder: "args.amount > 100", autocomplete: "off", spellcheck: "false" });
  const ruled = h("div", { class: "field", hidden: true }, h("label", { for: "tool-rule" }, "The rule, in CEL"), rule);
  when.addEventListener("change", () => (ruled.hidden = when.value !== "rule"));
  const approval = [h("div", { class: "field" }, h("label", { for: "tool-approval" }, "A person is asked"), when), ruled];
  return registering(main, who, {
    title: "Register a tool",
    back: ["#/tools", "Tools"],
    about: "An HTTP endpoint of yours that models may call. Whatever else a tool can be (an agent, a client's, a vendor's) is registered as JSON, with its type.",
    path: "v1/tools",
    schema: TOOL,
    first: { parameters: PARAMETERS },
    more: approval,
    asked: (value) => ({ approval: when.value === "rule" ? { when: rule.value } : when.value, ...value }),
    made: (tool) => shownOnce("Registered", "With this secret its calls are signed. It is shown this once.", tool.secret, h("a", { class: "button", href: `#/tools/${tool.name}` }, "To the tool")),
  });
}

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function newAgent(main, { who }) {
  const leaving = new AbortController();
  fill(main, h("p", { class: "soft" }, "Looking…"));
  let leave = () => leaving.abort();
  const names = (/** @type {string} */ path) => all(path, { order: "asc" }, MOST, leaving.signal).then(({ data }) => data.map((one) => one.name), () => []);
  void Promise.all([names("v1/tools"), names("v1/agents")]).then(([tools, agents]) => {
    if (leaving.signal.aborted) return;
    const toolBoxes = boxes("What it may call", tools, "No tool is registered yet.");
    const handoffBoxes = boxes("To whom it may hand over", agents, "No other agent is registered yet.");
    leave = registering(main, who, {
      title: "Register an agent",
      back: ["#/agents", "Agents"],
      about: "A name for a model with its instructions, tools and limits. Workflows, budgets, guardrails and the rest are given as JSON.",
      path: "v1/agents",
      schema: AGENT,
      first: { model: "offline:rules" },
      more: [toolBoxes.element, handoffBoxes.element],
      asked: (value) => ({ tools: toolBoxes.chosen(), handoffs: handoffBoxes.chosen(), ...value }),
      made: (agent) => h("div", { class: "outcome good", tabindex: "-1" }, h("h2", null, "Registered"), h("div", { class: "actions" }, h("a", { class: "button", href: `#/agents/${agent.name}` }, "To the agent"))),
    });
  });
  return () => leave();
}

/** @param {string} title @param {string[]} names @param {string} none */
function boxes(title, names, none) {
  const all = names.map((name) => h("input", { type: "checkbox", value: name }));
  const choices = all.map((box) => h("label", { class: "switch" }, box, " ", text(box.value)));
  return {
    element: h("fieldset", null, h("legend", null, title), h("div", { class: "choices" }, choices.length ? choices : h("p", { class: "soft" }, none))),
    chosen: () => all.filter((box) => box.checked).map((box) => box.value),
  };
}

/**
 * @typedef {object} Registration
 * @property {string} title
 * @property {[string, string]} back
 * @property {string} about
 * @property {string} path
 * @property {import("./schema.js").Schema} schema
 * @property {any} first what the form begins with.
 * @property {HTMLElement[]} more below the form.
 * @property {(value: any) => any} asked the body.
 * @property {(answer: any) => HTMLElement} made
 *
 * @param {HTMLElement} main
 * @param {any} who
 * @param {Registration} what
 * @returns {() => void}
 */
function registering(main, who, { title, back, about, path, schema, first, more, asked, made }) {
  const head = [h("p", { class: "crumbs" }, h("a", { href: back[0] }, back[1])), h("h1", null, title)];
  if (!who.scopes.includes("tools:write")) {
    fill(main, head, h("p", { class: "soft" }, "This key may not register anything: it lacks the scope tools:write."));
    return () => {};
  }
  const wrong = h("p", { class: "wrong", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, title);
  let value = first;
  const fields = form(schema, first, (now) => {
    value = now;
    button.disabled = now === undefined;
    fill(wrong);
  });
  const whole = h("form", { class: "card form", novalidate: true }, fields.element, more, wrong, h("div", { class: "actions" }, button));
  whole.addEventListener("submit", async (event) => {
    event.preventDefault();
    const left = problems(value, schema);
    if (left.length) {
      fields.refused(left.map(([at, message]) => ({ path: at, message })));
      fill(wrong, "Something is missing; see above.");
      return;
    }
    button.disabled = true;
    try {
      const answer = made(await send("POST", path, asked(value), { "Idempotency-Key": crypto.randomUUID() }));
      fill(main, head, answer);
      answer.focus();
      scrollTo(0, 0);
      return;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fields.refused(error.errors);
      fill(wrong, text(error.errors.length ? "It was not registered; see what is marked." : error.message));
    }
    button.disabled = false;
  });
  fill(main, head, h("p", { class: "soft" }, about), whole);
  return () => {};
}
