// The list of registered tools or agents. It is loaded completely and filtered while a person types.

import { all } from "./api.js";
import { fill, h, text } from "./dom.js";
import { List } from "./list.js";

const MOST = 2000;
const TILE_PX = 96;

/**
 * @typedef {object} Kind
 * @property {string} title
 * @property {string} about
 * @property {string} path such as `v1/tools`
 * @property {string} none The text of an empty list.
 * @property {(one: any) => (string | null)[]} facts
 * @property {{href: string, label: string} | null} add
 * @property {{href: string, label: string}} [also] A link to a related view.
 */

/**
 * @param {HTMLElement} main
 * @param {Kind} kind
 * @param {URLSearchParams} query
 * @returns {() => void} leaves the view.
 */
export function registered(main, kind, query) {
  const leaving = new AbortController();
  const at = location.hash.split("?")[0];
  const find = h("input", { id: "find", type: "search", value: query.get("q") ?? "", placeholder: "Search by name or text", autocomplete: "off" });
  const lead = h("p", { class: "soft", role: "status" }, "Loading…");
  const place = h("ul", { class: "tiles plain" });
  fill(main,
    h("div", { class: "view-head" }, h("h1", null, kind.title), h("div", { class: "actions" }, kind.also && h("a", { class: "button", href: kind.also.href }, kind.also.label), kind.add && h("a", { class: "button primary", href: kind.add.href }, kind.add.label))),
    h("p", { class: "soft" }, kind.about),
    h("form", { class: "filters", role: "search", onsubmit: (/** @type {Event} */ event) => event.preventDefault() }, h("div", null, h("label", { for: "find" }, "Find"), find)),
    lead, place);
  /** @type {Map<string, {element: HTMLElement, words: string}>} */
  let tiles = new Map();
  const list = new List(place, { height: TILE_PX, signal: leaving.signal, spacer: () => h("li", { "aria-hidden": "true" }), draw: (name) => /** @type {HTMLElement} */ (tiles.get(name)?.element) });

  function draw() {
    const sought = find.value.trim().toLowerCase();
    const fitting = [...tiles].filter(([, { words }]) => words.includes(sought)).map(([name]) => name);
    list.show(fitting);
    fill(lead, tiles.size === 0 ? kind.none : fitting.length === tiles.size ? `${tiles.size} registered` : `${fitting.length} of ${tiles.size}`);
    history.replaceState(null, "", sought ? `${at}?q=${encodeURIComponent(find.value.trim())}` : at);
  }

  find.addEventListener("input", draw);
  all(kind.path, { order: "asc" }, MOST, leaving.signal).then(
    ({ data }) => {
      tiles = new Map(data.map((one) => {
        const facts = kind.facts(one).filter(Boolean).join(" · ");
        return [one.name, { element: tile(one, `${at}/${one.name}`, facts), words: `${one.name} ${one.description ?? ""} ${facts}`.toLowerCase() }];
      }));
      draw();
    },
    (error) => {
      if (leaving.signal.aborted) return;
      lead.className = "wrong";
      fill(lead, text(error.message));
    });
  return () => leaving.abort();
}

/** @param {any} one @param {string} href @param {string} facts */
function tile(one, href, facts) {
  return h("li", { class: "card tile" },
    h("h2", { class: "name" }, h("a", { href }, text(one.name)), h("span", { class: "soft small" }, ` v${one.version}`)),
    one.description ? h("p", { class: "soft clamp" }, text(one.description)) : null,
    h("p", { class: "small soft" }, text(facts)));
}
