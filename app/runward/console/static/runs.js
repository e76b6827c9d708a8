// The list of runs, newest first. The server filters and searches. The list is polled while it is
// shown. The address contains the filters, so that a link shows the same list.

import { Problem, all, polling, sleep } from "./api.js";
import { fill, h, note, patch, text } from "./dom.js";
import { RUN_STATUS, ago, count, duration, moment, shortId, spentOn } from "./format.js";
import { List } from "./list.js";

const EVERY_MS = 3000;
const TYPING_MS = 300;
const PAGE = 50;
const ROW_PX = 38;
const MOST_AGENTS = 400;
/** Requests that one search makes before it offers to search further back. */
const LOOKS = 5;
const COLUMNS = ["Status", "Run", "Agent or model", "Result", "Turns", "Tokens", "Cost", "Duration", "Started", "By"];
/** Names for groups of statuses. @type {[string, string][]} */
const GROUPS = [
  ["queued,in_progress,requires_action", "Open"],
  ["failed,incomplete,expired", "Failed, incomplete or expired"],
];

/** @param {string} status */
export function badge(status) {
  const [label, tone] = RUN_STATUS[status] ?? [status, "soft"];
  return h("span", { class: `badge ${tone}` }, label);
}

/**
 * The loaded part of a list that grows at its top and is read downward.
 * @typedef {object} Known
 * @property {Map<string, any>} runs The runs by ID.
 * @property {number} pages The number of shown pages. Older runs are dropped.
 * @property {string} reached ID of the last run that was read. Empty at first.
 * @property {boolean} beyond Whether there are older runs.
 */

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function runs(main, { query, go }) {
  const leaving = new AbortController();
  let asking = new AbortController();
  const body = h("tbody");
  const lead = h("p", { class: "soft", role: "status" }, "Loading…");
  const table = h("table", { class: "runs of-runs", hidden: true },
    h("caption", { class: "hidden" }, "Runs, newest first"),
    h("thead", null, h("tr", null, COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
    body);
  const more = h("button", { type: "button", class: "quiet", hidden: true });
  const status = h("select", { id: "status" }, [["", "Any status"], ...GROUPS, ...Object.entries(RUN_STATUS).map(([value, [label]]) => [value, label])].map(([value, label]) => h("option", { value, selected: query.get("status") === value }, label)));
  const named = query.get("agent");
  const agent = h("select", { id: "agent" }, h("option", { value: "" }, "Any agent"), named ? h("option", { value: named, selected: true }, named) : null);
  const find = h("input", { id: "find", type: "search", maxlength: "200", value: query.get("q") ?? "", placeholder: "run_… or a text", autocomplete: "off" });
  const sessionNotice = h("p", { class: "soft" }, "Runs of the session ", h("code", null, shortId(query.get("session_id") ?? "")), " ",
    h("button", { type: "button", class: "quiet small", onclick: () => {
      session = "";
      sessionNotice.remove();
      changed();
    } }, "Show all runs"));
  fill(main,
    h("h1", null, "Runs"),
    h("form", { class: "filters", role: "search", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
      h("div", null, h("label", { for: "find" }, "Find"), find),
      h("div", null, h("label", { for: "status" }, "Status"), status),
      h("div", null, h("label", { for: "agent" }, "Agent"), agent)),
    query.get("session_id") ? sessionNotice : null, lead, h("div", { class: "wide" }, table), more);
  all("v1/agents", { order: "asc" }, MOST_AGENTS, leaving.signal).then(({ data }) => agent.append(...data.filter(({ name }) => name !== named).map(({ name }) => h("option", { value: name }, name))), () => undefined);

  const get = polling();
  /** @type {Map<string, HTMLTableRowElement>} */
  const rows = new Map();
  /** The runs of the list. The list can be laid out at any time, even while `known` is being loaded. @type {Map<string, any>} */
  let listed = new Map();
  const spacer = () => h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: COLUMNS.length }));
  const list = new List(body, { height: ROW_PX, signal: leaving.signal, spacer, draw: (id) => {
    const now = patch(rows.get(id), row(listed.get(id)));
    rows.set(id, now);
    return now;
  } });

  /** @returns {Known} */
  const nothing = () => ({ runs: new Map(), pages: 0, reached: "", beyond: false });
  let known = nothing();
  let error = "";

  let session = query.get("session_id") ?? "";
  const asked = () => ({ q: find.value.trim(), status: status.value, agent: agent.value, session_id: session });

  function changed() {
    const kept = new URLSearchParams(Object.entries(asked()).filter(([, value]) => value));
    history.replaceState(null, "", `#/runs${kept.size ? `?${kept}` : ""}`);
    known = nothing();
    lead.className = "soft";
    fill(lead, "Loading…");
    begin();
  }

  /** Load older runs until a page of them matches or the request limit is reached. @param {Known} into @param {AbortSignal} signal */
  async function deeper(into, signal) {
    into.pages += 1;
    const wanted = into.runs.size + PAGE;
    for (let look = 0; look < LOOKS && into.runs.size < wanted; look++) {
      const page = await get("v1/runs", { ...asked(), limit: PAGE, after: into.reached }, signal);
      for (const run of page.data) into.runs.set(run.id, run);
      into.reached = page.last_id ?? into.reached;
      into.beyond = page.has_more;
      if (!page.has_more) return;
    }
  }

  /** Update the runs that are shown. A search updates only its first page. @param {Known} into @param {AbortSignal} signal */
  async function again(into, signal) {
    let after;
    for (let page = 0; page < (find.value.trim() ? 1 : into.pages); page++) {
      const { data, last_id, has_more } = await get("v1/runs", { ...asked(), limit: PAGE, after }, signal);
      const fits = new Set(data.map((/** @type {any} */ run) => run.id));
      const end = has_more ? last_id : "";
      for (const id of into.runs.keys()) if (id >= end && (after === undefined || id < after) && !fits.has(id)) into.runs.delete(id);
      for (const run of data) into.runs.set(run.id, run);
      if (!has_more) return;
      after = last_id;
    }
    const older = [...into.runs.keys()].sort().reverse().slice(into.pages * PAGE - 1);
    if (older.length < 2) return;
    into.reached = older[0];
    into.beyond = true;
    for (const id of older.slice(1)) into.runs.delete(id);
  }

  function draw() {
    const shown = [...known.runs.values()].sort((one, other) => (one.id < other.id ? 1 : -1));
    listed = new Map(known.runs);
    for (const id of rows.keys()) if (!listed.has(id)) rows.delete(id);
    list.show(shown.map(({ id }) => id));
    table.hidden = shown.length === 0;
    more.hidden = !known.beyond;
    fill(more, find.value.trim() ? "Search older runs" : "Show older entries");
    lead.className = error ? "wrong" : "soft";
    fill(lead, text(error || sentence(shown.length)));
  }

  /** @param {number} shown */
  function sentence(shown) {
    const { q, status: of, agent: by } = asked();
    const back = known.beyond && q ? `. The search covers the runs since ${moment(timeOf(known.reached))}` : "";
    if (shown === 0) return q || of || by || session ? `No runs match${back}.` : "No runs yet. Start a run here or with POST /v1/runs.";
    const many = shown === 1 ? "One run" : `${shown} runs`;
    return known.beyond && !q ? `The newest ${many.toLowerCase()}.` : `${many}${back}.`;
  }

  /** @param {(into: Known, signal: AbortSignal) => Promise<void>} how @param {AbortSignal} signal */
  async function ask(how, signal) {
    const into = known;
    try {
      await how(into, signal);
      error = "";
    } catch (problem) {
      if (signal.aborted) return;
      if (!(problem instanceof Problem)) throw problem;
      error = into.runs.size ? `The data shown may be out of date: ${problem.message}` : problem.message;
    }
    if (!signal.aborted) draw();
  }

  function begin() {
    asking.abort();
    asking = new AbortController();
    const signal = AbortSignal.any([asking.signal, leaving.signal]);
    watch(signal).catch((problem) => note(text(String(problem)), "error"));
  }

  /** @param {AbortSignal} signal */
  async function watch(signal) {
    await ask(deeper, signal);
    for (;;) {
      await sleep(EVERY_MS, signal);
      if (signal.aborted) return;
      await ask(again, signal);
    }
  }

  let typing = 0;
  find.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(changed, TYPING_MS);
  });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && /^run_[0-9a-f]{32}$/.test(find.value.trim())) go(`#/runs/${find.value.trim()}`);
  });
  status.addEventListener("change", changed);
  agent.addEventListener("change", changed);
  more.addEventListener("click", () => {
    more.disabled = true;
    void ask(deeper, leaving.signal).finally(() => (more.disabled = false));
  });
  begin();
  return () => {
    clearTimeout(typing);
    leaving.abort();
  };
}

