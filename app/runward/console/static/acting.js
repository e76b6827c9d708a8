// The actions on an open run: cancel it, or send it a message.

import { Problem, onceOnly, send } from "./api.js";
import { fill, h, note, text } from "./dom.js";

/**
 * @param {Promise<any>} asked
 * @param {string} said The notice after a success.
 * @returns {Promise<any>} null if the request failed. A notice shows the error.
 */
async function tell(asked, said) {
  try {
    const answer = await asked;
    note(said);
    return answer;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    note([h("strong", null, "The request failed. "), text(error.message)], "error");
    return null;
  }
}

/**
 * Return the controls that cancel a run in two steps: the effect is explained before the confirmation.
 * @param {string} id of a run
 * @param {() => void} done
 */
export function cancelling(id, done) {
  const opener = h("button", { type: "button", class: "danger", "aria-expanded": "false", "data-key": "cancel" }, "Cancel…");
  const now = h("button", { type: "button", class: "danger" }, "Cancel now");
  const after = h("button", { type: "button" }, "Stop after this turn");
  const back = h("button", { type: "button", class: "quiet" }, "Back");
  const panel = h("div", { class: "cancel card", role: "group", "aria-label": "Cancel the run", hidden: true },
    h("p", { class: "small" }, h("strong", null, "Now: "), "the run ends at once. Calls in progress are recorded as cancelled, although they may have taken effect."),
    h("p", { class: "small" }, h("strong", null, "After this turn: "), "the current model response and its started calls are finished first."),
    h("div", { class: "actions" }, now, after, back));
  const open = (/** @type {boolean} */ shown) => {
    panel.hidden = !shown;
    opener.setAttribute("aria-expanded", String(shown));
    (shown ? back : opener).focus();
  };
  opener.addEventListener("click", () => open(Boolean(panel.hidden)));
  back.addEventListener("click", () => open(false));
  panel.addEventListener("keydown", (event) => event.key === "Escape" && open(false));
  /** @param {"immediate" | "after_turn"} mode @param {string} said */
  const cancel = async (mode, said) => {
    if ((await tell(send("POST", `v1/runs/${id}/cancel`, { mode }), said)) === null) return;
    open(false);
    done();
  };
  now.addEventListener("click", () => void cancel("immediate", "The run was cancelled."));
  after.addEventListener("click", () => void cancel("after_turn", "The run stops after this turn."));
  return { opener, panel };
}

/**
 * Return a field for a message to the run. Ctrl+Enter sends it.
 * @param {string} id of a run
 */
export function saying(id) {
  const field = h("textarea", { id: "more-input", rows: "2", "data-key": "more-input", "aria-describedby": "more-input-help" });
  const button = h("button", { type: "submit" }, "Send");
  const once = onceOnly();
  const form = h("form", { class: "saying form", "aria-label": "Send a message to the run" },
    h("label", { for: "more-input" }, "Send a message to the run"), field,
    h("div", { class: "actions" }, button, h("span", { class: "soft small", id: "more-input-help" }, "The model reads the message in its next turn. Press Ctrl+Enter to send.")));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = { input: field.value.trim() };
    if (!body.input || button.disabled) return;
    button.disabled = true;
    const sent = await tell(send("POST", `v1/runs/${id}/input`, body, once(body)), "The message was sent. The model reads it in its next turn.");
    button.disabled = false;
    if (sent === null) return;
    field.value = "";
    once.again();
  });
  return form;
}

/** @param {string} id of a run that has ended */
export function runAgain(id) {
  return h("a", { class: "button", href: `#/start?from=${id}`, "data-key": "run again" }, "Run again with changes");
}

/** Fill a place, but only when its key changes. @param {HTMLElement} place @param {string} key @param {() => any} content */
export function when(place, key, content) {
  if (place.dataset.now === key) return;
  place.dataset.now = key;
  fill(place, content());
}
