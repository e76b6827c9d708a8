// One approval as a card: what would be sent, where to, and why; and the ways to decide.

import { Problem, get, send } from "./api.js";
import { add, fill, h, note, text } from "./dom.js";
import { KEEPS_NUMBERS, differences } from "./exact.js";
import { form } from "./form.js";
import { ago, moment, roughly, shortId } from "./format.js";
import { json, one, rows, words } from "./values.js";

const SOON_MS = 3_600_000;
const LABELS = /** @type {const} */ ({ approve: "Approve", reject: "Reject", edit: "Edit arguments", respond: "Respond" });

/**
 * @typedef {object} Card
 * @property {HTMLElement} element
 * @property {() => void} tick Writes the times again.
 */

/**
 * @param {any} approval
 * @param {{inRun?: boolean, may: boolean, decided: (approval: any) => void}} options `may`: this key may decide.
 * @returns {Card}
 */
export function approvalCard(approval, { inRun = false, may, decided }) {
  const title = `t-${approval.id}`;
  const when = h("span", { class: "when" });
  const panel = h("div", { class: "panel", hidden: true });
  const actions = h("div", { class: "actions" });
  const remember = rememberChoice();
  const element = h(
    "article",
    { class: "card approval", "aria-labelledby": title, "data-key": approval.id },
    h("header", { class: "card-head" },
      h("h2", { id: title, class: inRun ? "hidden" : null }, text(approval.tool), h("span", { class: "soft small" }, ` version ${approval.tool_version}`)),
      inRun ? where(approval, inRun) : null,
      when),
    inRun ? null : where(approval, inRun),
    h("div", null, rows(approval.arguments, approval.id), exactness()),
    inRun ? null : story(approval),
    may ? [actions, panel] : h("p", { class: "soft" }, "This key may look, not decide."),
    h("footer", { class: "small soft" }, "Digest ", h("code", { class: "digest" }, approval.digest)),
  );

  function tick() {
    const left = Date.parse(approval.expires_at) - Date.now();
    when.className = left < SOON_MS ? "when soon" : "when";
    when.title = `Asked ${moment(approval.requested_at)}, expires ${moment(approval.expires_at)}`;
    fill(when, `asked ${ago(approval.requested_at, Date.now())} · ${left > 0 ? `expires in ${roughly(left)}` : "expires now"}`);
  }

  /** @param {any} body @param {((errors: {path: string, message: string}[]) => void)} [refused] */
  async function decide(body, refused) {
    const all = /** @type {HTMLButtonElement[]} */ ([...element.querySelectorAll("button")]);
    all.forEach((button) => (button.disabled = true));
    try {
      const headers = { "Idempotency-Key": crypto.randomUUID() };
      decided(await send("POST", `v1/approvals/${approval.id}/decision`, { digest: approval.digest, ...body }, headers));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      all.forEach((button) => (button.disabled = false));
      if (error.status === 422 && refused && error.errors.length) refused(error.errors);
      else if (error.code === "approval_already_decided") decided(await get(`v1/approvals/${approval.id}`));
      else note([h("strong", null, "Not decided. "), text(error.message)], "error");
    }
  }

  /** @param {HTMLElement} opener @param {HTMLElement[]} content */
  function open(opener, ...content) {
    for (const button of actions.querySelectorAll("button")) button.setAttribute("aria-expanded", "false");
    opener.setAttribute("aria-expanded", "true");
    panel.hidden = false;
    fill(panel, content);
    /** @type {HTMLElement | null} */ (panel.querySelector("textarea, input, select"))?.focus();
  }

  function close() {
    panel.hidden = true;
    fill(panel);
    for (const button of actions.querySelectorAll("[aria-expanded]")) button.setAttribute("aria-expanded", "false");
    actions.querySelector("button")?.focus();
  }

  const cancel = () => h("button", { type: "button", class: "quiet", onclick: close }, "Back");

  /** @type {Record<string, (button: HTMLElement) => void>} */
  const act = {
    approve: () => void decide({ decision: "approve", ...remember.read() }),
    reject: (button) => open(button, ...rejecting((message) => decide({ decision: "reject", ...message, ...remember.read() }), cancel())),
    edit: (button) => void editing(approval, decide, cancel()).then((content) => open(button, ...content)),
    respond: (button) => open(button, ...responding(decide, cancel())),
  };
  for (const name of /** @type {(keyof typeof LABELS)[]} */ (["approve", "reject", "edit", "respond"])) {
    if (!approval.allowed_decisions.includes(name)) continue;
    const kind = name === "approve" ? "primary" : name === "reject" ? "danger" : "";
    const button = h("button", { type: "button", class: kind, "data-key": `${approval.id} ${name}` }, LABELS[name]);
    button.addEventListener("click", () => act[name](button));
    if (name !== "approve") button.setAttribute("aria-expanded", "false");
    add(actions, button);
  }
  add(actions, remember.element);
  tick();
  return { element, tick };
}

