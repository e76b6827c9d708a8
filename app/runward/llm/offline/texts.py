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
    verb = "failed" if result.is_error else "returned"
    return f"{name} {verb}: {_short(result.text)}"


def introduce(message: str, tools: Sequence[ToolSpec]) -> str:
    """Return the answer to a message that requests no tool call."""
    sentences = [f"{LABEL} This model follows fixed rules. It is not a language model."]
    if message.strip():
        sentences.append(f'Your message: "{_short(message)}".')
    if tools:
        names = ", ".join(spec.name for spec in tools)
        sentences.append(f"Available tools: {names}. To call one, write {_example(tools[0])}.")
    else:
        sentences.append("No tools are available.")
    return " ".join(sentences)


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
