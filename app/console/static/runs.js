// The list of runs, newest first, looked at again while it is shown.

import { Problem, get, sleep } from "./api.js";
import { fill, h, keeping, note, text } from "./dom.js";
import { RUN_STATUS, ago, cost, count, duration, moment, shortId } from "./format.js";

const EVERY_MS = 3000;
const PAGE = 50;

/** @param {string} status */
export function badge(status) {
  const [label, tone] = RUN_STATUS[status] ?? [status, "soft"];
  return h("span", { class: `badge ${tone}` }, label);
}

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function runs(main, { query, go }) {
  const leaving = new AbortController();
  let waking = new AbortController();
  let pages = 1;
  const body = h("tbody");
  const lead = h("p", { class: "soft", role: "status" }, "Looking…");
  const table = h("table", { class: "runs of-runs" },
    h("caption", { class: "hidden" }, "Runs, newest first"),
    h("thead", null, h("tr", null, ["Status", "Run", "Agent or model", "What", "Turns", "Tokens", "Cost", "Took", "Started"].map((name) => h("th", { scope: "col" }, name)))),
    body);
  const more = h("button", { type: "button", class: "quiet", hidden: true }, "Show older ones");
  const status = h("select", { id: "status" }, h("option", { value: "" }, "Any status"),
    Object.entries(RUN_STATUS).map(([value, [label]]) => h("option", { value, selected: query.get("status") === value }, label)));
  const agent = h("input", { id: "agent", type: "search", value: query.get("agent") ?? "", placeholder: "Any agent", autocomplete: "off" });
  const find = h("input", { id: "find", type: "search", value: "", placeholder: "run_… or a word", autocomplete: "off" });
  fill(main,
    h("h1", null, "Runs"),
    h("form", { class: "filters", role: "search", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
      h("div", null, h("label", { for: "find" }, "Find"), find),
      h("div", null, h("label", { for: "status" }, "Status"), status),
      h("div", null, h("label", { for: "agent" }, "Agent"), agent)),
    lead, h("div", { class: "wide" }, table), more);

  /** @param {boolean} again */
  const look = (again) => {
    if (again) pages = 1;
    const kept = new URLSearchParams(Object.entries({ status: status.value, agent: agent.value.trim() }).filter(([, value]) => value));
    history.replaceState(null, "", `#/runs${kept.size ? `?${kept}` : ""}`);
    waking.abort();
  };
  status.addEventListener("change", () => look(true));
  agent.addEventListener("change", () => look(true));
  find.addEventListener("input", () => draw());
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && /^run_[0-9a-f]{32}$/.test(find.value.trim())) go(`#/runs/${find.value.trim()}`);
  });
  more.addEventListener("click", () => {
    pages += 1;
    waking.abort();
  });

  /** @type {any[]} */
  let found = [];
  let beyond = false;
  let error = "";

  function draw() {
    const word = find.value.trim().toLowerCase();
    const shown = word ? found.filter((run) => matches(run, word)) : found;
    keeping(body, () => fill(body, shown.map(row)));
    more.hidden = !beyond;
    lead.className = error ? "wrong" : "soft";
    fill(lead, text(error || (shown.length ? `${shown.length}${beyond ? " newest" : ""} runs` : word || status.value || agent.value ? "No run fits. Finding looks at the runs that are loaded." : "No runs yet.")));
    table.hidden = shown.length === 0;
  }

  async function watch() {
    while (!leaving.signal.aborted) {
      waking = new AbortController();
      try {
        /** @type {any[]} */
        const data = [];
        let after;
        for (let page = 0; page < pages; page++) {
          const next = await get("v1/runs", { status: status.value, agent: agent.value.trim(), limit: PAGE, after }, leaving.signal);
          data.push(...next.data);
          beyond = next.has_more;
          after = next.last_id;
          if (!beyond) break;
        }
        found = data;
        error = "";
      } catch (problem) {
        if (leaving.signal.aborted || !(problem instanceof Problem)) return;
        error = `What is shown may be old: ${problem.message}`;
      }
      draw();
      await sleep(EVERY_MS, AbortSignal.any([waking.signal, leaving.signal]));
    }
  }
  watch().catch((problem) => note(text(String(problem)), "error"));
  return () => leaving.abort();
}

/** @param {any} run @param {string} word */
function matches(run, word) {
  const of = [run.id, run.agent, run.model, run.output, run.error?.message, JSON.stringify(run.metadata)];
  return of.some((one) => String(one ?? "").toLowerCase().includes(word));
}

/** @param {any} run */
function row(run) {
  const from = Date.parse(run.started_at ?? run.created_at);
  const to = run.ended_at ? Date.parse(run.ended_at) : Date.now();
  const models = [run.model ?? "workflow"].flat().join(", ");
  return h("tr", null,
    h("td", { "data-label": "Status" }, badge(run.status)),
    h("th", { scope: "row" }, h("a", { href: `#/runs/${run.id}`, "data-key": run.id }, shortId(run.id))),
    h("td", { "data-label": "Agent or model" }, run.agent ? [text(run.agent), h("span", { class: "soft small" }, " ", text(models))] : text(models)),
    h("td", { class: "what", "data-label": "What" }, h("div", null, text(what(run)))),
    h("td", { class: "number", "data-label": "Turns" }, count(run.turn)),
    h("td", { class: "number", "data-label": "Tokens" }, count(run.usage.total_tokens)),
    h("td", { class: "number", "data-label": "Cost" }, cost(run.usage.cost_usd)),
    h("td", { class: "number", "data-label": "Took" }, run.started_at ? duration(to - from) : "—"),
    h("td", { title: moment(run.created_at), "data-label": "Started" }, ago(run.created_at, Date.now())));
}

/** What it waits for, why it ended so, or what it said. @param {any} run */
function what(run) {
  const waits = run.required_actions.map((/** @type {any} */ one) => one.tool);
  if (waits.length) return `Waits: ${waits.join(", ")}`;
  const why = run.error?.message ?? run.incomplete_details?.message ?? run.incomplete_details?.reason;
  const said = why ?? (typeof run.output === "string" ? run.output : run.output === null ? "" : JSON.stringify(run.output));
  return Array.from(said.slice(0, 400)).slice(0, 160).join("");
}