/** @param {any} approval @param {boolean} inRun */
function where(approval, inRun) {
  const path = [...approval.path];
  if (approval.agent && path.at(-1) !== approval.agent) path.push(approval.agent);
  const by = path.length ? ["Asked by ", path.flatMap((name, at) => (at ? [" › ", text(name)] : [text(name)]))] : ["Asked by an inline run"];
  return h("div", { class: "where" },
    approval.url ? h("code", { class: "url" }, text(approval.url)) : h("span", { class: "soft" }, "Runs in this installation, at no address"),
    inRun ? null : h("p", { class: "soft small" }, by, " in ", h("a", { href: `#/runs/${approval.run_id}` }, shortId(approval.run_id))));
}

function exactness() {
  return KEEPS_NUMBERS ? null : h("p", { class: "wrong" }, "This browser rounds numbers of more than 15 digits. Use a newer one to decide about those.");
}

/**
 * What led to it: the run's input at once, the rest of the conversation on demand.
 * @param {any} approval
 */
function story(approval) {
  const input = h("div", { class: "soft" }, "…");
  const items = h("div", { class: "conversation" });
  const details = h("details", { "data-key": `story ${approval.id}` }, h("summary", null, "The conversation so far"), items);
  const about = h("p", { class: "soft small" });
  const path = `v1/runs/${approval.run_id}`;
  void Promise.all([get(path), get(`${path}/items`, { limit: 20 })]).then(
    ([run, page]) => {
      const asked = page.data.findLast((/** @type {any} */ item) => item.role === "user" && item.turn === 0);
      input.className = "";
      fill(input, asked ? content(asked, `${approval.id} input`) : "No input");
      const metadata = Object.keys(run.metadata).length ? [" · ", text(JSON.stringify(run.metadata))] : [];
      fill(about, `Run ${shortId(run.id)}, started ${ago(run.created_at, Date.now())}`, metadata);
    },
    () => fill(input, "This key may not read runs."),
  );
  details.addEventListener("toggle", async () => {
    if (!details.open || items.childElementCount) return;
    const page = await get(`${path}/items`, { limit: 200 }).catch(() => ({ data: [] }));
    fill(items, page.data.map(item));
  });
  return h("div", { class: "story" }, h("h3", null, "The run was asked"), input, about, details);
}

/** @param {any} one_ @param {string} key */
function content(one_, key) {
  if (typeof one_.content === "string") return words(one_.content, key);
  return h("div", null, one_.content.map((/** @type {any} */ part, /** @type {number} */ at) => (part.type === "text" ? words(part.text, `${key} ${at}`) : json(part))));
}

/** @param {any} item_ */
export function item(item_) {
  const who = item_.role ?? { tool_call: "calls", tool_result: "result" }[/** @type {string} */ (item_.type)] ?? item_.type;
  const { id, agent, turn, native, type, ...rest } = item_;
  return h("div", { class: `item ${item_.role ?? type}` }, h("p", { class: "soft small item-who" }, text(who), agent ? [" · ", text(agent)] : null, turn ? ` · turn ${turn}` : null), item_.content === undefined ? rows(rest, id) : content(item_, id));
}

