// The time that a run spent: one strip for the whole run, and a bar for each call within its turn.

import { fill, h } from "./dom.js";
import { duration } from "./format.js";

/** @typedef {import("./timeline.js").Line} Line */
/** @typedef {import("./timeline.js").Turn} Turn */

/** @type {Record<string, string>} */
const CALLED = { queue: "In the queue", model: "Model", retry: "Pause before a retry", tool: "Tools", wait: "Waiting for a person or a client" };
const MOST_PIECES = 240;
const MOST_TICKS = 5;
const TICK_PX = 80;
const LABEL_PX = 56;

/**
 * Return the run's activities up to `now` with their durations.
 * @param {Line} line @param {number} now
 * @returns {{doing: string, from: number, ms: number}[]}
 */
export function pieces(line, now) {
  const end = line.to ?? now;
  return line.phases.flatMap(({ at, doing }, index) => {
    const ms = Math.min(line.phases[index + 1]?.at ?? end, end) - at;
    return ms > 0 ? [{ doing, from: at, ms }] : [];
  });
}

/** Return the strip with its legend. @param {Line} line @param {number} now */
export function spent(line, now) {
  const all = pieces(line, now);
  const total = all.reduce((sum, one) => sum + one.ms, 0);
  if (total === 0) return [];
  const fine = all.length <= MOST_PIECES ? all : all.filter((one) => one.ms > total / MOST_PIECES);
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const { doing, ms } of all) sums.set(doing, (sums.get(doing) ?? 0) + ms);
  return [
    h("div", { class: "strip", "aria-hidden": "true" }, fine.map(({ doing, ms }) => {
      const piece = h("span", { class: `bar ${doing}`, title: `${CALLED[doing]}: ${duration(ms)}` });
      piece.style.flexGrow = String(ms / total);
      return piece;
    })),
    h("ul", { class: "legend" }, [...sums].map(([doing, ms]) => h("li", null, h("span", { class: `swatch ${doing}`, "aria-hidden": "true" }), `${CALLED[doing]} `, h("span", { class: "number" }, duration(ms))))),
  ];
}

/** Return the bars of a call within the time of its turn. `lay` sets their positions.
 * @param {string} runId @param {number} turn @param {any} call */
export function track(runId, turn, call) {
  const bars = [];
  const began = Math.min(...[...call.waits, ...call.attempts].map((one) => one.from));
  if (began > call.at) bars.push(bar("queue", "Before the first attempt", { from: call.at, to: began }));
  for (const span of call.waits) bars.push(bar("wait", "Waited for a decision", span));
  for (const span of call.attempts) bars.push(bar(span.again ? "again" : "attempt", span.again ? `Attempt ${span.number} and the pause before the next attempt` : `Attempt ${span.number}`, span));
  const last = call.attempts.at(-1);
  if (last?.to && call.ended > last.to) bars.push(bar("wait", "Waited for a person to record the outcome", { from: last.to, to: call.ended }));
  const shown = h("div", { class: "track", "aria-hidden": "true" }, bars);
  shown.dataset.run = runId;
  shown.dataset.turn = String(turn);
  return shown;
}

/** @param {string} kind @param {string} called @param {import("./timeline.js").Span} span */
function bar(kind, called, { from, to }) {
  const shown = h("span", { class: `bar ${kind}`, title: `${called}: ${to === null ? "still" : duration(to - from)}` });
  shown.dataset.from = String(from);
  if (to !== null) shown.dataset.to = String(to);
  return shown;
}

/** Return the axis of a turn. @param {string} runId @param {number} turn */
export function axis(runId, turn) {
  const shown = h("div", { class: "axis", "aria-hidden": "true" });
  shown.dataset.run = runId;
  shown.dataset.turn = String(turn);
  return shown;
}

/** Return the text next to the bars of a finished call: `waited 9.1 s · 2 attempts and pauses, 0.6 s`.
 * @param {any} call */
