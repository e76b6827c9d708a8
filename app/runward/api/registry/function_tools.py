"""Tools in the formats of OpenAI's APIs, converted to Runward's."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from runward.api.http.models import RequestModel, create_request_model, with_example
from runward.api.registry.tool_models import RegisterTool
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolName, ToolSpec, closed_object

_OWN_FIELDS: Final = frozenset({"name", "description", "parameters", "strict"})
"""The fields of a function in OpenAI's formats."""
_OTHER_TYPES: Final = frozenset({"type", "agent", "output", "hosted", "implements", "settings"})
"""The fields of tools that are neither webhook tools nor client tools."""
_WEATHER: Final[JsonObject] = {
    "name": "weather",
    "description": "Returns the current weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
_URL: Final = "https://tools.example.com/weather"
_DESCRIBED: Final = ConfigDict(use_attribute_docstrings=True)
_Options = create_request_model(
    "_Options",
    {
        name: (field.annotation, field)
        for name, field in RegisterTool.model_fields.items()
        if name not in _OWN_FIELDS | _OTHER_TYPES
    },
)


class FunctionDefinition(RequestModel):
    """A function in the format of OpenAI's APIs."""

    name: ToolName
    """Name of the tool that models use to call it. Unique in the project."""
    description: Annotated[str, Field(max_length=16_384)] | None = None
    """Description of the tool for the model: what the tool does and when to use it. Null: no
    description."""
    parameters: JsonObject | None = None
    """JSON Schema of the arguments. Its type must be `object`. Null or an empty object: the tool
    has no arguments."""
    strict: bool | None = None
    """Whether the model must follow the schema exactly: all properties are required, and no others
    are allowed. Null: false, as in OpenAI's Chat Completions API."""

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of the tool."""
        return {
            "name": self.name,
            "description": self.description or "",
            "parameters": self.parameters or closed_object(),
            "strict": bool(self.strict),
        }


class FunctionTool(FunctionDefinition, _Options):
    """A tool in the format of OpenAI's Responses API. With a `url`, it is a tool of type `webhook`.
    Without a `url`, it is a tool of type `client`. All other options of these types are allowed."""

    model_config = _DESCRIBED | with_example(type="function", **_WEATHER, url=_URL)

    type: Literal["function"]
    defer_loading: bool | None = None
    """OpenAI's name of `defer`. Null: `defer` applies."""

    def to_spec(self) -> ToolSpec:
        """Return the specification."""
        spec = _build_spec(self, self)
        return spec.model_copy(update={"defer": True}) if self.defer_loading else spec

    def locate(self, path: str) -> str:
        """Return the path in the request of a path in the specification."""
        return path


class NestedFunctionTool(_Options):
    """A tool in the format of OpenAI's Chat Completions API. With a `url`, it is a tool of type
    `webhook`. Without a `url`, it is a tool of type `client`. All other options of these types are
    allowed."""

    model_config = _DESCRIBED | with_example(type="function", function=_WEATHER, url=_URL)

    type: Literal["function"]
    function: FunctionDefinition
    """The function: its name, its description, and its parameters."""

    def to_spec(self) -> ToolSpec:
        """Return the specification."""
        return _build_spec(self, self.function)

    def locate(self, path: str) -> str:
        """Return the path in the request of a path in the specification."""
        return f"function.{path}" if path.partition(".")[0] in _OWN_FIELDS else path


def _build_spec(options: RequestModel, function: FunctionDefinition) -> ToolSpec:
    fields = {name: value for name, value in options if name in _Options.model_fields}
    type_ = "client" if fields["url"] is None else "webhook"
    return ToolSpec.model_construct(None, **fields, **function.to_fields(), type=type_)


def get_tool_tag(value: object) -> str:
    """Return the name of the model that a tool in a request has. `value`: its JSON."""
    match value:
        case {"type": "function", "function": dict()}:
            return "NestedFunctionTool"
        case {"type": "function"}:
            return "FunctionTool"
        case _:
            return "RegisterTool"


ToolDefinition = Annotated[
    Annotated[RegisterTool, Tag("RegisterTool")]
    | Annotated[FunctionTool, Tag("FunctionTool")]
    | Annotated[NestedFunctionTool, Tag("NestedFunctionTool")],
    Field(discriminator=Discriminator(get_tool_tag)),
]
"""A tool in Runward's format, or in one of OpenAI's."""
