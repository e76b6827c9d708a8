// Characters that change what a reader sees without being seen: controls, zero-width and
// bidirectional ones, tags, unusual spaces, variation selectors, lone surrogates, letters that are
// blank. A person who approves a call must see all of what is sent.

/** @typedef {{text: string, mark: boolean, title?: string}} Part */

const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Variation_Selector}\u00A0\u034F\u115F\u1160\u1680\u17B4\u17B5\u2000-\u200A\u202F\u205F\u3000\u2800\u3164\uFFA0]/u;
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
 * The text in pieces, those that cannot be seen as `U+202E`. Line breaks and tabs stay.
 * @param {string} value
 * @returns {Part[]}
 */
export function split(value) {
  if (!UNSEEN.test(value)) return value ? [{ text: value, mark: false }] : [];
  /** @type {Part[]} */
  const parts = [];
  const characters = Array.from(value);
  let plain = "";
  characters.forEach((character, at) => {
    if (character === "\n" || character === "\t" || !UNSEEN.test(character) || joins(characters, at)) {
      plain += character;
      return;
    }
    if (plain) parts.push({ text: plain, mark: false });
    plain = "";
    const code = /** @type {number} */ (character.codePointAt(0));
    const shown = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    parts.push({ text: shown, mark: true, title: `${shown} ${NAMES[code] ?? "invisible character"}` });
  });
  if (plain) parts.push({ text: plain, mark: false });
  return parts;
}

/**
 * Whether it only makes an emoji what it is: U+FE0F behind a picture, U+200D between two.
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
