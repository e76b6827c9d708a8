// Markdown from models as elements: a subset of CommonMark and of GitHub's tables, parsed in one pass.
// Elements are created only with createElement. HTML is shown as text.
//
// Links lead only to http and https, show their host, and send no referrer. Images are shown if they
// are `data:` URLs of an image type. All others become links, so that opening an answer makes no
// request to another server.

import { add, h, text } from "./dom.js";

const MOST_CHARACTERS = 100_000;
const DEEPEST = 6; // levels of nested lists and quotes
const MOST_COLUMNS = 30;
const PICTURE = /^data:image\/(png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=]+$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})(?!~)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(?![ \t])(.*))?$/s;
const RULE = /^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+)(?=\S)/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?$/;

/** The number of characters and lines that were read. It must grow linearly with the text. */
export let steps = 0;

/**
 * @param {string} source
 * @returns {HTMLElement}
 */
export function markdown(source) {
  steps = 0;
  const root = h("div", { class: "markdown" });
  if (source.length > MOST_CHARACTERS) add(root, h("p", { class: "plain-text" }, text(source)));
  else blocks(root, source.split(/\r\n?|\n/), 0);
  return root;
}

/** @param {HTMLElement} into @param {string[]} lines @param {number} depth */
function blocks(into, lines, depth) {
  let at = 0;
  while (at < lines.length) {
    steps += 1;
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (!line.trim()) at += 1;
    else if (fence) at = code(into, lines, at, fence[1]);
    else if (heading) {
      add(into, inline(h(heading[1].length < 3 ? "h3" : "h4"), (heading[2] ?? "").replace(/[ \t]#+[ \t]*$/, "")));
      at += 1;
    } else if (RULE.test(line)) {
      add(into, h("hr"));
      at += 1;
    } else if (depth < DEEPEST && QUOTE.test(line)) at = quote(into, lines, at, depth);
    else if (depth < DEEPEST && ITEM.test(line)) at = list(into, lines, at, depth);
    else if (line.includes("|") && at + 1 < lines.length && DIVIDER.test(lines[at + 1])) at = table(into, lines, at);
    else at = paragraph(into, lines, at, depth);
  }
}

/** @param {HTMLElement} into @param {string[]} lines @param {number} at @param {string} mark */
function code(into, lines, at, mark) {
  let end = at + 1;
  const closes = (/** @type {string} */ line) => line.length >= mark.length && line === mark[0].repeat(line.length);
  for (; end < lines.length && !closes(lines[end].trim()); end++) steps += 1;
  add(into, h("pre", { tabindex: "0" }, h("code", null, text(lines.slice(at + 1, end).join("\n")))));
  return end + 1;
}

/** @param {HTMLElement} into @param {string[]} lines @param {number} at @param {number} depth */
function quote(into, lines, at, depth) {
  const inside = [];
  while (at < lines.length && lines[at].trim() && (QUOTE.test(lines[at]) || !starts(lines[at]))) {
    steps += 1;
    inside.push(lines[at].replace(QUOTE, ""));
    at += 1;
  }
  const place = h("blockquote");
  blocks(place, inside, depth + 1);
  add(into, place);
  return at;
}

/** @param {HTMLElement} into @param {string[]} lines @param {number} at @param {number} depth */
function list(into, lines, at, depth) {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const ordered = /\d/.test(first[2]);
  const place = ordered ? h("ol", { start: Number.parseInt(first[2], 10) === 1 ? null : Number.parseInt(first[2], 10) }) : h("ul");
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[at])) break;
    const width = found[0].length;
    const inside = [lines[at].slice(width)];
    at += 1;
    while (at < lines.length && (!lines[at].trim() || indent(lines[at]) >= Math.min(width, found[1].length + 2) || (lines[at - 1].trim() && !starts(lines[at])))) {
      steps += 1;
      if (!lines[at].trim() && (at + 1 >= lines.length || (!ITEM.test(lines[at + 1]) && indent(lines[at + 1]) < found[1].length + 2))) break;
      inside.push(lines[at].slice(Math.min(indent(lines[at]), width)));
      at += 1;
    }
    const item = h("li");
    blocks(item, inside, depth + 1);
    add(place, item);
    if (at < lines.length && !lines[at].trim()) break;
  }
  add(into, place);
  return at;
}

