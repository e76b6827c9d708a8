// The form that starts a run of an agent, or of a model with tools.

import { Problem, all, get, onceOnly, send } from "./api.js";
import { fill, h, note, text } from "./dom.js";
import { parse } from "./exact.js";
import { ago, shortId } from "./format.js";
import { definitionOf, definitionsIn, missingHeaders } from "./inline.js";
import { picker } from "./picker.js";

const MOST = 1000;
const SESSIONS = 100;
const NEW = "new";

/** The field that an error without a path concerns, by error code. @type {Record<string, string>} */
const ABOUT = { unknown_agent: "agent", agent_not_found: "agent", unknown_model: "model", unknown_tool: "tools", session_not_found: "session_id", session_busy: "session_id" };

/** Convert the items of a run's input to the messages of a request. Calls become part of their response's message. @param {any[]} items */
export function messagesOf(items) {
  /** @type {any[]} */
  const messages = [];
  for (const { type, role, content, refusal, call_id: id, name, arguments: given, output } of items) {
    if (type === "message" && refusal) messages.push({ role, refusal: content });
    else if (type === "message") messages.push({ role, content });
    else if (type === "tool_call") {
      if (messages.at(-1)?.role !== "assistant") messages.push({ role: "assistant" });
      (messages.at(-1).tool_calls ??= []).push({ id, type: "function", function: { name, arguments: JSON.stringify(given) } });
    } else if (type === "tool_result") messages.push({ role: "tool", tool_call_id: id, content: content ?? (typeof output === "string" ? output : JSON.stringify(output)) });
  }
  return messages;
}