export function timings(call) {
  const said = [];
  const waited = sum(call.waits);
  if (waited) said.push(`waited ${duration(waited)}`);
  const { length } = call.attempts;
  if (length && call.ended) said.push(`${length > 1 ? `${length} attempts and pauses, ` : ""}${duration(sum(call.attempts))}`);
  else if (length > 1) said.push(`attempt ${call.attempts.at(-1).number}`);
  return said.join(" · ");
}

/** @param {import("./timeline.js").Span[]} spans */
function sum(spans) {
  return spans.reduce((total, { from, to }) => total + (to === null ? 0 : to - from), 0);
}

/**
 * Lay out all bars and axes under `root` over the time of their turns. Turns that have ended stay
 * unchanged.
 * @param {HTMLElement} root
 * @param {(runId: string) => Line} lineOf
 * @param {number} now
 */
export function lay(root, lineOf, now) {
  const all = [...(/** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".track, .axis")))];
  // All widths are read first, because each read after a write would force a new layout.
  const widths = new Map(all.filter((one) => one.classList.contains("axis")).map((one) => [one, one.clientWidth]));
  for (const one of all) {
    const line = lineOf(/** @type {string} */ (one.dataset.run));
    const number = Number(one.dataset.turn);
    const turn = line.turns.get(number);
    if (!turn) continue;
    const to = turnEnd(line, number, turn, now);
    if (one.dataset.laid === String(to)) continue;
    one.dataset.laid = String(to);
    const total = Math.max(to - turn.from, 1);
    const width = widths.get(one);
    if (width !== undefined) mark(one, total, width);
    else for (const child of /** @type {Iterable<HTMLElement>} */ (one.children)) place(child, turn.from, total);
  }
}

/** @param {Line} line @param {number} number @param {Turn} turn @param {number} now */
function turnEnd(line, number, turn, now) {
  const going = line.to === null && !line.turns.has(number + 1);
  return going ? Math.max(now, turn.to) : turn.to;
}

/** @param {HTMLElement} bar_ @param {number} from @param {number} total */
function place(bar_, from, total) {
  const start = Math.max(0, Number(bar_.dataset.from) - from);
  const end = bar_.dataset.to ? Number(bar_.dataset.to) - from : total;
  bar_.style.left = `${Math.min(99.4, (start / total) * 100)}%`;
  bar_.style.width = `${Math.max(0.6, ((end - start) / total) * 100)}%`;
}

/** @param {HTMLElement} axis_ @param {number} total @param {number} width */
function mark(axis_, total, width) {
  const most = Math.max(2, Math.min(MOST_TICKS, Math.floor(width / TICK_PX)));
  const raw = total / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const units = [1, 2, 5, 10].map((one) => one * power);
  const step = total < 60_000 ? (units.find((one) => one >= raw) ?? raw) : wholeMinutes(raw);
  const apart = (step / total) * width;
  const marks = [];
  for (let at = 0; at <= total && marks.length <= most; at += step) {
    const last = (at / total) * width + LABEL_PX > width;
    if (last && apart < 2 * LABEL_PX) break; // it would overlap the previous label
    const tick = h("span", { class: last ? "tick last" : "tick" }, at === 0 ? "0" : short(at));
    tick.style.left = `${(at / total) * 100}%`;
    marks.push(tick);
  }
  fill(axis_, marks);
}

const MINUTE = 60_000;

/** @param {number} raw */
function wholeMinutes(raw) {
  const steps = [0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440, 2880, 10_080].map((one) => one * MINUTE);
  return steps.find((one) => one >= raw) ?? Math.ceil(raw / (1440 * MINUTE)) * 1440 * MINUTE;
}

/** @param {number} ms */
function short(ms) {
  if (ms < 1000) return `${+ms.toPrecision(3)} ms`;
  if (ms < MINUTE) return `${+(ms / 1000).toFixed(2)} s`;
  if (ms < 60 * MINUTE) return `${+(ms / MINUTE).toFixed(2)} min`;
  return ms < 2880 * MINUTE ? `${+(ms / MINUTE / 60).toFixed(1)} h` : `${+(ms / MINUTE / 1440).toFixed(1)} days`;
}