/** @param {string} line */
function indent(line) {
  let width = 0;
  while (line[width] === " " || line[width] === "\t") width += 1;
  return width;
}

/** Return whether a line begins a block that is not a paragraph. @param {string} line */
function starts(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

/** @param {HTMLElement} into @param {string[]} lines @param {number} at */
function table(into, lines, at) {
  const head = cells(lines[at]);
  const body = h("tbody");
  const place = h("table", null, h("thead", null, h("tr", null, head.map((cell) => inline(h("th", { scope: "col" }), cell)))), body);
  for (at += 2; at < lines.length && lines[at].includes("|"); at++) {
    steps += 1;
    const row = cells(lines[at]);
    const missing = head.length - row.length;
    add(body, h("tr", null, row.slice(0, head.length).map((cell) => inline(h("td"), cell)), missing > 0 && h("td", { colspan: missing })));
  }
  add(into, h("div", { class: "markdown-table", tabindex: "0", role: "region", "aria-label": "Table" }, place));
  return at;
}

/** @param {string} line */
function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "").split(/(?<!\\)\|/, MOST_COLUMNS).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** @param {HTMLElement} into @param {string[]} lines @param {number} at @param {number} depth */
function paragraph(into, lines, at, depth) {
  const inside = [lines[at]];
  for (at += 1; at < lines.length && lines[at].trim() && !(depth < DEEPEST ? starts(lines[at]) : FENCE.test(lines[at])); at++) {
    steps += 1;
    inside.push(lines[at]);
  }
  add(into, inline(h("p"), inside.map((line) => line.trim()).join("\n")));
  return at;
}

/** The content after an opening mark. It becomes an element at the closing mark.
 * @typedef {{mark: string, nodes: Node[]}} Open */

/**
 * @template {HTMLElement} T
 * @param {T} place @param {string} source @returns {T}
 */
