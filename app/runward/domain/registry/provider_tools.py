"""Tools that providers know by kind. Pure.

The model's provider runs hosted tools. Runward runs executors (a shell, a tool that applies
patches, a computer) through a webhook or a plugin of that kind. If a model's provider knows the
kind of an executor, the model gets the provider's own tool, because it was trained on it. Any other
model gets a function with the same arguments. Arguments and results have the format of OpenAI's
Responses API (`shell_call.action`, `apply_patch_call`, `computer_call`).
"""

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.tools import (
    ApprovalRule,
    ComputerSettings,
    ExecutorKind,
    HostedTool,
    closed_object,
)


@dataclass(frozen=True, slots=True)
class ExecutorTool:
    description: str
    parameters: JsonObject


_TEXT: Final[JsonObject] = {"type": "string"}
_WHOLE: Final[JsonObject] = {"type": ["integer", "null"], "minimum": 1}

EXECUTORS: Final[dict[ExecutorKind, ExecutorTool]] = {
    "shell": ExecutorTool(
        "Runs shell commands one after another. Returns the standard output, the standard error "
        "and the exit status of each command.",
        closed_object(
            "commands",
            commands={"type": "array", "items": _TEXT, "minItems": 1},
            timeout_ms=_WHOLE | {"description": "Timeout of each command in milliseconds."},
            max_output_length=_WHOLE
            | {"description": "Maximum number of characters that are returned of each output."},
        ),
    ),
    "apply_patch": ExecutorTool(
        "Creates, updates or deletes one file. A diff is in the V4A format: lines that begin with "
        "a space, + or -, in sections that begin with @@.",
        closed_object(
            "operation",
            operation={
                "anyOf": [
                    closed_object(
                        *("type", "path", "diff"),
                        type={"type": "string", "enum": ["create_file", "update_file"]},
                        path=_TEXT,
                        diff=_TEXT,
                    ),
                    closed_object(
                        *("type", "path"),
                        type={"type": "string", "enum": ["delete_file"]},
                        path=_TEXT,
                    ),
                ]
            },
        ),
    ),
    "computer": ExecutorTool(
        "Performs actions on a screen in the given order (click, double_click, drag, keypress, "
        "move, screenshot, scroll, type, wait). Returns a screenshot.",
        closed_object(
            "actions",
            actions={
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"type": _TEXT},
                    "required": ["type"],
                },
            },
            pending_safety_checks={
                "type": ["array", "null"],
                "items": {"type": "object"},
                "description": "Safety checks of the provider. A person must acknowledge "
                "them before the actions run.",
            },
        ),
    ),
}

MCP_REQUEST: Final = closed_object(
    *("name", "arguments"),
    server_label=_TEXT | {"description": "The server's label."},
    name=_TEXT | {"description": "Name of the tool that the provider calls."},
    arguments={"type": "object"},
)
"""The arguments of a call in which a provider requests permission to call a tool of a hosted MCP
server."""


def describe_executor(kind: ExecutorKind, settings: ComputerSettings | None) -> str:
    """Return the default description of an executor."""
    description = EXECUTORS[kind].description
    if settings is None:
        return description
    size = f"{settings.display_width} by {settings.display_height} pixels"
    return f"{description} The screen has {size} (environment: {settings.environment})."


def hosted_parameters(hosted: HostedTool) -> JsonObject:
    """Return the parameters of a hosted tool. Only hosted MCP servers have any."""
    return MCP_REQUEST if hosted.kind == "mcp" else closed_object()


def default_hosted_approval(
    *, hosted: HostedTool | None = None, implements: ExecutorKind | None = None
) -> ApprovalRule:
    """Return the default approval rule of a hosted tool."""
    asks = implements is not None or (hosted is not None and hosted.kind == "mcp")
    return "always" if asks else "never"


def add_setting(settings: JsonObject, path: str, value: str) -> JsonObject:
    """Return the settings with another value. A dot in the path selects a field of an object, or an
    entry of an array by its index. The name of a new field can contain dots. Raises LookupError if
    the array has no such entry."""
    name, dot, inner = path.partition(".")
    return settings | {name: _add_field(settings.get(name), inner, value) if dot else value}


def _add_field(outer: JsonValue, path: str, value: str) -> JsonValue:
    name, dot, inner = path.partition(".")
    match outer:
        case list():
            index = int(name) if name.isascii() and name.isdecimal() and len(name) < 5 else None
            if index is None or index >= len(outer):
                raise LookupError(path)
            entry = _add_field(outer[index], inner, value) if dot else value
            return [*outer[:index], entry, *outer[index + 1 :]]
        case dict() if dot and isinstance(outer.get(name), dict | list):
            return outer | {name: _add_field(outer[name], inner, value)}
        case dict():
            return outer | {path: value}
        case _:
            return {path: value}
