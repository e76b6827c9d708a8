"""The translation of pydantic-ai's responses: the deltas of a stream, and the complete response."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from pydantic_ai import (
    FilePart,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartStartEvent,
    RequestUsage,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.messages import ModelResponseStreamEvent

from runward.domain.json import clean_text, compact
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import MediaPart, Message
from runward.domain.run.response import ModelResponse as Answer
from runward.domain.run.response import Output, RequestedCall, Usage
from runward.llm.base import ArgumentsDelta, OnDelta, ReasoningDelta, TextDelta
from runward.llm.failures import (
    MAX_CALLS,
    MAX_OUTPUT_ITEMS,
    MAX_RESPONSE_BYTES,
    TOO_MANY_CALLS,
    TOO_MANY_ITEMS,
    invalid_response,
    too_large,
    unstorable,
)
from runward.llm.providers.access import ProviderName
from runward.llm.providers.parts import hosted_calls, native, reasoning

CUT_OFF: Final = frozenset({"length", "content_filter"})
_FINISHES: Final = {"stop": "stop", "length": "length", "content_filter": "content_filter"}
_UNREADABLE: Final = "MALFORMED_"
_UNEXPECTED: Final = "UNEXPECTED_TOOL_CALL"
"""Gemini's finish reason if the model calls a tool that the request did not contain. If the
response contains the call, it is handled like any call of an unknown tool."""
_REFUSALS: Final = frozenset({"refusal", "guardrail_intervened"})
"""Finish reasons of responses that are discarded completely or contain a guardrail's text."""
_REFUSED: Final = "The model refused to answer"


class DeltaStream:
    """Translates a stream's events into deltas. `one_call`: whether only the first call is kept.
    When reasoning or a search starts, an empty delta is sent, because there may be no other output
    for minutes."""

    def __init__(self, on_delta: OnDelta, *, one_call: bool) -> None:
        self._on_delta = on_delta
        self._one_call = one_call
        self._calls: dict[int, _Call] = {}
        self._parts = 0
        self._characters = 0
        self.begun = False

    def feed(self, event: ModelResponseStreamEvent) -> None:
        """Translate an event. Raises ModelError for an answer that is too large."""
        self.begun = True
        match event:
            case PartStartEvent():
                self._begin(event.index, event.part)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                self._say(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))):
                self._think(text)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta() as delta):
                if (call := self._calls.get(index)) is not None:
                    call.name += delta.tool_name_delta or ""
                    call.id = delta.tool_call_id or call.id
                    self._ask(call, delta.args_delta)
            case _:
                pass

    def _begin(self, index: int, part: ModelResponsePart) -> None:
        self._parts += 1
        if self._parts > MAX_OUTPUT_ITEMS:
            raise too_large(TOO_MANY_ITEMS)
        match part:
            case TextPart(content=text):
                self._say(text)
            case ThinkingPart(content=text):
                self._think(text)
            case NativeToolCallPart():
                self._think("")
            case ToolCallPart():
                if len(self._calls) >= MAX_CALLS:
                    raise too_large(TOO_MANY_CALLS)
                call = _Call(len(self._calls), part.tool_call_id, part.tool_name)
                self._calls[index] = call
                self._ask(call, part.args)
            case _:
                pass

    def _say(self, text: str) -> None:
        if text:
            self._count(text)
            self._on_delta(TextDelta(clean_text(text)))

    def _think(self, text: str) -> None:
        self._count(text)
        self._on_delta(ReasoningDelta(clean_text(text)))

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > MAX_RESPONSE_BYTES:
            raise too_large()

    def _ask(self, call: "_Call", arguments: object) -> None:
        text = _written(arguments)
        self._count(text)
        if call.position and self._one_call:
            return
        self._on_delta(ArgumentsDelta(call.position, call.id, call.name, clean_text(text)))


@dataclass(slots=True)
class _Call:
    position: int
    id: str
    name: str


def has_ended(answer: ModelResponse) -> bool:
    """Return whether the provider has sent a finish reason."""
    details = answer.provider_details or {}
    return bool(details.get("finish_reason") or details.get("block_reason"))


