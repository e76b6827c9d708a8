"""Text of models, tools and strangers, made safe for a terminal.

A terminal obeys escape sequences, and a reader is misled by characters that turn the writing
around or cannot be seen (Unicode TR 36). All of them are shown as `\\u202e` instead.
"""

import unicodedata
from typing import Final

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, invisible formatting, half characters, and separators of lines."""
_BLANK: Final = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that have no ink."""


def escape_text(text: str) -> str:
    """Line feeds stay."""
    return "".join(one if _is_printable(one) else _escape_character(one) for one in text)


def escape_line(text: str) -> str:
    """In one line."""
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
