// The outcome of a run: its result, its usage, and the possible next steps.

import { Problem, onceOnly, send } from "./api.js";
import { answerView } from "./content.js";
import { fill, h, note, text } from "./dom.js";
import { RUN_STATUS, count, duration, spentOn } from "./format.js";
import { OVER } from "./timeline.js";

/** Advice by the code of an error or the reason of an incomplete run.
 * @type {Record<string, string>} */
const ADVICE = {
  unknown_model: "Write the model as provider:name. The deployment or the project must have a key for this provider.",
  unknown_price: "Start the run again without max_cost_usd, or ask the operator to set a price for the model in RUNWARD_MODEL_PRICES.",
  model_not_found: "The provider has no model with this name. Correct the name, then start the run again.",
  model_misconfigured: "The provider's key or address is missing. The operator must set the missing value.",
  model_unauthorized: "The provider rejects the key. The operator must replace the key.",
  model_rate_limited: "The provider limits the number of requests. Start the run again later, or add a fallback model.",
  model_unavailable: "The provider failed in every attempt. Start the run again later, or add a fallback model.",
  model_unreachable: "The provider could not be reached. Check the address and the network, then start the run again.",
  model_timeout: "The model did not respond in time. Start the run again, or increase the model setting timeout_seconds.",
  model_stream_broken: "The provider's response was interrupted in every attempt. Start the run again.",
  model_refused_request: "The provider rejected the request. Correct the problem in the message above, then start the run again.",
  hook_failed: "A hook did not return a valid response. Check the log of the hook's service, then start the run again.",
  guardrail: "A guardrail stopped the run. Change the input or the guardrail.",
  step_failed: "One of the workflow's agents failed. Open the failed run above to see the error.",
  refusal: "The model refused to answer. Change the input, then start the run again.",
  output_schema: "The output did not match the schema, even after retries. Simplify the schema, or increase output_retries.",
  repeated_calls: "The model repeated the same call. Change the instructions of the agent or the results of the tool.",
  max_turns: "Continue the run with more turns, or increase the limit max_turns and start the run again.",
  max_tool_calls: "Continue the run, or increase the limit max_tool_calls and start the run again.",
  max_tokens: "Increase the limit max_tokens, then start the run again.",
  max_cost_usd: "Increase the limit max_cost_usd, then start the run again.",
  deadline: "Continue the run, or increase the limit deadline_seconds and start the run again.",
};

/**
 * @param {import("./timeline.js").Line} line
 * @param {any} run The run from the API. Null until it is loaded.
 * @param {boolean} mayWrite
 * @param {(to: string) => void} go
 */
export function outcome(line, run, mayWrite, go) {
  if (!OVER.has(line.status)) return [];
  const [label, tone] = RUN_STATUS[line.status];
  const why = line.end?.error ?? line.end?.incomplete_details ?? run?.error ?? run?.incomplete_details;
  const code = why?.code ?? why?.reason;
  const output = run?.erased_at ? null : (run?.output ?? line.end?.output ?? null);
  const continues = line.status === "incomplete" && mayWrite && run && !run.parent_run_id && !run.erased_at;
  return [h("div", { class: `outcome ${tone}` },
    h("div", { class: "outcome-head" }, h("h2", null, label), h("p", { class: "small figures" }, figures(line, run)), output === null ? null : copying(output)),
    why ? h("p", { class: "reason" }, text(why.message ?? ""), " ", h("code", { class: "soft" }, text(code))) : null,
    ADVICE[code] ? h("p", { class: "advice" }, h("strong", null, "What to do: "), ADVICE[code]) : null,
    output === null ? null : h("div", { class: "output" }, answerView(output, run?.output_parsed ?? null)),
    continues ? continuing(line.id, go) : null)];
}

/** @param {import("./timeline.js").Line} line @param {any} run */
function figures(line, run) {
  const turns = run?.turn ?? line.done;
  const calls = line.entries.filter((one) => one.kind === "call").length;
  const usage = run?.usage ?? line.usage;
  return [
    `${duration((line.to ?? 0) - (line.from ?? 0))}`, `${turns} ${turns === 1 ? "turn" : "turns"}`, `${calls} ${calls === 1 ? "call" : "calls"}`,
    ...(Number(usage?.total_tokens) ? [`${count(usage.total_tokens)} tokens`, spentOn(usage, run?.model)] : []),
  ].join(" · ");
}

/** @param {any} output */
function copying(output) {
  const button = h("button", { type: "button", class: "quiet small", "data-key": "copy output" }, "Copy");
  button.addEventListener("click", () => navigator.clipboard.writeText(typeof output === "string" ? output : JSON.stringify(output, null, 2)).then(() => note("Copied."), () => note("The browser did not allow the console to copy the text.", "error")));
  return button;
}

/** Return a form that creates a run which continues this one. @param {string} id @param {(to: string) => void} go */
function continuing(id, go) {
  const turns = h("input", { id: "continue-turns", type: "text", inputmode: "numeric", "data-key": "continue turns", placeholder: "the same number as this run", autocomplete: "off" });
  const input = h("textarea", { id: "continue-input", rows: "2", "data-key": "continue input" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Continue");
  const once = onceOnly();
  const form = h("form", { class: "form continue" },
    h("p", { class: "soft small" }, "This starts a new run with the conversation and the tool results of this run."),
    h("div", { class: "pair" },
      h("div", { class: "field" }, h("label", { for: "continue-turns" }, "More turns ", h("span", { class: "soft" }, "optional")), turns),
      h("div", { class: "field" }, h("label", { for: "continue-input" }, "Message ", h("span", { class: "soft" }, "optional")), input)),
    wrong, h("div", { class: "actions" }, button));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fill(wrong);
    const asked = turns.value.trim();
    if (asked && !/^\d+$/.test(asked)) {
      fill(wrong, "Enter a number of turns from 1 to 50.");
      turns.focus();
      return;
    }
    const body = { ...(asked && { max_turns: Number(asked) }), ...(input.value.trim() && { input: input.value.trim() }) };
    button.disabled = true;
    try {
      go(`#/runs/${(await send("POST", `v1/runs/${id}/continue`, body, once(body))).id}`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      button.disabled = false;
      fill(wrong, text([error.message, ...error.errors.map(({ path, message }) => `${path} ${message}`)].join("\n")));
    }
  });
  return form;
}
