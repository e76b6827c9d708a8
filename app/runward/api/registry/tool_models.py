"""Request and response models of tools."""

from collections.abc import Mapping
from copy import copy
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self, Union, get_args

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.fields import FieldInfo

from runward.api.http.models import (
    EXAMPLE_TIME,
    TOOL_ID,
    RequestModel,
    ResponseModel,
    create_request_model,
    remove_default,
    with_example,
)
from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.registry.provider_tools import (
    EXECUTORS,
    default_hosted_approval,
    describe_executor,
    hosted_parameters,
)
from runward.domain.registry.tools import (
    CallableRule,
    ExecutorKind,
    FailureFunction,
    HeaderValue,
    HostedTool,
    SecretReference,
    ToolSpec,
    ToolType,
    closed_object,
)
from runward.domain.run.outcomes import Done, Failed, NeedsInput, Outcome, Waits
from runward.store.registry.tool_registry import RegisteredTool

_TOOL_EXAMPLE: Final[JsonObject] = {
    "name": "pay",
    "description": "Pays an amount in euros.",
    "parameters": {
        "type": "object",
        "properties": {"amount": {"type": "number"}},
        "required": ["amount"],
    },
    "type": "webhook",
    "url": "https://tools.example.com/pay",
    "approval": {"when": "args.amount > 100"},
    "timeout_seconds": 30,
}

HIDDEN_VALUE: Final = "…"
"""The value of each header in responses. Header values often contain credentials."""


AGENT_PARAMETERS: Final = closed_object("input", input={"type": "string"})
"""The default parameters of a tool of type `agent`."""
OVERRIDABLE_FIELDS: Final = frozenset(
    {"approval", "approval_expires_seconds", "reject_message", "enabled", "timeout_seconds"}
    | {"on_timeout", "on_error", "on_unknown", "guardrails", "concurrency", "max_output_bytes"}
    | {"defer", "metadata"}
)
"""The fields that a project may change if a plugin or an MCP server provides the tool. The plugin
or server defines all other fields."""


_CODE_TYPES: Final = (CallableRule, FailureFunction)
"""The types of fields that refer to a function of a plugin."""


def _reject_code_types(value: Any) -> Any:
    if value == "plugin":
        raise ValueError(
            "must not be plugin, because Runward registers plugin tools from installed code"
        )
    if value == "mcp":
        raise ValueError(
            "must not be mcp; register the MCP server with POST /v1/mcp_servers instead"
        )
    return value


def _convert_field(name: str, field: FieldInfo) -> Any:
    """Return a field of a request, without the types that only code can use."""
    changed = copy(field)
    annotation: Any = field.annotation
    if name in ("approval", "enabled", "on_error"):
        kinds = tuple(one for one in get_args(annotation) if one not in _CODE_TYPES)
        annotation = Union[kinds]  # noqa: UP007  # of a tuple
    elif name == "headers":
        annotation = dict[str, str | SecretReference]
    return annotation, changed


def _convert_register_field(name: str, field: FieldInfo) -> Any:
    if name == "type":
        about = Field(default="webhook", description=field.description)
        return Annotated[
            Literal["webhook", "agent", "client", "hosted"], BeforeValidator(_reject_code_types)
        ], about
    annotation, changed = _convert_field(name, field)
    if name == "parameters":
        changed = Field(default_factory=dict, description=field.description)
    return annotation, changed


_CODE_FIELDS: Final = frozenset({"code", "mcp"})
_RegisterToolFields = create_request_model(
    "_Registering",
    {
        name: _convert_register_field(name, field)
        for name, field in ToolSpec.model_fields.items()
        if name not in _CODE_FIELDS
    },
)


