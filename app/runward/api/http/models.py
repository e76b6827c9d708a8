"""Base classes and shared types of request and response models."""

from collections.abc import Collection
from copy import copy
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from runward.domain.json import JsonObject
from runward.domain.registry.tools import Frozen

MAX_METADATA_BYTES: Final = 16_384

RUN_ID: Final = "run_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57"
APPROVAL_ID: Final = "apr_019a5f1e8a417d528c1e5b7a9f3d2c60"
TOOL_ID: Final = "tool_019a5f1e6b2a7c4d8e9f0a1b2c3d4e5f"
MCP_SERVER_ID: Final = "mcp_019a5f1e6f4b7d1c8a3e5b7d9f1c2a4e"
KEY_ID: Final = "key_019a5f1e5c1b7f3a8d2e4c6b8a0f1e3d"
PROJECT_ID: Final = "proj_019a5f1e4a0c7e298b1d3f5a7c9e0b2d"
EXAMPLE_TIME: Final = "2026-11-02T09:30:00.125000Z"
DIGEST: Final = "sha256:6c1a9f0e2b7d4c5f8a3e1d0b9c8f7a6e5d4c3b2a1f0e9d8c7b6a5f4e3d2c1b0a"
"""The digest in the examples of openapi.json."""


class ResponseModel(BaseModel):
    """A response model. Validation is not strict, because only Runward builds it. Docstrings under
    fields are their descriptions in openapi.json. Responses contain every field."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
        defer_build=True,
    )

    @classmethod
    def from_attributes(cls, row: object, **fields: Any) -> Self:
        """Return the model of a row. Its fields are the row's attributes of the same names, and
        `fields`."""
        return cls(**cls._read_attributes(row, fields))

    @classmethod
    def construct_from_attributes(cls, row: object, **fields: Any) -> Self:
        """Return the same model as `from_attributes`, without validation. Validation would take
        most of the time for a long list."""
        return cls.model_construct(None, **cls._read_attributes(row, fields))

    @classmethod
    def _read_attributes(cls, row: object, fields: dict[str, Any]) -> dict[str, Any]:
        names = cls.model_fields.keys() - fields.keys()
        return {name: getattr(row, name) for name in names if hasattr(row, name)} | fields


class ConversationPage(ResponseModel):
    """A page of items with their `id`. The items have no models of their own."""

    object: Literal["list"] = "list"
    data: list[JsonObject]
    first_id: str | None
    """ID of the first item. Null if the page is empty."""
    last_id: str | None
    """ID of the last item. Null if the page is empty."""
    has_more: bool
    """Whether there are more items after this page."""


class RequestModel(Frozen):
    """The body of a request. Unknown fields are rejected, and values are not converted."""


def create_request_model(name: str, fields: dict[str, Any]) -> type[RequestModel]:
    """Return a request model with these fields and their descriptions. Docstrings are disabled:
    Pydantic takes 30 ms to search the source of a class that has none."""
    without_docstrings = {"use_attribute_docstrings": False}
    return create_model(name, __base__=RequestModel, __cls_kwargs__=without_docstrings, **fields)


def make_optional(model: type[BaseModel], *, without: Collection[str]) -> dict[str, Any]:
    """Return the fields of a model for `create_request_model`. Every field becomes optional."""
    return {
        name: (field.annotation, remove_default(field))
        for name, field in model.model_fields.items()
        if name not in without
    }


def remove_default(field: FieldInfo) -> FieldInfo:
    changed = copy(field)
    changed.default, changed.default_factory = None, None
    return changed


def with_example(**value: Any) -> ConfigDict:
    """Return the configuration of a model with an example for openapi.json."""
    return ConfigDict(json_schema_extra={"examples": [value]})


def _convert_to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be within the years 1 to 9999 in UTC") from None


UtcDatetime = Annotated[AwareDatetime, AfterValidator(_convert_to_utc)]
"""A time with an offset from UTC. Near the first and last year, the conversion to UTC can be out of
range."""


def _check_metadata_size(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if len(to_json(value)) > MAX_METADATA_BYTES:
        raise ValueError(f"must be at most {MAX_METADATA_BYTES} bytes as JSON")
    return value


Metadata = Annotated[
    dict[str, JsonValue], Field(max_length=64), AfterValidator(_check_metadata_size)
]
"""Custom metadata: up to 64 keys and 16 KiB as JSON."""