function inline(place, source) {
  /** @type {Open[]} */
  const open = [{ mark: "", nodes: [] }];
  const ticks = runsOfTicks(source);
  let plain = "";
  const put = (/** @type {Node} */ node) => void open[open.length - 1].nodes.push(node);
  const flush = () => {
    if (plain) put(text(plain));
    plain = "";
  };
  /** Turn opening marks without a closing mark back into text. @param {number} level */
  const giveUp = (level) => {
    while (open.length > level) {
      const { mark, nodes } = /** @type {Open} */ (open.pop());
      put(text(mark));
      for (const node of nodes) put(node);
    }
  };
  /** @param {number} level @param {(nodes: Node[]) => Node} make */
  const close = (level, make) => {
    flush();
    giveUp(level + 1);
    put(make(/** @type {Open} */ (open.pop()).nodes));
  };
  let at = 0;
  while (at < source.length) {
    steps += 1;
    const one = source[at];
    if (one === "\\" && /[!-/:-@[-`{-~]/.test(source[at + 1] ?? "")) {
      plain += source[at + 1];
      at += 2;
    } else if (one === "`") {
      const run = /** @type {number} */ (ticks.lengths.get(at));
      const end = ticks.after(run, at);
      if (end === null) plain += "`".repeat(run);
      else {
        flush();
        const inside = source.slice(at + run, end).replaceAll("\n", " ");
        put(h("code", null, text(inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() ? inside.slice(1, -1) : inside)));
      }
      at = end === null ? at + run : end + run;
    } else if (one === "*" || one === "_" || (one === "~" && source[at + 1] === "~")) {
      const ends = source[at + 1] !== one || (open[open.length - 1].mark === one && source[at + 2] === one);
      const mark = ends && one !== "~" ? one : one + one;
      at += mark.length;
      const level = open.findIndex((each) => each.mark === mark);
      const before = source[at - mark.length - 1] ?? " ";
      const inWord = one === "_" && /\w/.test(before) && /\w/.test(source[at] ?? " ");
      if (level > 0 && /\S/.test(before) && !inWord) close(level, (nodes) => h(one === "~" ? "del" : mark.length === 2 ? "strong" : "em", null, nodes));
      else if (level < 0 && /\S/.test(source[at] ?? " ") && !inWord) {
        flush();
        open.push({ mark, nodes: [] });
      } else plain += mark;
    } else if (one === "[" || (one === "!" && source[at + 1] === "[")) {
      flush();
      const before = open.findIndex((each) => each.mark === "[" || each.mark === "![");
      if (before > 0) giveUp(before);
      open.push({ mark: one === "[" ? "[" : "![", nodes: [] });
      at += one === "[" ? 1 : 2;
    } else if (one === "]") {
      const level = open.findIndex((each) => each.mark === "[" || each.mark === "![");
      const found = level > 0 && source[at + 1] === "(" ? target(source, at + 2) : null;
      if (found) {
        const picture = open[level].mark === "![";
        close(level, (nodes) => (picture ? pictureOf(found.url, nodes) : linkTo(found.url, nodes)));
        at = found.end;
      } else {
        plain += one;
        at += 1;
      }
    } else if (one === "h" && /^https?:\/\//.test(source.slice(at, at + 8)) && !/\w/.test(source[at - 1] ?? " ")) {
      const end = endOfUrl(source, at);
      flush();
      put(linkTo(source.slice(at, end), [text(source.slice(at, end))]));
      at = end;
    } else {
      plain += one;
      at += 1;
    }
  }
  flush();
  giveUp(1);
  add(place, open[0].nodes);
  return place;
}

/** Index the runs of backticks by position and length. @param {string} source */
function runsOfTicks(source) {
  /** @type {Map<number, number>} */
  const lengths = new Map();
  /** @type {Map<number, number[]>} */
  const places = new Map();
  /** @type {Map<number, number>} */
  const passed = new Map();
  for (const { 0: run, index } of source.matchAll(/`+/g)) {
    steps += 1;
    lengths.set(index, run.length);
    const known = places.get(run.length);
    if (known) known.push(index);
    else places.set(run.length, [index]);
  }
  return {
    lengths,
    /** @param {number} length @param {number} at @returns {number | null} */
    after(length, at) {
      const all = places.get(length) ?? [];
      let next = passed.get(length) ?? 0;
      for (; next < all.length && all[next] <= at; next++) steps += 1;
      passed.set(length, next);
      return all[next] ?? null;
    },
  };
}

/** Return the address of a link, up to its closing parenthesis. @param {string} source @param {number} at */
function target(source, at) {
  const from = at;
  let deep = 0;
  for (; at < source.length; at++) {
    steps += 1;
    const one = source[at];
    if (/[\s[\]<>]/.test(one)) break;
    if (one === "(" && ++deep > 1) return null;
    if (one === ")" && --deep < 0) return { url: source.slice(from, at), end: at + 1 };
  }
  const title = /^[ \n]+"([^"\n[\]]{0,200})"[ ]*\)/.exec(source.slice(at, at + 220));
  return title && at > from ? { url: source.slice(from, at), end: at + title[0].length } : null;
}

/** @param {string} source @param {number} at */
function endOfUrl(source, at) {
  while (at < source.length && !/[\s<>"'`*\]|\\]/.test(source[at]) && source[at] !== ")") {
    steps += 1;
    at += 1;
  }
  while (/[.,:;!?]/.test(source[at - 1])) at -= 1;
  return at;
}

/** @param {string} url @param {Node[]} nodes */
function linkTo(url, nodes) {
  const shown = nodes.map((node) => node.textContent).join("");
  const to = URL.canParse(url) ? new URL(url) : null;
  if (to === null || !/^https?:$/.test(to.protocol)) return h("span", null, nodes, shown === url ? null : [" (", h("code", null, text(url)), ")"]);
  const link = h("a", { href: to.href, target: "_blank", rel: "noreferrer noopener" }, nodes);
  const honest = (shown === url || shown === to.href) && !to.username && !to.password && !to.host.includes("xn--");
  return honest ? link : h("span", null, link, h("span", { class: "soft" }, " (", text(to.host), ")"));
}

/** @param {string} url @param {Node[]} nodes */
function pictureOf(url, nodes) {
  const about = nodes.map((node) => node.textContent).join("");
  return picture(url, about) ?? linkTo(url, [text(about || "Picture")]);
}

/** Return an image, or null if its address is not a `data:` URL of an image. @param {string} url @param {string} about */
export function picture(url, about) {
  return PICTURE.test(url) ? h("img", { class: "picture", src: url, alt: about, title: about || null }) : null;
}
