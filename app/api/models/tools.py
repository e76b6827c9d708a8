"""Tools, as they are registered, changed and shown."""

from collections.abc import Mapping
from copy import copy
from datetime import datetime
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, JsonValue, create_model
from pydantic.fields import FieldInfo

from app.api.models.base import AT, TOOL_ID, Asked, example
from app.domain.json import JsonObject
from app.domain.outcomes import Done, Failed, Outcome, Waits
from app.domain.tools import ToolSpec

_PAY: Final[JsonObject] = {
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

HIDDEN: Final = "…"
"""Stands for each header's value in answers: headers often carry credentials."""


class RegisterTool(ToolSpec):
    """A tool that models may call. Sizes are in bytes, durations in seconds."""

    model_config = ConfigDict(json_schema_extra=example(**_PAY))


class Tool(ToolSpec):
    """A registered tool, as it is now. The values of `headers` are never shown again."""

    model_config = ConfigDict(
        extra="forbid",
        strict=False,
        use_attribute_docstrings=True,
        json_schema_extra=example(
            id=TOOL_ID, object="tool", version=1, created_at=AT, updated_at=AT, **_PAY
        ),
    )

    id: str
    """Unique everywhere."""
    object: Literal["tool"] = "tool"
    """`tool`."""
    version: int
    """Counts the changes, from 1. A run keeps to the one that its model was shown."""
    created_at: datetime
    """When it was registered."""
    updated_at: datetime
    """When this version was made."""

    @classmethod
    def of(cls, spec: ToolSpec, **about: Any) -> Self:
        """`about`: the other fields. Without validation: the spec was validated before."""
        fields = dict(spec) | {"headers": dict.fromkeys(spec.headers, HIDDEN)}
        return cls.model_construct(None, **fields, **about)


class NewTool(Tool):
    """A tool just registered."""

    model_config = ConfigDict(
        json_schema_extra=example(
            id=TOOL_ID,
            object="tool",
            version=1,
            created_at=AT,
            updated_at=AT,
            **_PAY,
            secret="whsec_…",  # noqa: S106  # an example
        )
    )

    secret: str
    """`whsec_…`: what its calls are signed with. Shown this once."""


class ToolSecret(BaseModel):
    """A tool's new signing secret; the one before stays valid for a while."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    secret: str
    """`whsec_…`. Shown this once."""


class TryTool(Asked):
    """One call of a tool, outside of any run."""

    model_config = ConfigDict(json_schema_extra=example(arguments={"amount": 5}))

    arguments: JsonObject
    """Must match the tool's schema."""
    context: JsonObject | None = None
    """What a run's `context` would be."""


class ToolTrial(BaseModel):
    """How one call of a tool ended."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra=example(
            outcome="completed", output={"paid": True}, detail=None, status=None, seconds=0.012
        ),
    )

    outcome: Literal["completed", "accepted", "failed"]
    """`accepted`: it answered 202 and would call back."""
    output: JsonValue = None
    """Its result; for a failure what the model would be told, if the tool said something."""
    detail: str | None = None
    """What went wrong, for an operator."""
    status: int | None = None
    """The HTTP status of a failure."""
    seconds: float
    """How long it took."""

    @classmethod
    def of(cls, outcome: Outcome, *, seconds: float) -> "ToolTrial":
        seconds = round(seconds, 6)
        match outcome:
            case Done(output=output):
                return cls(outcome="completed", output=output, seconds=seconds)
            case Waits():
                return cls(outcome="accepted", seconds=seconds)
            case Failed(message=message, detail=detail, status=status):
                return cls(
                    outcome="failed",
                    output=message,
                    detail=detail,
                    status=status,
                    seconds=seconds,
                )


_FIXED: Final = frozenset({"name", "type"})


def _optional(field: FieldInfo) -> Any:
    changed = copy(field)
    changed.default, changed.default_factory = None, None
    return (changed.annotation, changed)


_Optional: type[Asked] = create_model(
    "_Optional",
    __base__=Asked,
    **{n: _optional(f) for n, f in ToolSpec.model_fields.items() if n not in _FIXED},
)


class PatchTool(_Optional):
    """What to change; a field that is given replaces the old value whole."""


def patched(spec: ToolSpec, patch: PatchTool) -> ToolSpec:
    """Only what the client gave counts, so null can be given too."""
    given: Mapping[str, JsonValue] = {name: getattr(patch, name) for name in patch.model_fields_set}
    return spec.model_copy(update=given)