class RegisterTool(_RegisterToolFields):
    """A tool to register. Tools of type `webhook` need a `url`, tools of type `agent` an `agent`,
    and tools of type `hosted` a `hosted` object. Tools of type `webhook` and `client` also need
    `parameters`, unless `implements` is set. Sizes are in bytes and durations in seconds."""

    model_config = with_example(**_TOOL_EXAMPLE)

    def to_spec(self) -> ToolSpec:
        """Return the specification. Raises InvalidRequestError."""
        fields = dict(self)
        given = self.model_fields_set
        hosted: HostedTool | None = fields["hosted"]
        implements: ExecutorKind | None = fields["implements"]
        fixed = _find_fixed_parameters(fields["type"], hosted, implements)
        if fixed is None:
            if "parameters" not in given:
                raise InvalidRequestError(errors=[FieldError("parameters", "is required")])
        elif "parameters" not in given:
            fields["parameters"] = fixed
        elif fields["type"] != "agent":
            text = "must be omitted, because the kind of tool defines its parameters"
            raise InvalidRequestError(errors=[FieldError("parameters", text)])
        if hosted is not None or implements is not None:
            fields["strict"] = False
            if "approval" not in given:
                fields["approval"] = default_hosted_approval(hosted=hosted, implements=implements)
            if implements is not None and not fields["description"]:
                fields["description"] = describe_executor(implements, fields["settings"])
        return ToolSpec.model_construct(given | {"parameters"}, **fields)

    def locate(self, path: str) -> str:
        """Return the path in the request of a path in the specification."""
        return path


def _find_fixed_parameters(
    type_: ToolType, hosted: HostedTool | None, implements: ExecutorKind | None
) -> JsonObject | None:
    """Return the parameters that the type or kind of the tool defines. Tools of type `agent` may
    replace theirs."""
    if type_ == "hosted":
        return {"type": "object"} if hosted is None else hosted_parameters(hosted)
    if implements is not None:
        return EXECUTORS[implements].parameters
    return dict(AGENT_PARAMETERS) if type_ == "agent" else None


class Tool(ToolSpec):
    """A registered tool. Runward never shows the values of its headers."""

    model_config = ConfigDict(
        extra="forbid",
        strict=False,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    ) | with_example(
        id=TOOL_ID,
        version=1,
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
        **_TOOL_EXAMPLE,
    )

    headers: dict[str, str | SecretReference] = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=dict
    )
    """HTTP headers that Runward sends with every call. Values are shown as `…`, and references to
    secrets are shown unchanged."""
    id: str
    """ID of the tool. Globally unique."""
    object: Literal["tool"] = "tool"
    version: int
    """Version of the tool. It starts at 1 and grows by 1 with each update. A call uses the version
    that the model saw."""
    created_at: datetime
    """When the tool was registered."""
    updated_at: datetime
    """When this version of the resource was created."""

    @classmethod
    def from_row(cls, tool: RegisteredTool, **fields: Any) -> Self:
        """Return the tool of a row. It is not validated again."""
        return cls.model_construct(
            None,
            **dict(tool.spec) | {"headers": hide_header_values(tool.spec.headers)},
            id=format_id(Prefix.TOOL, tool.id),
            version=tool.version,
            created_at=tool.created_at,
            updated_at=tool.updated_at,
            **fields,
        )


def hide_header_values(headers: Mapping[str, HeaderValue]) -> dict[str, str | SecretReference]:
    return {
        n: one if isinstance(one, SecretReference) else HIDDEN_VALUE for n, one in headers.items()
    }


class NewTool(Tool):
    """A tool that was just registered, with its signing secret."""

    model_config = with_example(
        id=TOOL_ID,
        version=1,
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
        **_TOOL_EXAMPLE,
        secret="whsec_…",  # noqa: S106  # an example
    )

    secret: str
    """Signing secret of the tool's calls (`whsec_…`). Runward returns it only once."""


class ToolSecret(ResponseModel):
    """The new signing secret of a tool. The previous secret stays valid for 24 hours."""

    model_config = with_example(secret="whsec_…")  # noqa: S106  # an example

    secret: str
    """The new signing secret (`whsec_…`). Runward returns it only once."""


class TestTool(RequestModel):
    """A test call of a tool, outside of any run."""

    model_config = with_example(arguments={"amount": 5})

    arguments: JsonObject
    """Arguments of the call. They must match the tool's schema."""
    context: JsonObject | None = None
    """Context of the test call, which replaces the `context` of a run. Null: no context."""


