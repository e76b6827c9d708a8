"""The translation of a Chat Completions response, complete or streamed, into one ModelResponse.

A stream's tool calls are distinguished by (index, ID), because some servers give every call the
index 0. The finish reason never decides whether there are calls. Frames remain plain dicts, because
creating the SDK's objects would cost more than the rest of a call.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from pydantic_core import from_json

from runward.domain.json import JsonObject, clean_json, clean_text, compact
from runward.domain.run.items import Native
from runward.domain.run.response import ModelResponse, RequestedCall, Usage
from runward.llm.base import ArgumentsDelta, OnDelta, ReasoningDelta, TextDelta
from runward.llm.failures import (
    MAX_CALLS,
    TOO_MANY_CALLS,
    broken_stream,
    invalid_response,
    reported_failure,
    too_large,
)
from runward.llm.frames import (
    Frame,
    as_mapping,
    join_text,
    parse_object,
    read_usage,
)
from runward.llm.openai.chat.reasoning import PROVIDER, ReasoningMerge

DONE: Final = b"[DONE]"
FINISHES: Final = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}
CUT_OFF: Final = frozenset({"length", "content_filter"})
FAILURES: Final = frozenset({"error", "insufficient_system_resource"})
"""Finish reasons of responses that a failure of the server ended. The second one is DeepSeek's."""
EXTRA: Final = "extra_content"
"""A field of a call with Google's signature of the reasoning, which must be sent back."""

MAX_NAME: Final = 1024
"""Maximum number of characters of a call's name. Names of tools are shorter, so the rest is
dropped."""

MAX_READ: Final = 4 * 1_048_576
"""Maximum number of characters of arguments in one response that are parsed to find the end of a
call. After this limit, further deltas belong to the current call."""


@dataclass(slots=True)
class _Call:
    position: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    size: int = 0
    """The number of characters of the arguments."""
    may_be_whole: bool = False
    extra: JsonObject | None = None

    def add(self, piece: str) -> None:
        self.arguments.append(piece)
        self.size += len(piece)
        if piece.strip():
            self.may_be_whole = piece.rstrip().endswith("}")


