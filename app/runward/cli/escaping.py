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


def visible(text: str) -> str:
    """Line feeds stay."""
    return "".join(one if _is_plain(one) else _escaped(one) for one in text)


def visible_line(text: str) -> str:
    """In one line."""
    return visible(text).replace("\n", "\\n")


def _is_plain(one: str) -> bool:
    if " " <= one <= "~" or one == "\n":
        return True
    return unicodedata.category(one) not in _UNSAFE and one not in _BLANK


def _escaped(one: str) -> str:
    short = {"\t": "\\t", "\r": "\\r"}.get(one)
    return short or (f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}")
