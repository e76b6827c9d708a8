"""The tools of a Responses request, and the tool to which an item of a response belongs."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.tools import ExecutorKind, HostedTool, HostedToolKind, ToolSpec
from runward.llm.base import RequestedToolChoice
from runward.llm.openai.request_parts import Functions

PROVIDER: Final = "openai-responses"
NATIVE_TOOLS: Final[Mapping[ExecutorKind, JsonObject]] = {
    "shell": {"type": "shell", "environment": {"type": "local"}},
    "apply_patch": {"type": "apply_patch"},
    "computer": {"type": "computer"},
}
"""OpenAI's native tools that Runward executes."""
SIZED_COMPUTER_MODELS: Final = "computer-use-preview"
"""The beginning of the names of models whose computer tool has the size of the screen."""
REQUIRED_SETTINGS: Final[Mapping[HostedToolKind, JsonObject]] = {
    "code_interpreter": {"container": {"type": "auto"}},
    "shell": {"environment": {"type": "container_auto"}},
}
"""Settings that OpenAI requires."""
INCLUDE_OPTIONS: Final[Mapping[HostedToolKind, str]] = {
    "web_search": "web_search_call.action.sources",
    "file_search": "file_search_call.results",
    "code_interpreter": "code_interpreter_call.outputs",
}
"""Values of `include` that request further results of a tool."""


def function_tool(definition: JsonObject) -> JsonObject:
    return {"type": "function", "strict": False, **definition}


class DeclaredTools:
    """The tools of one request. If several tools execute the same kind, the first becomes OpenAI's
    native tool of this kind, and the others become functions. If OpenAI runs the kind itself, all
    become functions."""

    def __init__(self, tools: Iterable[ToolSpec], functions: Functions, model: str = "") -> None:
        self._model = model
        self._tools = tuple(tools)
        self._functions = functions
        self._native: dict[ExecutorKind, str] = {}
        self._hosted = {tool.hosted.kind for tool in self._tools if tool.hosted is not None}
        for tool in self._tools:
            if tool.implements is not None:
                self._native.setdefault(tool.implements, tool.name)

    def __bool__(self) -> bool:
        return bool(self._tools)

    def definitions(self) -> list[JsonValue]:
        return [self._definition(tool) for tool in self._tools]

    def functions(self) -> tuple[ToolSpec, ...]:
        """Return the tools that are sent as functions."""
        return tuple(tool for tool in self._tools if not self._is_native(tool))

    def include_options(self) -> list[str]:
        return [told for kind, told in INCLUDE_OPTIONS.items() if kind in self._hosted]

    def choice(self, choice: RequestedToolChoice) -> JsonValue:
        if isinstance(choice, str):
            return choice
        named = next(tool for tool in self._tools if tool.name == choice["name"])
        if named.hosted is not None and named.hosted.kind == "shell":
            return {"type": "shell"}
        if named.hosted is not None:
            tool = self._definition(named)
            known = {key: tool[key] for key in ("type", "server_label") if key in tool}
            return {"type": "allowed_tools", "mode": "required", "tools": [known]}
        if self._is_native(named):
            return {"type": self._definition(named)["type"]}
        return {"type": "function", "name": named.name}

    def executor_name(self, kind: ExecutorKind) -> str:
        """Return the name of the registered tool that executes this kind, or the kind if
        no tool is registered for it."""
        return self._native.get(kind, kind)

    def is_hosted_shell(self, call: JsonObject) -> bool:
        """Return whether OpenAI runs this shell call in one of its containers."""
        match call.get("environment"):
            case {"type": str(type_)}:
                return type_ != "local"
            case _:
                return "shell" in self._hosted

    def hosted_name(self, kind: str, server_label: Any = None) -> str:
        """Return the name of the registered hosted tool of this kind, or the kind if no
        tool is registered for it."""
        of_kind = [t for t in self._tools if t.hosted is not None and t.hosted.kind == kind]
        for tool in of_kind:
            if self._definition(tool).get("server_label") == server_label:
                return tool.name
        return of_kind[0].name if of_kind else kind

    def _definition(self, tool: ToolSpec) -> JsonObject:
        if tool.hosted is not None:
            return _hosted(tool, tool.hosted)
        if tool.implements is not None and self._is_native(tool):
            if tool.settings is not None and self._model.startswith(SIZED_COMPUTER_MODELS):
                return {"type": "computer_use_preview", **tool.settings.model_dump()}
            return NATIVE_TOOLS[tool.implements]
        return self._functions.definition(tool)

    def _is_native(self, tool: ToolSpec) -> bool:
        if tool.hosted is not None:
            return True
        if tool.implements is None or tool.implements in self._hosted:
            return False
        return self._native[tool.implements] == tool.name


def _hosted(tool: ToolSpec, hosted: HostedTool) -> JsonObject:
    """Return the definition of a tool that OpenAI runs, with its registered settings."""
    said: JsonObject = {"type": hosted.kind, **REQUIRED_SETTINGS.get(hosted.kind, {})}
    if hosted.kind == "mcp":
        asks = "never" if tool.approval == "never" else "always"
        said |= {"server_label": tool.name, "require_approval": asks}
    return said | hosted.settings