class Unfit extends Error {
  /** @param {string} path @param {string} message */
  constructor(path, message) {
    super(message);
    this.path = path;
  }
}

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function start(main, { go, query, who }) {
  const leaving = new AbortController();
  const agent = h("select", { id: "start-agent" }, h("option", { value: "" }, "No agent: choose a model and tools"));
  const about = h("p", { class: "help", id: "start-agent-about" });
  const model = h("input", { id: "start-model", type: "text", value: "offline:rules", list: "start-models", autocomplete: "off", spellcheck: "false" });
  const models = h("datalist", { id: "start-models" }, h("option", { value: "offline:rules" }));
  const tools = picker("tools", leaving.signal);
  const definitions = h("textarea", { id: "start-definitions", rows: "6", class: "code", spellcheck: "false" });
  const instructions = h("textarea", { id: "start-instructions", rows: "2" });
  const session = h("select", { id: "start-session" }, h("option", { value: "" }, "None"), h("option", { value: NEW }, "A new session"));
  const input = h("textarea", { id: "start-input", rows: "5" });
  const asJson = h("input", { type: "checkbox", id: "start-json" });
  const turns = h("input", { id: "start-turns", type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "10" });
  const limits = h("textarea", { id: "start-limits", rows: "3", class: "code", spellcheck: "false" });
  const context = h("textarea", { id: "start-context", rows: "3", class: "code", spellcheck: "false" });
  const rest = h("p", { class: "wrong", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Start");
  const like = h("p", { class: "soft", hidden: true });
  const more = h("details", { class: "more", "data-key": "more" }, h("summary", null, "Limits and context"),
    h("div", { class: "form" }, field("limits.max_turns", "Maximum turns", "start-turns", turns, "optional"), field("limits", "Other limits", "start-limits", limits, "optional; a JSON object, such as {\"max_tokens\": 10000}"), field("context", "Context", "start-context", context, "optional; a JSON object for rules and tools. The model does not see it.")));
  const ownTools = h("details", { class: "more", "data-key": "inline tools" }, h("summary", null, "Inline tools"),
    h("div", { class: "form" }, field("inline_tools", "Definitions", "start-definitions", definitions, "optional; a JSON list of tools that only this run has")));
  const inline = h("div", { class: "form" },
    field("model", "Model", "start-model", model, "provider:name. Separate several models with commas; they are tried in order. offline:rules needs no key."), models,
    h("fieldset", null, h("legend", null, "Tools"), tools.element, complaint("tools")), ownTools,
    field("instructions", "Instructions", "start-instructions", instructions, "optional"));
  const form = h("form", { class: "card form", novalidate: true }, like,
    field("agent", "Agent", "start-agent", agent, null), about, inline,
    field("session_id", "Session", "start-session", session, "the run continues the conversation of this session"),
    field("input", "Input", "start-input", input, null),
    h("label", { class: "switch small soft" }, asJson, " The input is JSON: a list of messages"),
    more, rest, h("div", { class: "actions" }, button, h("span", { class: "soft small" }, "Press Ctrl+Enter to start")));
  const mayWrite = who.scopes.includes("runs:write");
  fill(main, h("h1", null, "Start a run"), mayWrite ? form : h("p", null, "This API key cannot start runs. Starting runs requires the scope ", h("code", null, "runs:write"), "."));
  if (!mayWrite) return () => leaving.abort();

  /** @type {Map<string, any>} */
  const known = new Map();
  function choose() {
    const one = known.get(agent.value);
    inline.hidden = agent.value !== "";
    about.hidden = !one;
    if (one) fill(about, one.description ? [text(one.description), " "] : null, text([one.model ?? one.kind].flat().join(", ")), one.tools.length ? [" · tools: ", text(one.tools.map(nameOf).join(", "))] : " · no tools");
  }
  agent.addEventListener("change", choose);
  asJson.addEventListener("change", () => input.classList.toggle("code", asJson.checked));

  const ready = Promise.all([
    all("v1/agents", {}, MOST, leaving.signal).then(({ data }) => {
      for (const one of data) known.set(one.name, one);
      agent.append(...data.map((one) => h("option", { value: one.name }, one.name)));
      const named = new Set(data.flatMap((one) => [one.model ?? []].flat()));
      models.append(...[...named].filter((name) => name !== "offline:rules").map((name) => h("option", { value: name })));
    }, () => undefined),
    all("v1/tools", {}, MOST, leaving.signal).then(
      ({ data }) => (data.length ? tools.offer(data.filter((one) => one.enabled !== false).map((one) => ({ name: one.name, about: one.description, asks: one.approval !== "never" }))) : tools.refuse("No tools are registered yet.")),
      () => tools.refuse("This API key cannot read tools."),
    ),
    all("v1/sessions", {}, SESSIONS, leaving.signal).then(({ data }) => data.forEach(offerSession), () => undefined),
  ]);

  /** @param {any} one */
  function offerSession(one) {
    session.append(h("option", { value: one.id }, `${one.name ?? shortId(one.id)}, made ${ago(one.created_at, Date.now())}`));
  }

  /** @param {string | null} id */
  function inSession(id) {
    if (!id) return;
    if (![...session.options].some((one) => one.value === id)) session.append(h("option", { value: id }, shortId(id)));
    session.value = id;
  }

  /** Fill the form from a run that is to be repeated. @param {string} id */
  async function again(id) {
    const path = `v1/runs/${encodeURIComponent(id)}`;
    const run = await get(path, { include: "config" }, leaving.signal);
    await ready;
    if (run.erased_at) {
      like.hidden = false;
      fill(like, "The content of ", h("a", { href: `#/runs/${id}` }, shortId(id)), " was erased.");
      return;
    }
    const { input: said, limits: { max_turns, ...others }, ...former } = run.config;
    const gone = run.agent && !known.has(run.agent);
    const named = run.agent && !gone;
    agent.value = named ? run.agent : "";
    if (run.model) model.value = [run.model].flat().join(", ");
    const missing = tools.choose(named ? [] : former.tools.filter((/** @type {any} */ one) => typeof one === "string"));
    const defined = named ? [] : definitionsIn(former.tools).map(definitionOf);
    definitions.value = defined.length ? JSON.stringify(defined, null, 2) : "";
    ownTools.open = defined.length > 0;
    instructions.value = named ? "" : former.instructions;
    inSession(run.session_id);
    turns.value = String(max_turns);
    limits.value = JSON.stringify(Object.fromEntries(Object.entries(others).filter(([, limit]) => limit !== null)), null, 2);
    if (run.context && Object.keys(run.context).length) context.value = JSON.stringify(run.context, null, 2);
    more.open = true;
    asJson.checked = said.length !== 1 || said[0].role !== "user" || typeof said[0].content !== "string";
    input.value = asJson.checked ? JSON.stringify(messagesOf(said), null, 2) : said[0].content;
    input.classList.toggle("code", asJson.checked);
    like.hidden = false;
    fill(like, "Copied from ", h("a", { href: `#/runs/${id}` }, shortId(id)), ". ",
      gone ? ["The agent ", text(run.agent), " no longer exists. "] : null,
      missing.length ? ["These tools no longer exist: ", text(missing.join(", ")), ". "] : null,
      defined.some((one) => missingHeaders(one).length) ? "The header values of the inline tools are not copied. Replace each … in the definitions. " : null,
      named ? null : "The model settings and the output schema of the earlier run are not copied.");
    choose();
  }

  async function prefill() {
    await ready;
    const from = query.get("from");
    if (from) await again(from);
    const named = query.get("agent");
    if (named && known.has(named)) agent.value = named;
    const tool = query.get("tool");
    if (tool) tools.choose([tool]);
    inSession(query.get("session_id"));
    choose();
  }
  choose();
  prefill().catch((error) => leaving.signal.aborted || note(text(error.message), "error"));

  /** Return the request body. Throws an Unfit. */
  function asked() {
    const limit = turns.value.trim();
    if (limit && !/^\d+$/.test(limit)) throw new Unfit("limits.max_turns", "must be a number, such as 10");
    if (!input.value.trim()) throw new Unfit("input", "is required");
    const bounds = { ...(limits.value.trim() && jsonOf("limits", limits.value)), ...(limit && { max_turns: Number(limit) }) };
    const names = model.value.split(",").map((one) => one.trim()).filter(Boolean);
    const chosen = [...tools.chosen(), ...(agent.value ? [] : definedTools())];
    const own = { model: names.length === 1 ? names[0] : names, ...(chosen.length && { tools: chosen }), ...(instructions.value && { instructions: instructions.value }) };
    if (!agent.value && names.length === 0) throw new Unfit("model", "is required");
    return {
      ...(agent.value ? { agent: agent.value } : own),
      input: asJson.checked ? jsonOf("input", input.value) : input.value,
      ...(Object.keys(bounds).length && { limits: bounds }),
      ...(context.value.trim() && { context: jsonOf("context", context.value) }),
    };
  }

  /** Return the inline tools. Throws an Unfit. @returns {any[]} */
  function definedTools() {
    if (!definitions.value.trim()) return [];
    const found = jsonOf("inline_tools", definitions.value);
    if (!Array.isArray(found)) throw new Unfit("inline_tools", "must be a JSON list, such as [{\"name\": \"pay\", \"url\": \"https://…\"}]");
    for (const one of found) {
      const [header] = missingHeaders(one);
      if (header) throw new Unfit("inline_tools", `the header ${header} of ${one.name} needs a value, or a secret: {"secret": "NAME"}`);
    }
    return found;
  }

  const once = onceOnly();
  const onceSession = onceOnly();
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    tell(form, rest, []);
    try {
      /** @type {any} */
      const body = asked();
      button.disabled = true;
      if (session.value === NEW) {
        const made = await send("POST", "v1/sessions", {}, onceSession({}));
        body.session_id = made.id;
      } else if (session.value) body.session_id = session.value;
      go(`#/runs/${(await send("POST", "v1/runs", body, once(body))).id}`);
    } catch (error) {
      button.disabled = false;
      if (error instanceof Unfit) tell(form, rest, [error]);
      else if (!(error instanceof Problem)) throw error;
      else tell(form, rest, error.errors.length ? error.errors : [{ path: ABOUT[error.code] ?? "", message: error.message }]);
    }
  });
  return () => leaving.abort();
}