function rememberChoice() {
  const scope = h("select", { "aria-label": "How far the decision counts", class: "small" },
    h("option", { value: "" }, "Decide this call only"),
    h("option", { value: "run" }, "… and this run's later ones"),
    h("option", { value: "session" }, "… and its session's later runs"));
  const exact = h("input", { type: "checkbox" });
  const only = h("label", { class: "switch small", hidden: true }, exact, " only with these arguments");
  scope.addEventListener("change", () => (only.hidden = !scope.value));
  return {
    element: h("div", { class: "remember" }, scope, only),
    read: () => (scope.value ? { remember: { scope: scope.value, exact_arguments: exact.checked } } : {}),
  };
}

/** @param {(message: any) => void} send_ @param {HTMLElement} back */
function rejecting(send_, back) {
  const reason = h("textarea", { rows: "3", maxlength: "4096", id: "reason" });
  const go = h("button", { type: "button", class: "danger" }, "Reject the call");
  go.addEventListener("click", () => send_(reason.value.trim() ? { message: reason.value.trim() } : {}));
  return [h("label", { for: "reason" }, "Reason ", h("span", { class: "soft" }, "optional; the model reads it")), reason, h("div", { class: "actions" }, go, back)];
}

/** @param {(body: any) => void} decide @param {HTMLElement} back */
function responding(decide, back) {
  const output = h("textarea", { rows: "4", id: "output" });
  const go = h("button", { type: "button", class: "primary" }, "Give this as the result");
  go.addEventListener("click", () => decide({ decision: "respond", output: output.value }));
  return [h("label", { for: "output" }, "What the model reads in the tool's place ", h("span", { class: "soft" }, "the tool is not called")), output, h("div", { class: "actions" }, go, back)];
}

/**
 * @param {any} approval
 * @param {(body: any, refused: (errors: any[]) => void) => void} decide
 * @param {HTMLElement} back
 * @returns {Promise<HTMLElement[]>}
 */
async function editing(approval, decide, back) {
  const tool = await get(`v1/tools/${encodeURIComponent(approval.tool)}`).catch(() => null);
  const current = tool?.version === approval.tool_version;
  const changes = h("div", { class: "changes", "aria-live": "polite" });
  const go = h("button", { type: "button", class: "primary", disabled: true }, "Send with these arguments");
  /** @type {any} */
  let edited;
  const made = form(current ? tool.parameters : null, approval.arguments, (value) => {
    edited = value;
    const changed = value === undefined ? [] : differences(approval.arguments, value);
    go.disabled = changed.length === 0;
    fill(changes, value === undefined ? h("p", { class: "soft" }, "First mend what is marked above.") : changed.length ? changed.map(change) : h("p", { class: "soft" }, "Nothing is changed yet."));
  });
  const message = h("input", { type: "text", id: "message", maxlength: "4096" });
  go.addEventListener("click", () => decide({ decision: "edit", arguments: edited, ...(message.value.trim() && { message: message.value.trim() }) }, made.refused));
  const why = tool && !current ? "The tool has changed since it was asked, so there is no form." : tool ? null : "The tool's schema cannot be read with this key, so there is no form.";
  return [
    why ? h("p", { class: "soft" }, why) : h("div", { hidden: true }),
    made.element,
    h("h3", null, "What changes"),
    changes,
    h("label", { for: "message" }, "Note ", h("span", { class: "soft" }, "optional; the model reads it")),
    message,
    h("div", { class: "actions" }, go, back),
  ];
}

/** @param {[string, any, any]} difference */
function change([path, before, after]) {
  const side = (/** @type {string} */ tag, /** @type {any} */ value) =>
    value === undefined ? h("span", { class: "soft" }, tag === "del" ? "not there" : "removed") : h(/** @type {"del" | "ins"} */ (tag), null, one(value, `${tag} ${path}`));
  return h("div", { class: "change" }, h("code", null, text(path || "arguments")), side("del", before), h("span", { class: "soft", "aria-hidden": "true" }, "→"), side("ins", after));
}
