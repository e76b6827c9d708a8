// The recent calls of a tool in all runs, with their outcome, duration and error. The list is
// polled while it is shown.

import { Problem, polling, sleep } from "./api.js";
import { fill, h, patch, text } from "./dom.js";
import { CALL_OUTCOME, CALL_PHASE, ago, duration, moment, number, shortId } from "./format.js";
import { List } from "./list.js";

const EVERY_MS = 4000;
const PAGE = 20;
const ROW_PX = 38;
const COLUMNS = ["Outcome", "Duration", "Run", "Agent", "Attempts", "Error", "Requested"];

/**
 * @param {string} name
 * @param {AbortSignal} leaving
 * @returns {HTMLElement}
 */
export function recentCalls(name, leaving) {
  const body = h("tbody");
  const lead = h("p", { class: "soft", role: "status" }, "Loading…");
  const table = h("table", { class: "runs of-calls", hidden: true },
    h("caption", { class: "hidden" }, `Calls of ${name}, newest first`),
    h("thead", null, h("tr", null, COLUMNS.map((title) => h("th", { scope: "col" }, title)))),
    body);
  const more = h("button", { type: "button", class: "quiet", hidden: true }, "Show older entries");
  let pages = 1;
  let slow = 0;
  /** @type {Map<string, any>} */
  let calls = new Map();
  /** @type {Map<string, HTMLTableRowElement>} */
  const rows = new Map();
  const get = polling();
  const spacer = () => h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length }));
  const list = new List(body, { height: ROW_PX, signal: leaving, spacer, draw: (id) => {
    const now = patch(rows.get(id), row(calls.get(id), slow));
    rows.set(id, now);
    return now;
  } });
  let waking = new AbortController();
  more.addEventListener("click", () => {
    pages += 1;
    waking.abort();
  });

  async function look() {
    /** @type {any[]} */
    const data = [];
    let page;
    do {
      page = await get(`v1/tools/${encodeURIComponent(name)}/calls`, { limit: PAGE, after: page?.last_id }, leaving);
      data.push(...page.data);
    } while (page.has_more && data.length < pages * PAGE);
    slow = number(page.summary.p95_ms) ?? 0;
    calls = new Map(data.map((call) => [call.id, call]));
    for (const id of rows.keys()) if (!calls.has(id)) rows.delete(id);
    list.show([...calls.keys()]);
    table.hidden = data.length === 0;
    more.hidden = !page.has_more;
    lead.className = "soft";
    fill(lead, sentence(page.summary));
  }

  async function watch() {
    while (!leaving.aborted) {
      waking = new AbortController();
      try {
        await look();
      } catch (error) {
        if (leaving.aborted || !(error instanceof Problem)) return;
        lead.className = "wrong";
        fill(lead, text(error.status === 403 ? "This API key cannot list calls, because it does not have the scope runs:read." : error.message));
        if (error.status === 403 || error.status === 404) return;
      }
      await sleep(EVERY_MS, AbortSignal.any([waking.signal, leaving]));
    }
  }
  void watch();
  return h("section", { class: "calls", "aria-label": "Recent calls" }, h("h2", null, "Recent calls"), lead, h("div", { class: "wide" }, table), more);
}

const FOR_PERCENTILES = 20; // calls; with fewer, a 95th percentile would be misleading

/** @param {{calls: any, failed: any, timed: any, p50_ms: any, p95_ms: any}} summary */
function sentence({ calls, failed, timed, p50_ms, p95_ms }) {
  const [of, bad, timed_, p50, p95] = [calls, failed, timed, p50_ms, p95_ms].map(number);
  if (!of) return "Runs have not called this tool yet.";
  const ended = of === 1 ? bad ? "The only call failed." : "The only call did not fail." : `${bad || "None"} of the last ${of} calls failed.`;
  if (!timed_ || p50 === null || p95 === null) return ended;
  if (timed_ === 1) return `${ended} ${of === 1 ? "It" : "The call that was sent"} took ${duration(p50)}.`;
  if (timed_ < FOR_PERCENTILES) return `${ended} 50 % of the sent calls took ${duration(p50)} or less.`;
  return `${ended} 50 % of the sent calls took ${duration(p50)} or less, and 95 % took ${duration(p95)} or less.`;
}

/** @param {any} call @param {number} slow Milliseconds that fill the bar. */
function row(call, slow) {
  const [label, tone] = CALL_OUTCOME[call.outcome] ?? CALL_PHASE[call.phase] ?? [call.phase, "soft"];
  return h("tr", null,
    h("td", { "data-label": "Outcome" }, h("span", { class: `badge ${tone}` }, label)),
    h("td", { class: "took", "data-label": "Duration" }, took(call, slow)),
    h("th", { scope: "row" }, h("a", { href: `#/runs/${call.run_id}`, "data-key": call.id }, shortId(call.run_id))),
    h("td", { "data-label": "Agent" }, call.agent ? text(call.agent) : null),
    h("td", { class: "number", "data-label": "Attempts" }, String(call.attempt)),
    h("td", { class: "what", "data-label": "Error" }, call.error ? h("div", { title: call.error.message }, h("code", null, text(call.error.code)), " ", text(call.error.message)) : null),
    h("td", { title: moment(call.created_at), "data-label": "Requested" }, ago(call.created_at, Date.now())));
}

/** Return a call's duration with a bar that compares it to the other calls. @param {any} call @param {number} slow */
function took(call, slow) {
  const ms = number(call.duration_ms);
  if (ms === null) return h("span", { class: "soft" }, "—");
  const bar = h("span", { class: `bar${ms > slow ? " over" : ""}` });
  bar.style.width = `${Math.max(2, Math.min(100, (ms / Math.max(slow, 1)) * 100))}%`;
  const bad = call.error && call.outcome !== "rejected" && call.outcome !== "cancelled";
  return h("div", { class: `latency${bad ? " bad" : ""}` }, h("span", { class: "track", "aria-hidden": "true" }, bar), h("span", { class: "number" }, duration(ms)));
}