/** @param {string} path @param {string} source */
function jsonOf(path, source) {
  try {
    return parse(source);
  } catch {
    throw new Unfit(path, "is not JSON yet");
  }
}

/** @param {string} path */
function complaint(path) {
  return h("p", { class: "wrong", "data-path": path, id: `start-wrong-${path}` });
}

/** @param {string} path of the API's field @param {string} label @param {string} id @param {HTMLElement} control @param {string | null} help */
function field(path, label, id, control, help) {
  const wrong = complaint(path);
  control.setAttribute("aria-describedby", help ? `${wrong.id} ${id}-help` : wrong.id);
  return h("div", { class: "field" },
    h("div", { class: "label-line" }, h("label", { for: id }, label), help ? h("span", { class: "soft small", id: `${id}-help` }, help) : null),
    control, wrong);
}

/**
 * Show each error next to its field, and the rest at the end.
 * @param {HTMLElement} form @param {HTMLElement} rest
 * @param {{path: string, message: string}[]} complaints Paths such as `tools.0` or `limits.max_turns`
 */
function tell(form, rest, complaints) {
  const left = [...complaints];
  let first = null;
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-path]"))) {
    const here = left.filter(({ path }) => path === place.dataset.path || path.startsWith(`${place.dataset.path}.`));
    for (const one of here) left.splice(left.indexOf(one), 1);
    fill(place, text(here.map(({ path, message }) => (path === place.dataset.path ? message : `${path}: ${message}`)).join("\n")));
    if (here.length === 0) fill(place);
    const control = /** @type {HTMLElement | null} */ (form.querySelector(`[aria-describedby~="${place.id}"]`));
    if (here.length) control?.setAttribute("aria-invalid", "true");
    else control?.removeAttribute("aria-invalid");
    if (here.length) {
      const folded = place.closest("details");
      if (folded) folded.open = true;
      first ??= control ?? place.parentElement?.querySelector("input") ?? null;
    }
  }
  fill(rest, left.length ? text(left.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join("\n")) : null);
  /** @type {HTMLElement | null} */ (first)?.focus();
}

/** @param {any} tool The name of a registered tool, or an inline definition. */
function nameOf(tool) {
  return typeof tool === "string" ? tool : tool.name;
}
