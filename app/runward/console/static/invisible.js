// Invisible characters that change the displayed text: controls, zero-width and bidirectional
// characters, tags, unusual spaces, variation selectors, lone surrogates, blank letters, and stacks of
// accents that cover other lines. An approver must see all of the data that is sent.

/** @typedef {{text: string, mark: boolean, title?: string}} Part */

const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000\u2800]/u;
const ACCENT = /[\p{Mn}\p{Me}]/u;
const ACCENTS = 4;
const PICTURE = /\p{Extended_Pictographic}$/u;

/** @type {Record<number, string>} */
const NAMES = {
  0x00: "NULL", 0x08: "BACKSPACE", 0x0d: "CARRIAGE RETURN", 0x1b: "ESCAPE", 0x7f: "DELETE",
  0xa0: "NO-BREAK SPACE", 0xad: "SOFT HYPHEN", 0x61c: "ARABIC LETTER MARK",
  0x200b: "ZERO WIDTH SPACE", 0x200c: "ZERO WIDTH NON-JOINER", 0x200d: "ZERO WIDTH JOINER",
  0x200e: "LEFT-TO-RIGHT MARK", 0x200f: "RIGHT-TO-LEFT MARK", 0x2028: "LINE SEPARATOR",
  0x2029: "PARAGRAPH SEPARATOR", 0x202a: "LEFT-TO-RIGHT EMBEDDING",
  0x202b: "RIGHT-TO-LEFT EMBEDDING", 0x202c: "POP DIRECTIONAL FORMATTING",
  0x202d: "LEFT-TO-RIGHT OVERRIDE", 0x202e: "RIGHT-TO-LEFT OVERRIDE", 0x2060: "WORD JOINER",
  0x2066: "LEFT-TO-RIGHT ISOLATE", 0x2067: "RIGHT-TO-LEFT ISOLATE",
  0x2068: "FIRST STRONG ISOLATE", 0x2069: "POP DIRECTIONAL ISOLATE",
  0xfeff: "ZERO WIDTH NO-BREAK SPACE",
};

/**
 * Split a text into parts. Invisible characters become marks such as `U+202E`, repeated ones
 * `U+200B ×3`. Line breaks and tabs stay.
 * @param {string} value
 * @returns {Part[]}
 */
export function split(value) {
  if (!UNSEEN.test(value) && !ACCENT.test(value)) return value ? [{ text: value, mark: false }] : [];
  /** @type {Part[]} */
  const parts = [];
  const characters = Array.from(value);
  let plain = "";
  let piled = 0;
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at];
    piled = ACCENT.test(character) ? piled + 1 : 0;
    if (piled <= ACCENTS && (character === "\n" || character === "\t" || !UNSEEN.test(character) || joins(characters, at))) {
      plain += character;
      continue;
    }
    if (plain) parts.push({ text: plain, mark: false });
    plain = "";
    let times = 1;
    while (characters[at + 1] === character) {
      at += 1;
      times += 1;
    }
    const code = /** @type {number} */ (character.codePointAt(0));
    const shown = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    const name = NAMES[code] ?? (ACCENT.test(character) ? "accent upon accents" : "invisible character");
    parts.push({ text: times > 1 ? `${shown} ×${times}` : shown, mark: true, title: `${shown} ${name}` });
  }
  if (plain) parts.push({ text: plain, mark: false });
  return parts;
}

/**
 * Return a text with its invisible characters as `⟨U+202E⟩`, for places that cannot contain elements.
 * @param {unknown} value
 */
export function marked(value) {
  return joined(split(String(value ?? "")));
}

/** @param {Part[]} parts */
export function joined(parts) {
  return parts.map((part) => (part.mark ? `⟨${part.text}⟩` : part.text)).join("");
}

/**
 * Return whether a character is part of an emoji: U+FE0F after a pictograph, or U+200D between two.
 * @param {string[]} characters
 * @param {number} at
 */
function joins(characters, at) {
  const before = characters[at - 1] ?? "";
  if (characters[at] === "\uFE0F") return PICTURE.test(before);
  if (characters[at] !== "\u200D") return false;
  const picture = before === "\uFE0F" ? (characters[at - 2] ?? "") : before;
  return PICTURE.test(picture) && PICTURE.test(characters[at + 1] ?? "");
}