class ToolTestResult(ResponseModel):
    """The result of a test call."""

    model_config = with_example(
        outcome="completed", output={"paid": True}, detail=None, status=None, seconds=0.012
    )

    outcome: Literal["completed", "accepted", "failed"]
    """Outcome of the test call. `accepted`: the tool returned 202 and would submit the result
    later."""
    output: JsonValue = None
    """Output of the call. If the call failed, the tool's error message for the model. Null if the
    call failed without such a message."""
    detail: str | None = None
    """Description of the error, for operators. Null if the call succeeded."""
    status: int | None = None
    """HTTP status of a failed call. Null for other calls and for tools without HTTP."""
    seconds: float
    """Duration of the call in seconds."""

    @classmethod
    def from_outcome(cls, outcome: Outcome, *, seconds: float) -> "ToolTestResult":
        seconds = round(seconds, 6)
        match outcome:
            case Done(output=output):
                return cls(outcome="completed", output=output, seconds=seconds)
            case Waits() | NeedsInput():
                return cls(outcome="accepted", seconds=seconds)
            case Failed(message=message, detail=detail, status=status):
                return cls(
                    outcome="failed",
                    output=message,
                    detail=detail,
                    status=status,
                    seconds=seconds,
                )


_FIXED_FIELDS: Final = frozenset({"name", "type", "implements"}) | _CODE_FIELDS
_NOT_NULL_FIELDS: Final = frozenset(
    name
    for name, field in ToolSpec.model_fields.items()
    if type(None) not in get_args(field.annotation)
)


def make_optional_field(name: str, field: FieldInfo) -> Any:
    annotation, changed = _convert_field(name, field)
    if name in OVERRIDABLE_FIELDS:
        annotation |= None
    return annotation, remove_default(changed)


_ToolPatchFields = create_request_model(
    "_Optional",
    {
        n: make_optional_field(n, f)
        for n, f in ToolSpec.model_fields.items()
        if n not in _FIXED_FIELDS
    },
)


class UpdateTool(_ToolPatchFields):
    """The fields to update. Each field in the request replaces the previous value completely. For
    tools of plugins and MCP servers, only settings such as `approval` and `timeout_seconds` can be
    updated. For these tools, null restores the original value."""

    def find_errors(self, spec: ToolSpec) -> list[FieldError]:
        """Return the errors of an update: fields that this tool does not allow to change."""
        type_ = spec.type
        if type_ in ("plugin", "mcp"):
            whose = "plugin's code" if type_ == "plugin" else "MCP server"
            message = f"is defined by the {whose} and cannot be updated"
            return [
                FieldError(n, message) for n in sorted(self.model_fields_set - OVERRIDABLE_FIELDS)
            ]
        fixed = type_ == "hosted" or spec.implements is not None
        if fixed and "parameters" in self.model_fields_set:
            return [
                FieldError(
                    "parameters",
                    "cannot be updated, because the kind of tool defines its parameters",
                )
            ]
        changed: HostedTool | None = getattr(self, "hosted", None)
        if changed is not None and spec.hosted is not None and changed.kind != spec.hosted.kind:
            return [FieldError("hosted.kind", "cannot be updated; register another tool")]
        nulls = sorted(
            n for n in self.model_fields_set & _NOT_NULL_FIELDS if getattr(self, n) is None
        )
        return [FieldError(name, "must not be null") for name in nulls]


def apply_patch(spec: ToolSpec, patch: UpdateTool, code: ToolSpec | None = None) -> ToolSpec:
    """Apply the fields that the client sent, including nulls. `code`: the specification of a plugin
    or an MCP server. If it is given, null restores its value."""
    given: Mapping[str, JsonValue] = {name: getattr(patch, name) for name in patch.model_fields_set}
    if code is not None:
        given = {n: getattr(code, n) if value is None else value for n, value in given.items()}
    changed = spec.model_copy(update=given)
    kind = spec.implements
    if kind is not None and changed.description == describe_executor(kind, spec.settings):
        text = describe_executor(kind, changed.settings)
        changed = changed.model_copy(update={"description": text})
    return changed


def dump_overrides(patch: UpdateTool) -> JsonObject:
    """Return the fields that the client sent, as JSON."""
    given: JsonObject = patch.model_dump(mode="json", include=patch.model_fields_set)
    return given
