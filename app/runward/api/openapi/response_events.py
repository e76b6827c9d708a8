"""The events of a stream of `/v1/responses`, for openapi.json. `runward.api.responses.log` builds
the values."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from runward.api.openapi.tidy import Json
from runward.api.responses.output_types import (
    ResponseOutputItem,
    ResponseOutputPart,
    ResponseSummaryText,
)
from runward.api.responses.response_models import ResponseObject
from runward.domain.json import JsonObject, documented

# The fields of the events, without `type` and `sequence_number`.


@documented
class _Snapshot(TypedDict):
    response: ResponseObject
    """Current state of the response."""


class _OfItem(TypedDict):
    item_id: Annotated[str, Field(description="ID of the output item that the event is about.")]
    output_index: Annotated[
        int, Field(description="Position of the item in the response's `output`, counted from 0.")
    ]


@documented
class _Item(TypedDict):
    output_index: int
    """Position of the item in the response's `output`, counted from 0."""
    item: ResponseOutputItem
    """Current state of the item."""


@documented
class _ArgumentsDelta(_OfItem):
    delta: str
    """Text to append to the arguments."""


@documented
class _Arguments(_OfItem):
    arguments: str
    """Complete arguments of the call: a JSON object as text."""


@documented
class _FunctionArguments(_Arguments):
    name: str
    """Name of the function."""


class _OfContent(_OfItem):
    content_index: Annotated[
        int, Field(description="Position of the part in the item's `content`, counted from 0.")
    ]


@documented
class _Part(_OfContent):
    part: ResponseOutputPart
    """Current state of the message part."""


@documented
class _TextDelta(_OfContent):
    delta: str
    """Text to append to the previous text."""
    logprobs: list[JsonObject]
    """Always an empty list."""


@documented
class _Text(_OfContent):
    text: str
    """Complete text of the part."""
    logprobs: list[JsonObject]
    """Always an empty list."""


@documented
class _RefusalDelta(_OfContent):
    delta: str
    """Text to append to the previous text."""


@documented
class _Refusal(_OfContent):
    refusal: str
    """Complete text of the part."""


class _OfSummary(_OfItem):
    summary_index: Annotated[
        int, Field(description="Position of the part in the item's `summary`, counted from 0.")
    ]


@documented
class _SummaryPart(_OfSummary):
    part: ResponseSummaryText
    """Current state of the message part."""


@documented
class _SummaryDelta(_OfSummary):
    delta: str
    """Text to append to the previous text."""


@documented
class _SummaryDone(_OfSummary):
    text: str
    """Complete text of the part."""


STREAM_EVENTS: Final[Mapping[str, tuple[Any, str]]] = {
    "response.created": (_Snapshot, "Runward created the response."),
    "response.queued": (_Snapshot, "The response waits for a worker."),
    "response.in_progress": (_Snapshot, "A worker has started the response."),
    "response.completed": (_Snapshot, "The response is complete. This is the last event."),
    "response.incomplete": (
        _Snapshot,
        "The run reached a limit or was cancelled. This is the last event.",
    ),
    "response.failed": (_Snapshot, "The run failed. This is the last event."),
    "response.output_item.added": (_Item, "An item begins."),
    "response.output_item.done": (_Item, "An item is complete."),
    "response.content_part.added": (_Part, "A part of a message begins."),
    "response.content_part.done": (_Part, "A part of a message is complete."),
    "response.output_text.delta": (_TextDelta, "A piece of a message's text."),
    "response.output_text.done": (_Text, "A message's text is complete."),
    "response.refusal.delta": (_RefusalDelta, "A piece of a refusal."),
    "response.refusal.done": (_Refusal, "A refusal is complete."),
    "response.function_call_arguments.delta": (_ArgumentsDelta, "A piece of a call's arguments."),
    "response.function_call_arguments.done": (
        _FunctionArguments,
        "The arguments of a function call are complete.",
    ),
    "response.mcp_call_arguments.delta": (_ArgumentsDelta, "A piece of a call's arguments."),
    "response.mcp_call_arguments.done": (_Arguments, "The arguments of a call are complete."),
    "response.mcp_call.in_progress": (_OfItem, "A tool call has started."),
    "response.mcp_call.completed": (_OfItem, "A tool call has succeeded."),
    "response.mcp_call.failed": (_OfItem, "A tool call has failed."),
    "response.reasoning_summary_part.added": (_SummaryPart, "A part of the reasoning begins."),
    "response.reasoning_summary_part.done": (_SummaryPart, "A part of the reasoning is complete."),
    "response.reasoning_summary_text.delta": (_SummaryDelta, "A piece of the reasoning."),
    "response.reasoning_summary_text.done": (_SummaryDone, "A text of the reasoning is complete."),
}
"""Event type -> its other fields, and its description."""


def build_stream_events(ref_template: str) -> tuple[Json, dict[str, str]]:
    """Return two mappings: from names to schemas of events, and from event types to these names."""
    found: Json = {}
    names: dict[str, str] = {}
    for type_, (data, description) in STREAM_EVENTS.items():
        schema = TypeAdapter[Any](data).json_schema(ref_template=ref_template, mode="serialization")
        fields: Json = {
            "type": {"type": "string", "const": type_},
            "sequence_number": {
                "type": "integer",
                "description": "Position of the event in the stream. Positions increase but can "
                "have gaps.",
            },
        } | schema["properties"]
        names[type_] = _get_schema_name(type_)
        found[names[type_]] = {
            "type": "object",
            "description": description,
            "properties": fields,
            "required": list(fields),
        }
    return found, names


def _get_schema_name(type_: str) -> str:
    """Return `ResponseOutputTextDeltaEvent` for `response.output_text.delta`."""
    return "".join(word.capitalize() for word in re.split(r"[._]", type_)) + "Event"
