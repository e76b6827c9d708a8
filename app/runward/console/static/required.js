// Required actions other than approvals: an unknown outcome to resolve, the result of a client tool,
// or the answer to a tool's request for input. Each entry of `required_actions` is a card with the
// form that settles it.

import { Problem, send } from "./api.js";
import { answerField, wordsField } from "./answer.js";
import { busy, choosing } from "./choosing.js";
import { fill, h, note, text } from "./dom.js";
import { answering, declining, questionTexts, questionsOf } from "./elicited.js";
import { wholeArguments } from "./details.js";
import { argumentRows, words } from "./values.js";

/** The title, the lead text, and the required scope of each type.
 * @type {Record<string, {title: string, lead: string, scope: string}>} */
const TYPES = {
  resolve: { title: "Outcome unknown", lead: "Runward sent the call, but received no complete response. The call may or may not have taken effect. Check the system that the tool changes, then record the outcome.", scope: "approvals:decide" },
  tool_result: { title: "Result required", lead: "The client that started the run executes this tool. If the client cannot, you can submit the result here.", scope: "runs:write" },
  asks: { title: "Input required", lead: "The tool needs an answer before it can continue.", scope: "runs:write" },
};

/** @param {any} action @returns {keyof typeof TYPES} */
const typeOf = (action) => (action.type === "tool_result" && action.requests !== null && action.requests !== undefined ? "asks" : action.type);

/**
 * @param {any} action An entry of `required_actions` whose type is `resolve` or `tool_result`.
 * @param {object} options
 * @param {string} options.runId The displayed run. If the action has its own `run_id`, that one is used.
 * @param {string[]} options.may The scopes of the key that is signed in.
 * @param {(call: any) => void} options.done Called with the call from the tool-call log after it is settled.
 * @returns {HTMLElement} A section. It has no buttons if the key lacks the scope.
 */
export function requiredAction(action, { runId, may, done }) {
  const type = typeOf(action);
  const { title, lead, scope } = TYPES[type];
  const run = action.run_id ?? runId;
  const path = `v1/runs/${run}/tool_calls/${encodeURIComponent(action.call_id)}`;
  const wrong = h("p", { class: "wrong", role: "alert" });
  /** @type {HTMLElement} */
  let element;

  /** @param {string} to @param {any} body */
  async function settle(to, body) {
    const release = busy(element);
    fill(wrong);
    try {
      done(await send("POST", `${path}/${to}`, body, { "Idempotency-Key": crypto.randomUUID() }));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      fill(wrong, text(error.message), error.errors.map((one) => [" ", text(one.message)]));
      note([h("strong", null, "The result was not stored. "), text(error.message)], "error");
    } finally {
      release();
    }
  }

  /** Return a panel to enter a result. @param {string} label @param {string} help @param {string} go @param {(output: any) => void} give */
  const output = (label, help, go, give) => (/** @type {HTMLElement} */ back) => {
    const field = answerField(label, help);
    const button = h("button", { type: "button", class: "primary" }, go);
    button.addEventListener("click", () => {
      const read = field.read();
      if (read) give(read.output);
    });
    return [field.element, h("div", { class: "actions" }, button, back)];
  };
  /** Return a panel to enter an error message. @param {string} label @param {(message: string) => void} give */
  const failure = (label, give) => (/** @type {HTMLElement} */ back) => {
    const field = wordsField(label, "the model receives this text", 3);
    const button = h("button", { type: "button", class: "primary danger" }, "Report a failure");
    button.addEventListener("click", () => give(field.read()));
    return [field.element, h("div", { class: "actions" }, button, back)];
  };

  const questions = questionsOf(action.requests);
  const decline = (/** @type {HTMLElement} */ back) => {
    const button = h("button", { type: "button", class: "primary danger" }, "Decline");
    button.addEventListener("click", () => void settle("result", { output: declining(questions ?? []) }));
    return [h("p", null, "Runward tells the tool that you declined. The call continues without the answer."), h("div", { class: "actions" }, button, back)];
  };

  const ways = {
    resolve: [
      { name: "done", label: "The call took effect", panel: output("Output of the call", "the model receives this output as the result of the call", "Record as completed", (value) => void settle("resolve", { resolution: "completed", output: value })) },
      { name: "failed", label: "The call failed", kind: /** @type {const} */ ("danger"), panel: failure("Error message", (message) => void settle("resolve", { resolution: "failed", message })) },
      { name: "retry", label: "Send again", panel: (/** @type {HTMLElement} */ back) => {
        const button = h("button", { type: "button", class: "primary danger" }, "Send the call again");
        button.addEventListener("click", () => void settle("resolve", { resolution: "retry" }));
        return [h("p", null, "Send the call again only if you know that the first call did not take effect. Otherwise, the effect happens twice."), h("div", { class: "actions" }, button, back)];
      } },
    ],
    tool_result: [
      { name: "result", label: "Submit the result", panel: output("The result", "the model receives this result", "Send this result", (value) => void settle("result", { output: value })) },
      { name: "error", label: "Report a failure", kind: /** @type {const} */ ("danger"), panel: failure("Error message", (message) => void settle("result", { error: message || "The client could not run the tool." })) },
    ],
    asks: questions ? [
      { name: "answer", label: "Answer", panel: answering(questions, (value) => void settle("result", { output: value })) },
      { name: "decline", label: "Decline", kind: /** @type {const} */ ("danger"), panel: decline },
    ] : [
      { name: "answer", label: "Answer", panel: output("The answer", "the tool receives this answer", "Send the answer", (value) => void settle("result", { output: value })) },
      { name: "error", label: "Report a failure", kind: /** @type {const} */ ("danger"), panel: failure("Reason for the missing answer", (message) => void settle("result", { error: message || "The tool's request for input was not answered." })) },
    ],
  }[/** @type {"resolve" | "tool_result" | "asks"} */ (type)];
  const key = `${run} ${action.call_id}`;
  const allowed = may.includes(scope);
  const { actions, panel } = choosing(key, action.tool, ways);
  element = h("section", { class: "required", "aria-label": `${title}: ${action.tool}`, "data-key": `required ${key}` },
    h("p", null, h("strong", null, title), h("span", { class: "soft" }, ". ", lead)),
    type === "asks" ? [h("h3", null, "Input that the tool requests"), questions ? questionTexts(questions) : words(action.requests, `asks ${key}`)] : null,
    h("div", null, h("h3", null, "Arguments"), action.arguments === null ? h("p", { class: "soft" }, "This API key cannot read the arguments. To read arguments, a key requires the scope ", h("code", null, "runs:read"), ".") : argumentRows(action, `required ${key}`, wholeArguments(action))),
    allowed ? [actions, wrong, panel] : h("p", { class: "soft" }, "To submit a result, an API key requires the scope ", h("code", null, scope), "."));
  return element;
}
