"""Escape untrusted text, such as text of models and tools, for a terminal.

Escape sequences control a terminal. Invisible characters and characters that change the writing
direction mislead a reader (Unicode TR 36). All of them are printed as escapes such as `\\u202e`.
"""

import unicodedata
from typing import Final

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control characters, invisible formatting characters, lone surrogates, and line separators."""
_BLANK: Final = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that are not visible."""


def escape_text(text: str) -> str:
    """Escape a text of several lines. Line feeds are kept."""
    return "".join(one if _is_printable(one) else _escape_character(one) for one in text)


def escape_line(text: str) -> str:
    """Escape a text and its line feeds, so that the result is one line."""
    return escape_text(text).replace("\n", "\\n")


def _is_printable(character: str) -> bool:
    if " " <= character <= "~" or character == "\n":
        return True
    return unicodedata.category(character) not in _UNSAFE and character not in _BLANK


def _escape_character(character: str) -> str:
    short = {"\t": "\\t", "\r": "\\r"}.get(character)
    return short or (
        f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"
    )
