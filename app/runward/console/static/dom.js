// Rendering. All content is created with createElement and textContent, so that text from models and
// tools stays text. No code in the console parses markup.

import { joined, marked, split } from "./invisible.js";

/** Children of one text. Browsers compute the direction of a `bdi` again for each child. */
const MOST_PARTS = 5000;

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */
/** @typedef {{[name: string]: any}} Attributes */

/**
 * Create an element. The attributes are `class`, `on…` listeners, properties such as `value` and
 * `checked`, and any other attributes. Attributes that are null or false are left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes | null} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) /** @type {any} */ (element)[name] = value;
    else if (SAID.has(name)) element.setAttribute(name, marked(value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  if (tag === "option") element.textContent = marked(children.join(""));
  else add(element, children);
  return element;
}

const PROPERTIES = new Set(["value", "checked", "disabled", "open", "selected", "hidden"]);
/** Attributes whose text can come from others, and which cannot contain elements. */
const SAID = new Set(["title", "aria-label", "placeholder"]);

/**
 * @param {Node} parent
 * @param {...Child} children
 */
export function add(parent, ...children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) for (const one of child) add(parent, one); // spread syntax fails with 100,000 arguments
    else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * Replace the children of an element. With only an empty text, the element matches `:empty`.
 * @param {Element} parent
 * @param {...Child} children
 */
export function fill(parent, ...children) {
  const fragment = document.createDocumentFragment();
  add(fragment, children);
  const only = fragment.childNodes.length === 1 ? fragment.firstElementChild : null;
  if (only?.tagName === "BDI" && !only.firstChild) parent.replaceChildren();
  else parent.replaceChildren(fragment);
}

/**
 * Set an element's children in this order. Children that are already in place are not touched, so that
 * input and selected text stay.
 * @param {Element} parent
 * @param {Element[]} children
 */
export function arrange(parent, children) {
  const staying = new Set(children);
  for (const child of [...parent.children]) if (!staying.has(child)) child.remove();
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
}

/**
 * Update an element to equal another one. Children that are already equal stay, and with them
 * selections of text.
 * @template {HTMLElement} T
 * @param {T | undefined} known @param {T} now @returns {T} `known` if it is defined, otherwise `now`.
 */
export function patch(known, now) {
  if (!known) return now;
  if (known.isEqualNode(now)) return known;
  const children = [...now.children];
  children.forEach((child, at) => {
    const before = known.children[at];
    if (before && !before.isEqualNode(child)) before.replaceWith(child);
    else if (!before) known.append(child);
  });
  while (known.childElementCount > children.length) known.lastElementChild?.remove();
  known.className = now.className;
  return known;
}

/** @param {Element} element @param {() => void} act Called once, when the element comes into sight. */
export function whenSeen(element, act) {
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    act();
  }, { rootMargin: "300px" });
  seen.observe(element);
}

/**
 * Return an element for text from others. It is isolated from the text around it, and invisible
 * characters are shown as marks.
 * @param {unknown} value
 * @param {string} [className]
 */
export function text(value, className) {
  const all = split(String(value ?? ""));
  const parts = all.slice(0, MOST_PARTS).map((part) =>
    part.mark ? h("span", { class: "mark", title: part.title }, part.text) : part.text,
  );
  return h("bdi", { class: className }, parts, joined(all.slice(MOST_PARTS)));
}

/**
 * Create an icon from the console's own list of paths.
 * @param {string} path SVG path data on a grid of 16.
 */
export function icon(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("icon");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  shape.setAttribute("d", path);
  svg.appendChild(shape);
  return svg;
}

/**
 * Show a notice, which screen readers also announce. It disappears on its own.
 * @param {Child} what
 * @param {"info" | "error"} [kind]
 */
export function note(what, kind = "info") {
  const shelf = /** @type {HTMLElement} */ (document.getElementById("notes"));
  const close = h("button", { class: "quiet small", type: "button", "aria-label": "Dismiss" }, "×");
  const shown = h("div", { class: `note ${kind}` }, h("p", null, what), close);
  close.addEventListener("click", () => shown.remove());
  shelf.appendChild(shown);
  while (shelf.children.length > 3) shelf.firstElementChild?.remove();
  if (kind === "info") setTimeout(() => shown.remove(), 8_000);
}

/**
 * Run `draw`, which rebuilds a part of the page, and restore open, edited and focused elements by
 * their `data-key`.
 * @param {Element} root
 * @param {() => void} draw
 */
export function keeping(root, draw) {
  const open = new Map();
  for (const one of root.querySelectorAll("details[data-key]")) {
    open.set(one.getAttribute("data-key"), /** @type {HTMLDetailsElement} */ (one).open);
  }
  const focused = document.activeElement;
  const key = focused && root.contains(focused) ? focused.getAttribute("data-key") : null;
  draw();
  for (const one of root.querySelectorAll("details[data-key]")) {
    const was = open.get(one.getAttribute("data-key"));
    if (was !== undefined) /** @type {HTMLDetailsElement} */ (one).open = was;
  }
  if (key === null || document.activeElement === focused) return;
  for (const one of root.querySelectorAll("[data-key]")) {
    if (one.getAttribute("data-key") !== key) continue;
    const target = one instanceof HTMLDetailsElement ? one.querySelector("summary") : one;
    /** @type {HTMLElement | null} */ (target)?.focus({ preventScroll: true });
    return;
  }
}
