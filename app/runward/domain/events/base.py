"""The base of all events of a run."""

from collections.abc import Mapping
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NotRequired,
    TypeAlias,
    TypeVar,
    get_args,
    overload,
)

from pydantic import JsonValue
from typing_extensions import TypedDict, get_original_bases

from runward.domain.immutable import immutable
from runward.domain.json import JsonObject, compact

MAX_VALUE_BYTES: Final = 32_768
"""Maximum size in bytes of a value in an event. The tool-call log has larger values in full. An
event has at most 64 KiB, which is enough for one such value and all other fields."""
MAX_PER_RUN: Final = 10_000
"""Number of events after which callers outside the run may not add more."""

Data_co = TypeVar("Data_co", bound=Mapping[str, Any], covariant=True)


@immutable
class NewEvent(Generic[Data_co]):
    """One entry of a run's log before it has a number. Each kind of event is a subclass. `data` is
    a TypedDict: type checkers verify it, it costs nothing at run time, and its fields are stored in
    the order in which they were set."""

    type: ClassVar[str]
    data: Data_co

    def __init_subclass__(cls, *, type: str) -> None:
        cls.type = type


AnyEvent: TypeAlias = NewEvent[Mapping[str, Any]]


def get_data_type(kind: type) -> Any:
    """Return the TypedDict of the data of a kind of event."""
    [data] = get_args(get_original_bases(kind)[0])
    return data


class TransientEvent(Generic[Data_co]):
    """A kind of event that is streamed when it happens, and never stored."""

    type: ClassVar[str]

    def __init_subclass__(cls, *, type: str) -> None:
        cls.type = type


class BoundedArguments(TypedDict):
    arguments: JsonObject | None
    arguments_bytes: NotRequired[int]
    truncated: NotRequired[Literal[True]]


class BoundedText(TypedDict):
    arguments_text: str | None
    arguments_text_bytes: NotRequired[int]
    truncated: NotRequired[Literal[True]]


class BoundedChanges(TypedDict):
    changes: JsonObject | None
    changes_bytes: NotRequired[int]
    truncated: NotRequired[Literal[True]]


class BoundedOutput(TypedDict):
    output: JsonValue
    output_bytes: NotRequired[int]
    truncated: NotRequired[Literal[True]]


class BoundedRequests(TypedDict):
    requests: JsonValue
    requests_bytes: NotRequired[int]
    truncated: NotRequired[Literal[True]]


class BoundedRequestedCalls(TypedDict):
    requested_calls: list[Any] | None
    requested_calls_bytes: NotRequired[int]
    truncated: NotRequired[Literal[True]]


@overload
def bounded_field(name: Literal["arguments"], value: JsonObject) -> BoundedArguments: ...
@overload
def bounded_field(name: Literal["arguments_text"], value: str) -> BoundedText: ...
@overload
def bounded_field(name: Literal["changes"], value: JsonObject) -> BoundedChanges: ...
@overload
def bounded_field(name: Literal["output"], value: JsonValue) -> BoundedOutput: ...
@overload
def bounded_field(name: Literal["requests"], value: JsonValue) -> BoundedRequests: ...
@overload
def bounded_field(
    name: Literal["requested_calls"], value: list[JsonValue]
) -> BoundedRequestedCalls: ...


def bounded_field(name: str, value: JsonValue) -> Any:
    """Return `value` under `name` for an event's data. If the value is too large, return null and
    its size."""
    size = len(compact(value).encode())
    if size <= MAX_VALUE_BYTES:
        return {name: value}
    return {name: None, f"{name}_bytes": size, "truncated": True}
