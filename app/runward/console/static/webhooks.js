// The list of webhook endpoints, and the page of one endpoint with its deliveries.

import { get, send } from "./api.js";
import { fill, h, note, text } from "./dom.js";
import { duration, moment, number, shortId } from "./format.js";
import { action, empty, factList, lead, pagedTable, past, unloaded } from "./resources.js";
import { json } from "./values.js";

/** The label and tone of each status of a delivery. @type {Record<string, [string, string]>} */
const DELIVERIES = { pending: ["Pending", "busy"], delivered: ["Delivered", "good"], failed: ["Failed", "bad"] };
/** @type {Record<string, string>} */
const DISABLED = { gone: "The endpoint responded with status 410.", failing: "All attempts of three days failed." };

/** @param {any} one */
function state(one) {
  const [label, tone] = !one.enabled ? ["Disabled", "soft"] : one.failing_since ? ["Failing", "bad"] : ["Enabled", "good"];
  return h("span", { class: `badge ${tone}` }, label);
}

/** @param {any} one */
const status = (one) => h("span", { class: `badge ${DELIVERIES[one.status]?.[1] ?? ""}` }, DELIVERIES[one.status]?.[0] ?? text(one.status));

/**
 * @param {HTMLElement} main
 * @returns {() => void} leaves the view.
 */
export function webhookEndpoints(main) {
  const leaving = new AbortController();
  /** @param {any} one */
  const row = (one) => {
    const last = h("td", { "data-label": "Last delivery" });
    get("v1/webhook_deliveries", { webhook_endpoint_id: one.id, limit: 1 }, leaving.signal).then(
      ({ data: [newest] }) => fill(last, newest ? [status(newest), " ", past(newest.created_at)] : h("span", { class: "soft" }, "none")),
      (error) => leaving.signal.aborted || fill(last, text(error.message)));
    return h("tr", null,
      h("th", { scope: "row", class: "long" }, h("a", { href: `#/webhook-endpoints/${one.id}` }, text(one.url))),
      h("td", null, state(one)),
      h("td", { class: "long", "data-label": "Events" }, text(one.events.join(", "))),
      last);
  };
  fill(main, h("h1", null, "Webhook endpoints"),
    lead("Runward notifies webhook endpoints of the events of runs.", "webhooks"),
    pagedTable({
      path: "v1/webhook_endpoints",
      caption: "Webhook endpoints, newest first",
      columns: ["URL", "State", "Events", "Last delivery"],
      row,
      none: empty("There are no webhook endpoints.", "runward webhooks create URL"),
      signal: leaving.signal,
    }).element);
  return () => leaving.abort();
}

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function webhookEndpoint(main, { id }) {
  const leaving = new AbortController();
  const path = `v1/webhook_endpoints/${id}`;
  const about = h("div", { class: "calls" }, h("p", { class: "soft" }, "Loading…"));
  const query = { webhook_endpoint_id: id, status: "" };
  const deliveries = pagedTable({
    path: "v1/webhook_deliveries",
    query,
    caption: "Deliveries, newest first",
    columns: ["Event", "Status", "Created", "Run", "Request and responses", "Action"],
    row: (one) => h("tr", null,
      h("th", { scope: "row" }, text(one.type)),
      h("td", null, status(one)),
      h("td", null, past(one.created_at)),
      h("td", null, one.run_id ? h("a", { href: `#/runs/${one.run_id}` }, shortId(one.run_id)) : null),
      h("td", { class: "what" }, exchange(one)),
      h("td", null, h("div", { class: "actions" }, action("Redeliver", "quiet small", async (once) => {
        await send("POST", `v1/webhook_deliveries/${one.id}/redeliver`, undefined, once);
        note("Runward sends the notification again.");
        await deliveries.again();
      }, `Redeliver ${one.type} of ${moment(one.created_at)}`)))),
    none: h("p", null, "There are no deliveries. To send a test notification, use the button above."),
    signal: leaving.signal,
  });
  const which = h("select", { id: "delivery-status" }, h("option", { value: "" }, "Any status"),
    Object.entries(DELIVERIES).map(([value, [label]]) => h("option", { value }, label)));
  which.addEventListener("change", () => {
    query.status = which.value;
    void deliveries.again();
  });
  const crumbs = h("p", { class: "crumbs" }, h("a", { href: "#/webhook-endpoints" }, "Webhook endpoints"));
  fill(main, crumbs, about, h("h2", null, "Deliveries"),
    h("div", { class: "filters" }, h("div", null, h("label", { for: "delivery-status" }, "Status"), which)), deliveries.element);

  const look = () => get(path, undefined, leaving.signal).then(
    (found) => fill(about, h("h1", null, text(found.url)),
      h("div", { class: "actions" },
        action(found.enabled ? "Disable" : "Enable", "", async () => {
          await send("PATCH", path, { enabled: !found.enabled });
          note(found.enabled ? "The endpoint was disabled." : "The endpoint was enabled.");
          await look();
          about.querySelector("button")?.focus();
        }),
        found.enabled ? action("Send a test", "", async (once) => {
          await send("POST", `${path}/test`, undefined, once);
          note("Runward sends a test notification.");
          await deliveries.again();
        }) : null,
        action("Reload the deliveries", "quiet", deliveries.again)),
      factList([
        ["State", [state(found), " ", text(DISABLED[found.disabled_reason] ?? "")]],
        ["Description", found.description ? text(found.description) : "none"],
        ["Events", h("code", null, text(found.events.join(", ")))],
        ["Content", found.include.length ? h("code", null, text(found.include.join(", "))) : "none, only IDs and codes"],
        ["Failing since", found.failing_since ? moment(found.failing_since) : "no failure"],
      ])),
    (error) => leaving.signal.aborted || fill(main, crumbs, unloaded("Webhook endpoint", error)));
  void look();
  return () => leaving.abort();
}

/** Return the request of a delivery and the response to each attempt. @param {any} one */
function exchange(one) {
  const attempts = one.attempts.map((/** @type {any} */ attempt) => h("li", null,
    h("p", null, moment(attempt.sent_at), ` · ${duration(number(attempt.duration_ms) ?? 0)} · `, text(attempt.error ?? `status ${number(attempt.status_code)}`)),
    attempt.response_body ? h("pre", null, text(attempt.response_body)) : null));
  return h("details", { "data-key": one.id },
    h("summary", null, `${one.attempts.length} ${one.attempts.length === 1 ? "attempt" : "attempts"}`),
    attempts.length ? h("ol", { class: "plain" }, attempts) : null,
    one.next_attempt_at ? h("p", { class: "soft" }, `Next attempt: ${moment(one.next_attempt_at)}`) : null,
    json(one.request));
}
