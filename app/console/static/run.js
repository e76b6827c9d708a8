// One run: a timeline that grows as it happens, and the raw events beside it.

import { Problem, follow, get, send } from "./api.js";
import { approvalCard, item } from "./approval.js";
import { add, arrange, fill, h, keeping, note, text } from "./dom.js";
import { bars, entryView } from "./entries.js";
import { RUN_STATUS, ago, cost, count, duration, moment, shortId, time } from "./format.js";
import { badge } from "./runs.js";
import { Timeline } from "./timeline.js";
import { json, words } from "./values.js";

const CLOCK_MS = 500;
const RAW_SHOWN = 300;
const OVER = new Set(["completed", "failed", "cancelled", "incomplete", "expired"]);

/**
 * @param {HTMLElement} main
 * @param {import("./app.js").Context} context
 * @returns {() => void} leaves the view.
 */
export function run(main, { id, who, go, watch }) {
  const leaving = new AbortController();
  const timeline = new Timeline(id);
  const head = h("header", { class: "run-head" });
  const input = h("section", { class: "run-input", "aria-label": "Input" });
  const lines = h("div", { class: "timeline" });
  const end = h("section", { "aria-label": "Outcome", "aria-live": "polite" });
  const raw = h("div", { class: "raw-list" });
  const rawTitle = h("h2", null, "Events");
  const link = h("p", { class: "soft small", role: "status" });
  fill(main, h("p", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs")), head,
    h("div", { class: "columns" },
      h("div", { class: "story-column" }, input, lines, end, acting(id, who, go, () => void refresh(), () => shown)),
      h("aside", { class: "raw", "aria-label": "Raw events" }, h("div", { class: "raw-head" }, rawTitle, link), raw)));

  /** @type {any} */
  let shown = null;
  /** @type {Map<string, {version: number, node: HTMLElement}>} */
  const drawn = new Map();
  /** @type {Map<string, import("./approval.js").Card>} */
  const cards = new Map();
  /** @type {any[] | null} */
  let chosen = null;
  let pending = false;
  let rawCount = 0;
  let status = "";

  /** @param {any} approval */
  const decided = (approval) => {
    note([text(approval.tool), `: ${approval.status}.`]);
    cards.delete(approval.id);
    watch.poke();
    draw();
  };

  /** @param {any} call @param {string} slot the id of the element to fill. */
  async function ask(call, slot) {
    const known = cards.get(call.approval.id);
    const approval = known ? null : await get(`v1/approvals/${call.approval.id}`).catch(() => null);
    if (approval && approval.status !== "pending") return;
    const card = known ?? (approval && approvalCard(approval, { inRun: true, may: who.scopes.includes("approvals:decide"), decided }));
    if (!card) return;
    cards.set(call.approval.id, card);
    const place = document.getElementById(slot);
    if (place) fill(place, card.element);
  }

  const choose = (/** @type {import("./timeline.js").Entry} */ entry) => {
    chosen = entry.events;
    drawRaw();
    if (matchMedia("(max-width: 60rem)").matches) raw.scrollIntoView({ block: "nearest" });
  };

  /** @param {import("./timeline.js").Line} line @returns {HTMLElement[]} */
  function lineView(line) {
    /** @type {HTMLElement[]} */
    const nodes = [];
    let turn = -1;
    for (const entry of line.entries) {
      if (entry.turn !== turn && entry.turn > 0) {
        turn = entry.turn;
        nodes.push(kept(`${line.id} turn ${entry.key}`, 0, () => h("h2", { class: "turn" }, h("span", null, `Turn ${turn}`, entry.agent ? [" · ", text(entry.agent)] : null))));
      }
      nodes.push(view(line, entry));
    }
    return nodes;
  }

  /** @param {string} key @param {number} version @param {() => HTMLElement} make */
  function kept(key, version, make) {
    const known = drawn.get(key);
    if (known?.version === version) return known.node;
    const node = make();
    drawn.set(key, { version, node });
    return node;
  }

  /** @param {import("./timeline.js").Line} line @param {import("./timeline.js").Entry} entry */
  function view(line, entry) {
    const key = `${line.id} ${entry.key}`;
    const slot = `slot ${key}`;
    const node = kept(key, entry.version, () => {
      if (entry.call?.approval?.status === "pending") queueMicrotask(() => void ask(entry.call, slot));
      return entryView(entry, key, { choose, slot });
    });
    const child = entry.call?.child ? timeline.lines.get(entry.call.child) : null;
    if (child) {
      const about = h("summary", null, "Run of ", text(child.created?.agent ?? "an agent"), " ", badge(child.status), " ", h("a", { href: `#/runs/${child.id}` }, shortId(child.id)));
      const summary = kept(`summary ${child.id} ${child.status}`, 0, () => about);
      const details = kept(`child ${child.id}`, 0, () => h("details", { class: "child" }));
      arrange(details, [summary, ...lineView(child)]);
      if (details.parentNode !== node) add(node, details);
    }
    return node;
  }

  function draw() {
    pending = false;
    if (leaving.signal.aborted) return;
    const line = timeline.line(id);
    keeping(lines, () => arrange(lines, lineView(line)));
    clock();
    if (line.status !== status) {
      status = line.status;
      void refresh();
    }
    fill(end, outcome(line, shown));
    if (chosen === null && timeline.events.length !== rawCount) drawRaw();
  }

  function drawRaw() {
    const events = chosen ?? timeline.events;
    rawCount = timeline.events.length;
    const all = h("button", { type: "button", class: "quiet small" }, "Show all");
    all.addEventListener("click", () => {
      chosen = null;
      drawRaw();
    });
    fill(rawTitle, chosen ? ["Events of one entry ", all] : `Events · ${timeline.events.length}`);
    const some = events.slice(-RAW_SHOWN);
    keeping(raw, () => fill(raw, events.length > some.length ? h("p", { class: "soft small" }, `The last ${RAW_SHOWN}`) : null, some.map((event) => rawView(event, chosen !== null, event.run_id === id ? null : (timeline.line(event.run_id).created?.agent ?? "child run")))));
  }

  function clock() {
    const line = timeline.line(id);
    const from = line.from ?? Date.now();
    const to = line.to ?? Math.max(timeline.latest, Date.now());
    bars(lines, from, Math.max(to - from, 1));
    const took = head.querySelector(".took");
    if (took) fill(took, duration(to - from));
    const usage = head.querySelector(".usage");
    if (usage && line.usage) fill(usage, used(line.usage));
  }

  async function refresh() {
    try {
      shown = await get(`v1/runs/${id}`, undefined, leaving.signal);
    } catch (error) {
      if (leaving.signal.aborted) return;
      if (error instanceof Problem && error.status === 404) fill(main, h("h1", null, "No such run"), h("p", null, "There is no run of this id in this project. ", h("a", { href: "#/runs" }, "All runs")));
      return;
    }
    fill(head, headView(shown));
    main.dispatchEvent(new CustomEvent("run", { detail: shown }));
    clock();
    fill(end, outcome(timeline.line(id), shown));
  }

  async function begin() {
    void refresh();
    void get(`v1/runs/${id}/items`, { limit: 50 }, leaving.signal).then((page) => {
      const said = page.data.filter((/** @type {any} */ one) => one.turn === 0 && one.role);
      fill(input, said.map(item));
    }, () => undefined);
    await follow(id, (frame) => {
      timeline.take(frame);
      if (pending) return;
      pending = true;
      requestAnimationFrame(draw);
    }, (connected) => fill(link, connected ? "" : "Connection lost; coming back…"), leaving.signal);
    fill(link, "");
  }
  begin().catch((error) => note(text(error.message), "error"));
  const ticking = setInterval(() => !OVER.has(timeline.line(id).status) && clock(), CLOCK_MS);
  return () => {
    leaving.abort();
    clearInterval(ticking);
  };
}

/** @param {any} usage */
function used(usage) {
  return `${count(usage.total_tokens)} tokens (${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out) · ${cost(usage.cost_usd)}`;
}

/** @param {any} run_ */
function headView(run_) {
  const models = [run_.model ?? "workflow"].flat().join(", ");
  return [
    h("div", { class: "run-title" }, h("h1", null, run_.agent ? text(run_.agent) : text(models)), badge(run_.status)),
    h("p", { class: "soft facts" },
      h("span", null, h("code", null, run_.id)),
      run_.agent ? h("span", null, text(models)) : null,
      h("span", { title: moment(run_.created_at) }, `started ${ago(run_.created_at, Date.now())}`),
      h("span", { class: "took" }),
      h("span", { class: "usage" }, used(run_.usage)),
      run_.session_id ? h("span", null, "session ", h("code", null, shortId(run_.session_id))) : null,
      run_.parent_run_id ? h("a", { href: `#/runs/${run_.parent_run_id}` }, "its parent run") : null,
      run_.continued_from ? h("a", { href: `#/runs/${run_.continued_from}` }, "continued from") : null,
      Object.keys(run_.metadata).length ? h("span", null, text(JSON.stringify(run_.metadata))) : null),
  ];
}

/** @param {import("./timeline.js").Line} line @param {any} run_ */
function outcome(line, run_) {
  if (!OVER.has(line.status)) return [];
  const [label, tone] = RUN_STATUS[line.status];
  const why = line.end?.error ?? line.end?.incomplete_details ?? run_?.error;
  const output = run_?.output ?? line.end?.output ?? null;
  const said = line.entries.at(-1);
  const repeated = said?.kind === "message" && said.text === output;
  return [h("div", { class: `outcome ${tone}` }, h("h2", null, label),
    why ? h("p", null, h("code", null, text(why.code ?? why.reason)), " ", text(why.message ?? "")) : null,
    output === null || repeated ? null : words(output, "output"))];
}

/** @param {any} event @param {boolean} open @param {string | null} of whose it is, if a child run's. */
function rawView(event, open, of) {
  const details = h("details", { "data-key": event.id, open },
    h("summary", null, h("span", { class: "soft small number" }, `${event.sequence} `), h("code", null, text(event.type), of ? h("span", { class: "soft" }, " · ", text(of)) : null), h("time", { class: "soft small", datetime: event.created_at }, ` ${time(event.created_at)}`)));
  const unfold = () => details.open && details.childElementCount === 1 && details.appendChild(json(event));
  details.addEventListener("toggle", unfold);
  unfold();
  return details;
}

/**
 * What a person may do to the run.
 * @param {string} id @param {any} who @param {(to: string) => void} go @param {() => void} done @param {() => any} current
 */
function acting(id, who, go, done, current) {
  const place = h("section", { class: "acting", "aria-label": "Actions" });
  if (!who.scopes.includes("runs:write")) return place;
  /** @param {Promise<any>} asked @param {string} said */
  const tell = async (asked, said) => {
    try {
      const answer = await asked;
      note(said);
      done();
      return answer;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      note([h("strong", null, "Not done. "), text(error.message)], "error");
      return null;
    }
  };
  const more = h("textarea", { id: "more-input", rows: "2", "data-key": "more-input" });
  const say = h("button", { type: "button", class: "primary" }, "Send");
  const once = { key: crypto.randomUUID() };
  say.addEventListener("click", async () => {
    const said = more.value.trim();
    if (said && (await tell(send("POST", `v1/runs/${id}/input`, { input: said }, { "Idempotency-Key": once.key }), "Sent. The model sees it with its next turn."))) {
      more.value = "";
      once.key = crypto.randomUUID();
    }
  });
  const stop = h("button", { type: "button", class: "danger" }, "Cancel the run");
  stop.addEventListener("click", () => void tell(send("POST", `v1/runs/${id}/cancel`, { mode: "immediate" }), "Cancelled."));
  const after = h("button", { type: "button" }, "Cancel after this turn");
  after.addEventListener("click", () => void tell(send("POST", `v1/runs/${id}/cancel`, { mode: "after_turn" }), "It will stop after this turn."));
  const on = h("button", { type: "button", class: "primary" }, "Continue");
  on.addEventListener("click", async () => {
    const next = await tell(send("POST", `v1/runs/${id}/continue`, {}, { "Idempotency-Key": crypto.randomUUID() }), "A new run goes on from here.");
    if (next) go(`#/runs/${next.id}`);
  });
  const open = [h("label", { for: "more-input" }, "Say something to the run"), more, h("div", { class: "actions" }, say, after, stop)];
  let now = "";
  const draw = () => {
    const run_ = current();
    const next = !run_ ? "" : OVER.has(run_.status) ? run_.status : "open";
    if (next === now) return;
    now = next;
    const again = h("a", { class: "button", href: `#/start?from=${id}` }, "Run again with changes");
    fill(place, next === "open" ? open : next ? h("div", { class: "actions" }, next === "incomplete" ? on : null, again) : []);
  };
  queueMicrotask(() => document.getElementById("main")?.addEventListener("run", draw));
  return place;
}