class ChatMerge:
    """Merges the frames of one response. `feed` takes the frames in order, and `result` returns the
    response at the end."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning = ReasoningMerge()
        self._calls: list[_Call] = []
        self._latest: dict[tuple[int | None, str], _Call] = {}
        self._finish: str | None = None
        self._usage = Usage()
        self._readable = MAX_READ
        self.done = False

    def feed(self, data: bytes) -> None:
        """Add a frame. Raises ModelError for a frame that is not JSON, and for an error that the
        server reports inside the stream."""
        if data == DONE:
            self.done = True
            return
        frame = parse_object(data)
        choice = self._choice_of(frame)
        if choice is not None:
            delta = as_mapping(choice.get("delta"))
            self._take(delta, streamed=True)
            self._take_calls(delta, streamed=True)

    def whole(self, body: bytes) -> ModelResponse:
        """Return the response in a complete body, without a stream. Raises ModelError."""
        choice = self._choice_of(parse_object(body))
        if choice is None:
            raise invalid_response("the response has no `choices`")
        message = as_mapping(choice.get("message"))
        self._take(message, streamed=False)
        self._take_calls(message, streamed=False)
        self.done = True
        return self.result()

    def result(self) -> ModelResponse:
        """Return the response. Raises ModelError if the stream ended too early."""
        if self._finish is None and not self.done:
            raise broken_stream()
        calls = self._requested_calls()
        finish = FINISHES.get(self._finish or "stop", "other")
        if finish in ("stop", "tool_calls", "other"):
            finish = "tool_calls" if calls else "stop" if finish == "tool_calls" else finish
        return ModelResponse.of(
            text=join_text(self._text),
            calls=calls,
            refusal=join_text(self._refusal) or None,
            reasoning=self._reasoning.result(has_calls=bool(calls)),
            finish=finish,
            usage=self._usage,
        )

    def _choice_of(self, frame: Frame) -> Frame | None:
        """Return the choice with index 0, after the other fields of the frame were read."""
        if frame.get("error") or frame.get("object") == "error":  # older versions of vLLM
            raise reported_failure(frame.get("error") or frame)
        choice = _first(frame.get("choices"))
        if usage := _usage_in(frame, choice or {}):
            self._usage = read_usage(usage, "prompt", "completion")
        if choice is None:
            return None
        finish = choice.get("finish_reason")
        if finish in FAILURES:
            raise reported_failure(choice.get("error") or finish)
        if finish and isinstance(finish, str):  # SGLang sends "" in place of null
            self._finish = finish
        return choice

    def _take(self, delta: Frame, *, streamed: bool) -> None:
        content = delta.get("content")
        text, thought = (content, "") if isinstance(content, str) else _of_parts(content)
        if shown := self._reasoning.add(delta, thought, streamed=streamed):
            self._on_delta(ReasoningDelta(clean_text(shown)))
        if text:
            self._text.append(text)
            self._on_delta(TextDelta(clean_text(text)))
        if refusal := delta.get("refusal"):
            self._refusal.append(str(refusal))

    def _take_calls(self, delta: Frame, *, streamed: bool) -> None:
        entries: Any = delta.get("tool_calls")
        if not isinstance(entries, list):
            return
        for at, value in enumerate(cast(list[Any], entries)):
            entry = as_mapping(value)
            self._take_call(entry, entry.get("index") if streamed else at)

    def _take_call(self, entry: Frame, index: Any) -> None:
        """Add a delta to the latest call with the same index and ID. Missing values match any
        call."""
        function = as_mapping(entry.get("function"))
        call_id, name = str(entry.get("id") or ""), str(function.get("name") or "")[:MAX_NAME]
        piece: Any = function.get("arguments")
        text = piece if isinstance(piece, str) else "" if piece is None else compact(piece)
        place = index if isinstance(index, int) else None
        call = self._latest.get((place, call_id))
        if call is None or (name and self._begins_another(call, call_id, name, text)):
            call = self._new_call(place, call_id)
        if name and name != call.name and not call.arguments:
            call.name = (call.name + name)[:MAX_NAME]
        if text:
            call.add(text)
        if extra := as_mapping(entry.get(EXTRA)):
            call.extra = cast(JsonObject, clean_json(cast(JsonObject, extra))[0])
        self._on_delta(ArgumentsDelta(call.position, call.id, call.name, clean_text(text)))

    def _begins_another(self, call: _Call, call_id: str, name: str, text: str) -> bool:
        """Return whether a delta with a function's name begins another call. Some servers give all
        calls the same index. So a new call begins if the arguments of the current call are a
        complete object. Without IDs, a new call also begins if the name differs."""
        if call.arguments and text.strip() and self._is_complete(call):
            return True
        return not (call_id or call.id) and bool(call.name) and name != call.name

    def _is_complete(self, call: _Call) -> bool:
        """Return whether the arguments are a complete JSON object."""
        if not call.may_be_whole:
            return False
        self._readable -= call.size
        return self._readable >= 0 and _is_object("".join(call.arguments))

    def _new_call(self, index: int | None, call_id: str) -> _Call:
        """Create a call. Raises ModelError if there are too many."""
        if len(self._calls) >= MAX_CALLS:
            raise too_large(TOO_MANY_CALLS)
        call = _Call(len(self._calls), call_id)
        self._calls.append(call)
        for place in {index, None}:
            for known in {call_id, ""}:
                self._latest[place, known] = call
        return call

    def _requested_calls(self) -> tuple[RequestedCall, ...]:
        """Return the calls. The last call is marked as truncated if the response was truncated.
        Without a finish reason, it is also truncated if its arguments are not a complete JSON
        object."""
        calls = [
            RequestedCall(
                clean_text(c.id),
                clean_text(c.name),
                join_text(c.arguments),
                native=Native(PROVIDER, {EXTRA: c.extra}) if c.extra else None,
            )
            for c in self._calls
        ]
        cut = self._finish is not None and FINISHES.get(self._finish) in CUT_OFF
        if calls and self._finish is None:
            cut = not _is_object("".join(self._calls[-1].arguments))
        if calls and cut:
            last = calls.pop()
            calls.append(replace(last, truncated=True))
        return tuple(calls)


def _is_object(arguments: str) -> bool:
    try:
        return not arguments or isinstance(from_json(arguments), dict)
    except ValueError:
        return False


def _first(choices: Any) -> Frame | None:
    """Return the choice with index 0. A server mixes the frames of several choices if a request
    asks for several."""
    for value in cast(list[Any], choices) if isinstance(choices, list) else []:
        choice = as_mapping(value)
        if choice.get("index") in (0, None):
            return choice
    return None


def _usage_in(frame: Frame, choice: Frame) -> Frame:
    """Return the usage. Groq also has it in its own field, and Moonshot in the choice."""
    usage = frame.get("usage")
    if not usage and (groq := frame.get("x_groq")):
        usage = as_mapping(groq).get("usage")
    return as_mapping(usage or choice.get("usage"))


def _of_parts(content: Any) -> tuple[str, str]:
    """Return the text and the reasoning of a list of parts, which some servers send where OpenAI
    sends text. Mistral's reasoning is a part whose text is again in parts.
    https://docs.mistral.ai/capabilities/reasoning"""
    text: list[str] = []
    thoughts: list[str] = []
    for value in cast(list[Any], content) if isinstance(content, list) else []:
        part = as_mapping(value)
        inner: Any = part.get("thinking")
        if part.get("type") != "thinking":
            text.append(str(part.get("text") or ""))
        elif isinstance(inner, str):
            thoughts.append(inner)
        else:
            thoughts.append(_of_parts(inner)[0])
    return "".join(text), "".join(thoughts)
