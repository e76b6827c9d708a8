"""Descriptions of a function and its parameters, read from its docstring in one of three styles."""

import inspect
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Final

from runward.tools.plugin.declarations import DocstringStyle

_SPHINX: Final = re.compile(
    r"^\s*:(param|parameter|arg|argument|return|returns|raises|type)\b", re.M
)
_NUMPY: Final = re.compile(r"^\s*(Parameters|Returns|Raises|Other Parameters)\s*\n\s*-{3,}", re.M)


@dataclass(frozen=True, slots=True)
class ParsedDocstring:
    """A parsed docstring. `text` has no sections about parameters, results and errors."""

    text: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def read_docstring(function: Any, style: DocstringStyle) -> ParsedDocstring:
    text = inspect.getdoc(function)
    if not text or style == "off":
        return ParsedDocstring()
    griffe = _griffe()
    kinds = griffe.DocstringSectionKind
    parsed = griffe.Docstring(text, parser=_detected(text) if style == "auto" else style)
    texts: list[str] = []
    parameters: dict[str, str] = {}
    for section in parsed.parsed:
        if section.kind is kinds.text:
            texts.append(section.value.strip())
        elif section.kind in (kinds.parameters, kinds.other_parameters):
            for one in section.value:
                parameters[one.name.lstrip("*")] = one.description.strip()
    return ParsedDocstring("\n\n".join(texts), parameters)


def _detected(text: str) -> DocstringStyle:
    if _SPHINX.search(text):
        return "sphinx"
    return "numpy" if _NUMPY.search(text) else "google"


@cache
def _griffe() -> ModuleType:
    """Return the `griffe` module, imported at first use because that takes a tenth of a second. Its
    warnings about missing annotations are silenced."""
    import griffe  # noqa: PLC0415

    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    return griffe
