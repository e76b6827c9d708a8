// The panels that an approval's buttons open: a reason, edited arguments with their differences, or a
// result instead of the tool's; and the scope of the decision.

import { answerField, wordsField } from "./answer.js";
import { fill, h, text } from "./dom.js";
import { removeEdit, storeEdit, storedEdit } from "./edits.js";
import { alike, differences } from "./exact.js";
import { form } from "./form.js";
import { toolOf } from "./inline.js";
import { one } from "./values.js";

const CONTEXT_CHARACTERS = 30;
const IN_PLACE_CHARACTERS = 40;

/** @typedef {(body: any, refused?: (errors: {path: string, message: string}[]) => void) => void} Decide */

/**
 * Return the field for the scope of an approval or a rejection.
 * @param {() => void} changed
 */
export function rememberChoice(changed) {
  const option = (/** @type {string} */ value, /** @type {string} */ said) => h("option", { value }, said);
  const scope = h("select", { "aria-label": "Scope of the decision", class: "small" },
    option("", "For this call only"), option("run", "Also for later calls in this run"), option("session", "Also for later runs of the session"));
  const time = h("select", { "aria-label": "How long to remember the decision", class: "small" },
    option("", "without a limit"), option("3600", "for an hour"), option("86400", "for a day"), option("604800", "for a week"));
  const exact = h("input", { type: "checkbox" });
  const only = h("span", { class: "remember-more", hidden: true }, h("label", { class: "switch small" }, exact, "only with these arguments"), time);
  scope.addEventListener("change", () => {
    only.hidden = !scope.value;
    changed();
  });
  return {
    element: h("div", { class: "remember" }, scope, only),
    /** @returns {boolean} */
    on: () => scope.value !== "",
    read: () => (scope.value ? { remember: { scope: scope.value, exact_arguments: exact.checked, ...(time.value && { expires_seconds: Number(time.value) }) } } : {}),
  };
}

/** @param {Decide} decide @param {ReturnType<typeof rememberChoice>} remember @param {HTMLElement} back */
export function rejecting(decide, remember, back) {
  const reason = wordsField("Reason", "optional; the model reads it", 3);
  const go = h("button", { type: "button", class: "primary danger" }, "Reject the call");
  go.addEventListener("click", () => decide({ decision: "reject", ...(reason.read() && { message: reason.read() }), ...remember.read() }));
  return [reason.element, remember.element, h("div", { class: "actions" }, go, back)];
}

/** @param {Decide} decide @param {HTMLElement} back */
export function responding(decide, back) {
  const field = answerField("Result for the model", "the model receives this result instead; the tool is not called");
  const go = h("button", { type: "button", class: "primary" }, "Send this result");
  go.addEventListener("click", () => {
    const read = field.read();
    if (read) decide({ decision: "respond", output: read.output });
  });
  return [field.element, h("div", { class: "actions" }, go, back)];
}

/**
 * @param {any} approval
 * @param {() => Promise<any>} whole Loads all arguments.
 * @param {Decide} decide
 * @param {HTMLElement} back
 * @returns {Promise<HTMLElement[]>}
 */
export async function editing(approval, whole, decide, back) {
  const [tool, before] = await Promise.all([toolOf(approval).catch(() => null), whole().catch(() => null)]);
  if (before === null) return [h("p", { class: "wrong" }, "The arguments could not be loaded. Go back and try again."), h("div", { class: "actions" }, back)];
  const why = tool === undefined ? "There is no form because the tool has changed since the call was requested." : tool ? null : "There is no form because this key cannot read the tool's schema.";
  const changes = h("div", { class: "changes", role: "status" });
  const go = h("button", { type: "button", class: "primary" }, "Approve with changes");
  const note = wordsField("Note", "optional; stored with the decision", 1);
  const stored = storedEdit(approval.id);
  note.write(stored?.message ?? "");
  /** @type {any} */
  let edited;
  const store = () => edited !== undefined && storeEdit(approval.id, { arguments: edited, message: note.read() });
  const made = form(tool?.parameters ?? null, stored?.arguments ?? before, (value) => {
    edited = value;
    const changed = value === undefined ? [] : differences(before, value);
    go.disabled = changed.length === 0;
    fill(changes, value === undefined ? h("p", { class: "soft" }, "Fix the highlighted fields.") : changed.length ? changed.map(change) : h("p", { class: "soft" }, "No changes yet."));
    if (changed.length) store();
    else if (value !== undefined) removeEdit(approval.id);
  });
  note.element.addEventListener("input", store);
  go.addEventListener("click", () => decide({ decision: "edit", arguments: edited, ...(note.read() && { message: note.read() }) }, made.refused));
  made.look();
  return [
    h("div", { class: "editing" },
      h("div", { class: "stack" }, why ? h("p", { class: "soft" }, why) : null, made.element),
      h("div", { class: "stack aside" }, h("h3", null, "Changes"), changes, note.element,
        h("p", { class: "soft small" }, "An edit applies to this call only."), h("div", { class: "actions" }, go, back))),
  ];
}

/** @param {[string, any, any]} difference */
function change([path, before, after]) {
  const name = h("code", null, text(path || "arguments"));
  const inPlace = typeof before === "string" && typeof after === "string" && Math.min(before.length, after.length) > IN_PLACE_CHARACTERS ? within(before, after) : null;
  if (inPlace) return h("div", { class: "change" }, name, inPlace);
  const side = (/** @type {"del" | "ins"} */ tag, /** @type {any} */ value) =>
    value === undefined ? h("span", { class: "soft" }, tag === "del" ? "not there" : "left out") : h(tag, null, one(value, `${tag} ${path}`));
  return h("div", { class: "change" }, name, side("del", before), h("span", { class: "soft", "aria-hidden": "true" }, "→"), side("ins", after));
}

/** Return the changed part of a long text, with a little of the text around it. @param {string} before @param {string} after */
function within(before, after) {
  const [a, b] = [Array.from(before), Array.from(after)];
  const { start, end } = alike(a, b, (x, y) => x === y);
  const head = a.slice(0, start).slice(-CONTEXT_CHARACTERS).join("");
  const tail = end ? a.slice(-end).slice(0, CONTEXT_CHARACTERS).join("") : "";
  const middle = (/** @type {string[]} */ characters) => characters.slice(start, characters.length - end).join("");
  return h("span", { class: "words" }, start > CONTEXT_CHARACTERS ? "…" : null, text(head),
    middle(a) ? h("del", null, text(middle(a))) : null, middle(b) ? h("ins", null, text(middle(b))) : null,
    text(tail), end > CONTEXT_CHARACTERS ? "…" : null);
}