/** Return the creation time in an ID: a UUIDv7 (RFC 9562) begins with it. @param {string} id */
function timeOf(id) {
  return new Date(parseInt(id.slice(4, 16), 16)).toISOString();
}

/** @param {any} run */
function row(run) {
  const from = Date.parse(run.started_at ?? run.created_at);
  const to = run.ended_at ? Date.parse(run.ended_at) : Date.now();
  const spent = spentOn(run.usage, run.model);
  const models = [run.model ?? "workflow"].flat().join(", ");
  return h("tr", null,
    h("td", { "data-label": "Status" }, badge(run.status)),
    h("th", { scope: "row" }, h("a", { href: `#/runs/${run.id}`, "data-key": run.id }, shortId(run.id))),
    h("td", { "data-label": "Agent or model" }, run.agent ? [text(run.agent), h("span", { class: "soft small" }, " ", text(models))] : text(models)),
    h("td", { class: "what", "data-label": "Result" }, h("div", null, text(describeResult(run)))),
    h("td", { class: "number", "data-label": "Turns" }, count(run.turn)),
    h("td", { class: "number", "data-label": "Tokens" }, count(run.usage.total_tokens)),
    h("td", { class: "number", "data-label": "Cost", title: spent }, spent.startsWith("$") ? spent : h("span", { class: "soft" }, "—")),
    h("td", { class: "number", "data-label": "Duration" }, run.started_at ? duration(to - from) : "—"),
    h("td", { title: moment(run.created_at), "data-label": "Started" }, ago(run.created_at, Date.now())),
    h("td", { class: "by", "data-label": "By" }, run.created_by ? text(run.created_by.name) : h("span", { class: "soft" }, "—")));
}

/** Return what the run waits for, the reason for its end, or its output. @param {any} run */
function describeResult(run) {
  const waits = [...run.required_actions, ...run.waiting_for].map((/** @type {any} */ one) => one.tool);
  if (waits.length) return `Waits: ${waits.join(", ")}`;
  const why = run.error?.message ?? run.incomplete_details?.message ?? run.incomplete_details?.reason;
  const said = why ?? (typeof run.output === "string" ? run.output : run.output === null ? "" : JSON.stringify(run.output));
  return Array.from(said.slice(0, 400)).slice(0, 160).join("");
}
