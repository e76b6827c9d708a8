"""The texts of the offline model."""

from collections.abc import Sequence
from typing import Final

from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import ToolResult
from runward.llm.offline.arguments import fill_arguments

LABEL: Final = "(offline model)"
MAX_QUOTE: Final = 300  # Maximum number of characters that are quoted of one result.


def quote_result(name: str, result: ToolResult) -> str:
    verb = "failed" if result.is_error else "answered"
    return f"{name} {verb}: {_short(result.text)}"


def introduce(said: str, tools: Sequence[ToolSpec]) -> str:
    opening = f"{LABEL} This is a rule-based stand-in, not a language model."
    heard = f' It was told: "{_short(said)}".' if said.strip() else ""
    if not tools:
        return f"{opening}{heard} It has no tools to call."
    names = ", ".join(spec.name for spec in tools)
    return f"{opening}{heard} It can call {names}: write for example {_example(tools[0])}."


def _example(spec: ToolSpec) -> str:
    invented = fill_arguments(spec.parameters, "", force=True) or {}
    arguments = ", ".join(f"{name}={compact(value)}" for name, value in invented.items())
    return f"{spec.name}({arguments})"


def fill_schema(schema: JsonObject, text: str) -> str:
    """Return an object that matches the schema. Its first text property is the answer."""
    filled = fill_arguments(schema, text, force=True) or {}
    for name, value in filled.items():
        if value == "" or (isinstance(value, str) and value in text):
            return compact({**filled, name: text})
    return compact(filled)


def _short(text: str) -> str:
    return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"
