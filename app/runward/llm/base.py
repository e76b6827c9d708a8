"""What the loop asks of a model, whatever the vendor and the wire protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.registry.tools import ExecutorKind, HostedKind, ToolSpec
from runward.domain.run.items import Item
from runward.domain.run.response import ModelResponse, RequestedCall, Usage

__all__ = [
    "Abilities",
    "ArgumentsDelta",
    "Delta",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "OnDelta",
    "ReasoningDelta",
    "RequestedCall",
    "RequestedToolChoice",
    "StreamRestart",
    "TextDelta",
    "Usage",
]

RequestedToolChoice: TypeAlias = Literal["auto", "none", "required"] | JsonObject
"""`{"name": "…"}` names one tool."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One turn. `model` is the vendor's own name, verbatim; `timeout_seconds` bounds the whole
    call, first byte to last."""

    model: str
    instructions: str
    items: tuple[Item, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: RequestedToolChoice = "auto"
    parallel_tool_calls: bool = True
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    output_schema: JsonObject | None = None
    timeout_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """What the model thinks, as far as the vendor shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    index: int
    call_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class StreamRestart:
    """The stream broke and is asked again from the start: what was shown so far is void."""


Delta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta | StreamRestart
OnDelta: TypeAlias = Callable[[Delta], None]


class ModelError(Exception):
    """The vendor refused or could not be reached. `transient`: the same request may succeed
    later; then `retry_after` (seconds) is the vendor's own wish, if it had one. `message` is
    safe to show to the run's owner: no key, no header, no prompt."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        transient: bool,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.transient = transient
        self.retry_after = retry_after
        self.status = status


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one wire protocol can say. `provider` is the name in `vendor:model`, and marks what is
    given back to it alone.

    `settings`: the names of `model_settings` that it understands; `reasoning.summary` is one of its
    own. `executors`: kinds of which it
    has tools of its own; the others are shown to it as functions, which loses nothing.
    `tool_choices`: beside `auto`. `result_media`: images and files may stand in a tool's result;
    else they follow in a message of the user, which loses nothing either."""

    provider: str
    settings: frozenset[str]
    hosted: frozenset[HostedKind] = frozenset()
    executors: frozenset[ExecutorKind] = frozenset()
    tool_choices: frozenset[str] = frozenset({"none", "required", "named"})
    parallel_off: bool = True
    strict: bool = True
    output_schema: bool = True
    images: bool = True
    files: bool = True
    result_media: bool = True


class Model(Protocol):
    @property
    def abilities(self) -> Abilities: ...

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        """One attempt, streamed or not, at a request that fits the abilities. Raises ModelError;
        retrying is the loop's affair."""
        ...
