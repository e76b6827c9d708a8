"""The interface between the loop and models. It is the same for every provider and wire
protocol."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

from runward.domain.events.values import RunErrorCode
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ExecutorKind, HostedToolKind, ToolSpec
from runward.domain.run.items import Item
from runward.domain.run.response import ModelResponse

RequestedToolChoice: TypeAlias = Literal["auto", "none", "required"] | JsonObject
"""An object `{"name": "…"}` requires a call of that tool."""


@immutable
class ModelRequest:
    """The request of one turn. `model` is the provider's name of the model, without the prefix
    `provider:`. `timeout_seconds` limits the whole call, from the first byte to the last."""

    model: str
    instructions: str
    items: tuple[Item, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: RequestedToolChoice = "auto"
    parallel_tool_calls: bool = True
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    output_schema: JsonObject | None = None
    timeout_seconds: float = 600.0


@immutable
class TextDelta:
    text: str


@immutable
class ReasoningDelta:
    """A piece of the model's reasoning, if the provider shows it."""

    text: str


@immutable
class ArgumentsDelta:
    index: int
    call_id: str
    name: str
    text: str


@immutable
class StreamRestart:
    """The stream was interrupted, and the request is sent again. Readers must discard the text that
    was streamed before."""


ModelDelta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta | StreamRestart
OnDelta: TypeAlias = Callable[[ModelDelta], None]


class ModelError(Exception):
    """Raised if the provider rejects a request or cannot be reached.

    `transient`: whether the same request may succeed later. `retry_after`: the delay in seconds
    that the provider requested, or None. `message` is safe to show to the run's owner: it contains
    no key, header or prompt.
    """

    def __init__(
        self,
        code: RunErrorCode,
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


@immutable
class Abilities:
    """The features that one wire protocol supports.

    `provider` is the name in `provider:model`. Items with this name are sent back only to this
    provider. `settings` lists the supported `model_settings`, with `reasoning.summary` as a
    separate entry. `executors` lists the kinds for which the provider has native tools. Other kinds
    are sent as functions without a loss. `tool_choices` lists the supported choices in addition to
    `auto`. `result_media`: whether a tool result can contain images and files. Otherwise, they are
    sent in a user message without a loss."""

    provider: str
    settings: frozenset[str]
    hosted: frozenset[HostedToolKind] = frozenset()
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
        """Send the request once, with or without streaming, and return the response. The request
        must match the abilities. Raises ModelError. The loop retries."""
        ...