def read_answers(
    answers: Iterable[ModelResponse], tools: Iterable[ToolSpec], provider: ProviderName
) -> Answer:
    """Return the response. `answers` has several entries if the provider paused and continued.
    Raises ModelError if the provider could not read a call."""
    reader = _Reader(tuple(tools), provider)
    usage, last = Usage(), ModelResponse([])
    for last in answers:
        reader.read(last.parts)
        usage += _usage(last.usage)
    details = last.provider_details or {}
    why = str(details.get("finish_reason") or details.get("block_reason") or "")
    output, calls = reader.finished()
    if why.upper().startswith(_UNREADABLE) or (why.upper() == _UNEXPECTED and not calls):
        raise invalid_response(f"the provider could not read the model's call ({why})")
    finish = _FINISHES.get(last.finish_reason or "", "tool_calls" if calls else "other")
    if finish == "content_filter" and (why in _REFUSALS or not reader.has_text):
        told = details.get("refusal") or details.get("block_reason_message") or reader.text
        text = str(told or f"{_REFUSED} ({why}).")
        return Answer((Message("assistant", text, refusal=True),), finish, usage)
    if calls and finish in CUT_OFF:
        output[calls[-1]] = _truncated(output[calls[-1]])
    if calls and finish == "stop":
        finish = "tool_calls"
    elif last.finish_reason == "tool_call" and not calls:
        finish = "stop"
    return Answer(tuple(output), finish, usage)


def keep_first_call(answer: Answer) -> tuple[Answer, int]:
    """Return the response with only its first call, and the number of dropped calls. Text after the
    first call is also dropped."""
    dropped = len(answer.calls) - 1
    if dropped < 1:
        return answer, 0
    first = next(at for at, one in enumerate(answer.output) if isinstance(one, RequestedCall))
    kept = answer.output[: first + 1]
    return replace(answer, output=kept), dropped


@dataclass(slots=True)
class _Reader:
    tools: tuple[ToolSpec, ...]
    provider: ProviderName
    output: list[Output] = field(default_factory=list[Output])
    _pieces: list[str] = field(default_factory=list[str])
    """The pieces of the text that is being read."""

    @property
    def has_text(self) -> bool:
        return any(isinstance(one, Message | RequestedCall) for one in self.output)

    @property
    def text(self) -> str:
        messages = (one.content for one in self.output if isinstance(one, Message))
        return "".join(content for content in messages if isinstance(content, str))

    def read(self, parts: Iterable[ModelResponsePart]) -> None:
        for hosted, some in groupby(parts, key=_is_hosted):
            if hosted:
                native_parts = [
                    one
                    for one in some
                    if isinstance(one, NativeToolCallPart | NativeToolReturnPart)
                ]
                self.end_text()
                self.output += hosted_calls(native_parts, self.tools, self.provider)
            else:
                for part in some:
                    self._read(part)

    def finished(self) -> tuple[list[Output], list[int]]:
        """Return the output, and the indexes of the calls in it. Raises ModelError if there are too
        many of either."""
        self.end_text()
        calls = [at for at, one in enumerate(self.output) if isinstance(one, RequestedCall)]
        if len(calls) > MAX_CALLS:
            raise too_large(TOO_MANY_CALLS)
        if len(self.output) > MAX_OUTPUT_ITEMS:
            raise too_large(TOO_MANY_ITEMS)
        return self.output, calls

    def end_text(self) -> None:
        if text := "".join(self._pieces):
            self.output.append(Message("assistant", text))
        self._pieces.clear()

    def _read(self, part: ModelResponsePart) -> None:
        kept = native(part, self.provider)
        if isinstance(part, TextPart) and kept is None:
            self._pieces.append(clean_text(part.content))
            return
        self.end_text()
        match part:
            case TextPart():
                self.output.append(Message("assistant", clean_text(part.content), native=kept))
            case ThinkingPart():
                self.output.append(reasoning(part, self.provider))
            case ToolCallPart():
                call_id, name = clean_text(part.tool_call_id), clean_text(part.tool_name)
                call = RequestedCall(call_id, name, _written(part.args) or "{}", native=kept)
                self.output.append(call)
            case FilePart(content=content):
                kind = "image" if content.is_image else "file"
                data = b64encode(content.data).decode()
                media = MediaPart(kind, data=data, media_type=content.media_type)
                self.output.append(Message("assistant", (media,), native=kept))
            case _:
                raise unstorable(f"it contains a part of the unsupported kind '{part.part_kind}'")


def _is_hosted(part: ModelResponsePart) -> bool:
    return isinstance(part, NativeToolCallPart | NativeToolReturnPart)


def _truncated(call: Output) -> Output:
    return replace(call, truncated=True) if isinstance(call, RequestedCall) else call


def _written(arguments: object) -> str:
    """Return the arguments as text. If possible, this is the text that the model wrote. Gemini
    sends objects instead."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else compact(arguments)


def _usage(usage: RequestUsage) -> Usage:
    """Return the usage. Input includes tokens that were read from or written to a cache. Output
    includes reasoning."""
    return Usage(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cached_input=usage.cache_read_tokens,
        reasoning=usage.output_reasoning_tokens or usage.details.get("thoughts_tokens", 0),
    )
