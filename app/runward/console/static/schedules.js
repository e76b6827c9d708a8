// The list of schedules, and the page of one schedule with its slots.

import { get, send } from "./api.js";
import { fill, h, note, text } from "./dom.js";
import { moment, shortId } from "./format.js";
import { action, empty, factList, lead, pagedTable, past, unloaded } from "./resources.js";
import { json } from "./values.js";

/** The label and tone of each status of a slot. @type {Record<string, [string, string]>} */
const SLOTS = { started: ["Started", "good"], skipped: ["Skipped", "soft"], failed: ["Failed", "bad"] };
/** @type {Record<string, string>} */
const OVERLAP = { skip: "Skip the slot", queue: "Start the new run later", replace: "Cancel the open run" };
/** @type {Record<string, string>} */
const MISFIRES = { skip: "Start no runs", once: "Start one run", all: "Start a run for each slot" };
/** @type {Record<string, string>} */
const SKIPPED = { overlap: "an earlier run was still open", queue_full: "the queue was full", missed: "no worker was available" };

/** @param {any} one */
function state(one) {
  if (one.last_error && one.enabled) return h("span", { class: "badge bad" }, "Failed");
  const [label, tone] = !one.enabled ? ["Paused", "soft"] : one.next_at ? ["Active", "good"] : ["Ended", "soft"];
  return h("span", { class: `badge ${tone}` }, label);
}

/** @param {any} one */
const timing = (one) => text([one.cron ?? (one.at ? moment(one.at) : `${one.after_seconds} seconds after its creation`), one.time_zone].filter(Boolean).join(" "));
/** @param {string | null} id */
const runLink = (id) => (id ? h("a", { href: `#/runs/${id}` }, shortId(id)) : h("span", { class: "soft" }, "none"));

/**
 * @param {HTMLElement} main
 * @returns {() => void} leaves the view.
 */
export function schedules(main) {
  const leaving = new AbortController();
  fill(main, h("h1", null, "Schedules"),
    lead("Schedules start runs at certain times.", "schedules"),
    pagedTable({
      path: "v1/schedules",
      caption: "Schedules, newest first",
      columns: ["Name", "State", "Time", "Next slot", "Last run"],
      row: (one) => h("tr", null,
        h("th", { scope: "row", class: "long" }, h("a", { href: `#/schedules/${one.id}` }, text(one.name))),
        h("td", null, state(one)),
        h("td", null, timing(one)),
        h("td", { "data-label": "Next slot" }, one.next_at ? moment(one.next_at) : h("span", { class: "soft" }, "none")),
        h("td", { "data-label": "Last run" }, runLink(one.last_run_id))),
      none: empty("There are no schedules.", "runward schedules create Report 'Write the report.' -a clerk --cron '0 7 * * *'"),
      signal: leaving.signal,
    }).element);
  return () => leaving.abort();
}

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function schedule(main, { id, who }) {
  const leaving = new AbortController();
  const path = `v1/schedules/${id}`;
  const crumbs = h("p", { class: "crumbs" }, h("a", { href: "#/schedules" }, "Schedules"));
  const about = h("div", { class: "calls" }, h("p", { class: "soft" }, "Loading…"));
  const slots = pagedTable({
    path: `${path}/slots`,
    caption: "Slots, newest first",
    columns: ["Slot", "Status", "Run", "Reason"],
    row: (one) => h("tr", null,
      h("th", { scope: "row" }, moment(one.at)),
      h("td", null, h("span", { class: `badge ${SLOTS[one.status]?.[1] ?? ""}` }, SLOTS[one.status]?.[0] ?? text(one.status))),
      h("td", null, runLink(one.run_id)),
      h("td", { class: "what" }, h("div", null, one.error ? text(one.error.message) : one.skip_reason ? text(SKIPPED[one.skip_reason] ?? one.skip_reason) : null))),
    none: h("p", null, "No slot has passed yet."),
    signal: leaving.signal,
  });
  fill(main, crumbs, about, h("h2", null, "Slots"), slots.element);

  const look = () => get(path, undefined, leaving.signal).then(
    (found) => fill(about, h("h1", null, text(found.name)),
      who.scopes.includes("runs:write") ? h("div", { class: "actions" }, action(found.enabled ? "Pause" : "Resume", "", async () => {
        await send("PATCH", path, { enabled: !found.enabled });
        note(found.enabled ? "The schedule was paused." : "The schedule was resumed.");
        await look();
        about.querySelector("button")?.focus();
      })) : null,
      factList([
        ["State", state(found)],
        ["Starts", found.run.agent ? h("a", { href: `#/agents/${found.run.agent}` }, text(found.run.agent)) : text([found.run.model ?? found.run.kind].flat().join(", "))],
        ["Time", timing(found)],
        ["Next slot", found.next_at ? moment(found.next_at) : "none"],
        ["Last slot", past(found.last_at)],
        ["Last run", runLink(found.last_run_id)],
        ["If a run is open", OVERLAP[found.overlap] ?? text(found.overlap)],
        ["Missed slots", MISFIRES[found.misfires] ?? text(found.misfires)],
      ]),
      found.last_error ? h("p", { class: "wrong" }, "The last slot failed: ", text(found.last_error.message)) : null,
      h("details", { class: "card" }, h("summary", null, "All fields as JSON"), json(found))),
    (error) => leaving.signal.aborted || fill(main, crumbs, unloaded("Schedule", error)));
  void look();
  return () => leaving.abort();
}
