// The card of one approval: the arguments, their destination, the context, and the decisions.

import { Problem, send } from "./api.js";
import { inUnit } from "./budgets.js";
import { busy, choosing } from "./choosing.js";
import { editing, rejecting, rememberChoice, responding } from "./deciding.js";
import { wholeArguments, withoutArguments } from "./details.js";
import { add, fill, h, note, text } from "./dom.js";
import { removeEdit, storedEdit } from "./edits.js";
import { KEEPS_NUMBERS, isObject } from "./exact.js";
import { ago, moment, number, roughly } from "./format.js";
import { story } from "./story.js";
import { argumentRows } from "./values.js";

const EXCEED_BUDGET = "exceed_budget";
export const SOON_MS = 3_600_000;
const URGENT_MS = 600_000;

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
  const when = h("p", { class: "when" });
  const whole = wholeArguments(approval);
  const allowed = new Set(approval.allowed_decisions);
  const remembers = approval.tool !== EXCEED_BUDGET;
  const remember = rememberChoice(() => rename("approve", remember.on() ? "Approve and remember" : "Approve"));
  const { actions, panel, open, rename } = choosing(approval.id, subject(approval), [
    { label: "Approve", kind: /** @type {const} */ ("primary"), name: "approve", act: () => void decide({ decision: "approve", ...remember.read() }) },
    { label: "Reject", kind: /** @type {const} */ ("danger"), name: "reject", panel: (/** @type {HTMLElement} */ back) => rejecting(decide, remember, back) },
    { label: "Edit arguments", name: "edit", panel: (/** @type {HTMLElement} */ back) => editing(approval, whole, decide, back) },
    { label: "Respond", name: "respond", panel: (/** @type {HTMLElement} */ back) => responding(decide, back) },
  ].filter(({ name }) => allowed.has(name)), (closed) => {
    if (closed === "edit") removeEdit(approval.id);
    if (closed === "reject" && remembers) add(actions, remember.element);
  });
  if (remembers && (allowed.has("approve") || allowed.has("reject"))) add(actions, remember.element);
  if (may && allowed.has("edit") && storedEdit(approval.id)) void open("edit");

  const call = h("div", { class: "stack" },
    approval.tool === EXCEED_BUDGET ? budgetRequest(approval.arguments) : approval.url ? h("p", { class: "where" }, h("span", { class: "soft small" }, "Sent to "), h("code", { class: "url" }, text(approval.url))) : h("p", { class: "where soft" }, "Runs inside this deployment. The tool has no URL."),
    argumentRows(approval, approval.id, whole),
    KEEPS_NUMBERS ? null : h("p", { class: "wrong" }, "This browser rounds numbers with more than 15 digits. Use a newer browser to decide calls with such numbers."),
    h("details", { class: "digest", "data-key": `digest ${approval.id}` }, h("summary", null, "Digest ", h("code", null, `${approval.digest.replace("sha256:", "").slice(0, 12)}…`)), h("code", null, approval.digest)));
  const element = h("article", { class: "card approval", "aria-labelledby": title, "data-key": approval.id, tabindex: "-1" },
    h("header", { class: "card-head" },
      h("h2", { id: title, class: inRun ? "hidden" : null }, approval.tool === EXCEED_BUDGET ? "Exceed a budget?" : [text(approval.tool), h("span", { class: "soft small" }, ` version ${approval.tool_version}`)]),
      when),
    inRun ? call : h("div", { class: "card-body" }, call, story(approval)),
    may ? [actions, panel] : h("p", { class: "soft" }, "This API key cannot decide approvals. Decisions require the scope ", h("code", null, "approvals:decide"), "."));

  function tick() {
    const left = Date.parse(approval.expires_at) - Date.now();
    element.classList.toggle("soon", left < SOON_MS);
    when.className = left < SOON_MS ? "when soon" : "when";
    when.title = `Requested ${moment(approval.requested_at)}, expires ${moment(approval.expires_at)}`;
    const expires = h("span", { class: left < URGENT_MS ? "badge bad" : left < SOON_MS ? "badge warn" : null }, left > 0 ? `expires in ${roughly(left)}` : "expires now");
    fill(when, `requested ${ago(approval.requested_at, Date.now())} · `, expires);
  }

  /** @type {import("./deciding.js").Decide} */
  async function decide(body, refused) {
    const release = busy(element);
    try {
      const headers = { "Idempotency-Key": crypto.randomUUID() };
      const answer = await send("POST", `v1/approvals/${approval.id}/decision`, { digest: approval.digest, ...body }, headers);
      release();
      removeEdit(approval.id);
      decided(answer);
    } catch (error) {
      release();
      if (!(error instanceof Problem)) throw error;
      if (error.code === "approval_already_decided") decided({ ...approval, ...error.body.approval, ...(await withoutArguments(approval.id)), late: true });
      else if (error.status === 422 && refused && error.errors.length) refused(error.errors);
      else note([h("strong", null, "The decision was not stored. "), text(error.message), error.errors.map((one) => [" ", text(`${one.path} ${one.message}`), "."])], "error");
    }
  }

  tick();
  return { element, tick };
}

/** Return what an approval to exceed a budget means. @param {any} one The budget's limit, and the estimate of the request. */
function budgetRequest(one) {
  const limit = number(one.limit_tokens) ?? number(one.limit_usd) ?? 0;
  const estimate = number(one.estimate_tokens) ?? number(one.estimate_usd) ?? 0;
  return h("p", null, `The next model request of this run needs about ${inUnit(one, estimate)}. A budget of ${inUnit(one, limit)} has no room for it. If you approve, this run can exceed the budget until ${moment(one.period_ends_at)}.`);
}

const SUBJECT_CHARACTERS = 60;

/** Return a call's name for screen readers: the tool and its first short arguments. @param {any} approval */
function subject(approval) {
  const values = isObject(approval.arguments) ? Object.values(approval.arguments) : [];
  const short = values.map((value) => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""))).filter((value) => value.length > 0 && value.length < SUBJECT_CHARACTERS / 2);
  return `${approval.tool} ${short.join(", ")}`.slice(0, SUBJECT_CHARACTERS).trim();
}
