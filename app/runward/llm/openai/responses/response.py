"""The translation of a response of the Responses API, complete or streamed, into one ModelResponse.

Only completed items are read. Earlier events are only streamed to clients. Items that are not calls
for Runward, such as a search that OpenAI ran, are stored completely, so that they can be sent back.
"""

import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, cast

from runward.domain.json import (
    MAX_VALUES,
    JsonObject,
    as_text,
    clean_json,
    clean_text,
    count_values,
)
from runward.domain.run.items import Message, Native, Reasoning
from runward.domain.run.response import ModelResponse, Output, RequestedCall
from runward.llm.base import ArgumentsDelta, OnDelta, ReasoningDelta, TextDelta
from runward.llm.failures import (
    MAX_CALLS,
    MAX_OUTPUT_ITEMS,
    TOO_MANY_CALLS,
    TOO_MANY_ITEMS,
    TOO_MANY_VALUES,
    broken_stream,
    invalid_response,
    reported_failure,
    too_large,
)
from runward.llm.frames import Frame, as_mapping, parse_object, read_usage
from runward.llm.openai.responses.hosted import (
    pair_shell_calls,
    read_hosted_call,
    read_shell_call,
)
from runward.llm.openai.responses.native import (
    APPROVAL,
    KINDS,
    arguments_of,
    objects_in,
    text_in,
)
from runward.llm.openai.responses.request import LEADS_TO
from runward.llm.openai.responses.tools import PROVIDER, DeclaredTools

DONE: Final = b"[DONE]"
FINISHES: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}
CALL_FIELDS: Final = ("id", "namespace", "caller")
"""Fields of a function call that are sent back with it."""
_KIND: Final = re.compile(rb'\s*\{\s*"type"\s*:\s*"([a-z_.]+)"')
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_HEARD: Final = frozenset(
    {
        b"error",
        b"response.completed",
        b"response.failed",
        b"response.function_call_arguments.delta",
        b"response.incomplete",
        b"response.output_item.added",
        b"response.output_item.done",
        b"response.output_text.delta",
        b"response.reasoning_summary_part.added",
        b"response.reasoning_summary_text.delta",
        b"response.reasoning_text.delta",
    }
)
"""Types of events with new information. Other events repeat information and are not parsed."""


class ResponseMerge:
    """Merges the events of one response. `feed` takes the events in order, and `result` returns the
    response at the end."""

    def __init__(self, on_delta: OnDelta, tools: DeclaredTools) -> None:
        self._on_delta = on_delta
        self._offered = tools
        # Position, ID and name of each call, by its index in the output.
        self._calls: dict[int, tuple[int, str, str]] = {}
        # Position and item, by the item's ID or else by its index in the output.
        self._items: dict[int | str, tuple[int, Frame]] = {}
        self._values = 0  # An upper bound for the number of values in all items.
        self._response: Frame | None = None
        self.done = False

    def feed(self, data: bytes) -> None:
        """Add an event. Raises ModelError for an event that is not JSON, and for an error that is
        reported inside the stream."""
        named = _KIND.match(data)
        if data == DONE or (named is not None and named[1] not in _HEARD):
            return
        event = parse_object(data)
        kind = event.get("type")
        if kind in _ENDS:
            self._response = as_mapping(event.get("response"))
            self.done = True
        elif kind == "error" or event.get("error"):
            raise reported_failure(event.get("error") or event)
        else:
            place = event.get("output_index")
            known = place if isinstance(place, int) else len(self._items)
            self._show(event, known, count_values(data))

    def _show(self, event: Frame, place: int, values: int) -> None:
        delta = str(event.get("delta") or "")
        match event.get("type"):
            case "response.output_text.delta" if delta:
                self._on_delta(TextDelta(clean_text(delta)))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" if delta:
                self._on_delta(ReasoningDelta(clean_text(delta)))
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                self._on_delta(ReasoningDelta("\n\n"))
            case "response.function_call_arguments.delta":
                self._show_call(place, delta)
            case "response.output_item.added":
                self._show_new_item(as_mapping(event.get("item")), place)
            case "response.output_item.done":
                self._take(as_mapping(event.get("item")), place, values)
            case _:
                pass

    def _take(self, item: Frame, place: int, values: int) -> None:
        self._items[str(item.get("id") or "") or place] = place, item
        if len(self._items) > MAX_OUTPUT_ITEMS:
            raise too_large(TOO_MANY_ITEMS)
        self._values += values
        if self._values > MAX_VALUES:
            raise too_large(TOO_MANY_VALUES)

    def _show_new_item(self, item: Frame, place: int) -> None:
        if item.get("type") == "function_call":
            if len(self._calls) >= MAX_CALLS:
                raise too_large(TOO_MANY_CALLS)
            about = str(item.get("call_id") or ""), str(item.get("name") or "")
            self._calls[place] = (len(self._calls), *about)
            self._show_call(place, "")
        # The item is reasoning or a call of a hosted tool, which may take minutes.
        elif item.get("type") != "message":
            self._on_delta(ReasoningDelta(""))

    def whole(self, body: bytes) -> ModelResponse:
        """Return the response in a complete body, without a stream. Raises ModelError."""
        self._response = parse_object(body)
        if self._response.get("error") is None and "output" not in self._response:
            raise invalid_response("the response has no `output`")
        return self.result()

    def result(self) -> ModelResponse:
        """Return the response. Raises ModelError if the response failed or the stream ended too
        early."""
        response = self._response
        if response is None:
            raise broken_stream()
        status = response.get("status")
        if response.get("error") or status in ("failed", "cancelled"):
            raise reported_failure(
                response.get("error") or {"message": f"the response has the status {status}"}
            )
        finish = "stop"
        if status == "incomplete":
            reason = as_mapping(response.get("incomplete_details")).get("reason")
            finish = FINISHES.get(str(reason), "other")
        output = list(_outputs(self._whole_items(response), self._offered))
        calls = [at for at, one in enumerate(output) if isinstance(one, RequestedCall)]
        if len(calls) > MAX_CALLS:
            raise too_large(TOO_MANY_CALLS)
        if calls and status == "incomplete":
            last = output[calls[-1]]
            assert isinstance(last, RequestedCall)
            output[calls[-1]] = replace(last, truncated=True)
        elif calls:
            finish = "tool_calls"
        return ModelResponse(
            tuple(output), finish, read_usage(as_mapping(response.get("usage")), "input", "output")
        )

    def _whole_items(self, response: Frame) -> list[JsonObject]:
        """Return the streamed items, and the items that only the final event contains."""
        listed: Any = response.get("output")
        streamed = [item for _, item in sorted(self._items.values(), key=lambda one: one[0])]
        items = merge_items(streamed, cast(list[Any], listed) if isinstance(listed, list) else [])
        if len(items) > MAX_OUTPUT_ITEMS:
            raise too_large(TOO_MANY_ITEMS)
        return [cast(JsonObject, clean_json(cast(JsonObject, item))[0]) for item in items]

    def _show_call(self, place: int, text: str) -> None:
        if place in self._calls:
            index, call_id, name = self._calls[place]
            self._on_delta(ArgumentsDelta(index, call_id, name, clean_text(text)))


def _outputs(items: list[JsonObject], offered: DeclaredTools) -> Iterator[Output]:
    follower: JsonObject
    items = pair_shell_calls(items, offered)
    for at, item in enumerate(items):
        led = at > 0 and items[at - 1].get("type") == "reasoning"
        kind = item.get("type")
        if kind == "message":
            yield from _messages(item, led=led)
        elif kind == "reasoning":
            follower = items[at + 1] if at + 1 < len(items) else {}
            yield Reasoning(PROVIDER, {**item, LEADS_TO: follower.get("id")})
        elif kind == "function_call":
            yield _call(item, led=led)
        elif "type" not in item and "items" in item:
            yield read_shell_call(item, offered)
        elif kind in KINDS:
            name = offered.executor_name(KINDS[str(kind)])
            yield _native(item, str(item.get("call_id") or ""), name)
        elif kind == APPROVAL:
            name = offered.hosted_name("mcp", item.get("server_label"))
            yield _native(item, str(item.get("id") or ""), name)
        else:
            yield read_hosted_call(item, offered)


def _messages(item: JsonObject, *, led: bool) -> Iterator[Message]:
    """Yield the item's text or refusal as a message. Besides the text, only data that cannot be
    sent in another form is stored: citations, the phase, and the ID if reasoning preceded the
    item."""
    content = objects_in(item.get("content"))
    if isinstance(item.get("content"), str):
        content = [{"type": "output_text", "text": item["content"]}]
    texts = [part for part in content if part.get("type") == "output_text"]
    refusals = [part.get("refusal") for part in content if part.get("type") == "refusal"]
    phase = item.get("phase")
    cited = any(part.get("annotations") for part in texts)
    native = None
    if item.get("id") and (led or cited or phase):
        data: JsonObject = {"id": item["id"]}
        if phase:
            data["phase"] = phase
        if cited and not refusals:
            data["content"] = [
                {
                    "type": "output_text",
                    "text": part.get("text"),
                    "annotations": part.get("annotations") or [],
                }
                for part in texts
            ]
        native = Native(PROVIDER, data)
    if refusals:
        yield Message("assistant", "".join(map(str, refusals)), refusal=True, native=native)
    elif text := text_in(texts):
        yield Message("assistant", text, native=native)


def _call(item: JsonObject, *, led: bool) -> RequestedCall:
    beside = {key: item[key] for key in CALL_FIELDS if item.get(key) is not None}
    if not led:
        beside.pop("id", None)
    arguments = item.get("arguments")
    return RequestedCall(
        str(item.get("call_id") or ""),
        str(item.get("name") or ""),
        "" if arguments is None else as_text(arguments),
        truncated=item.get("status") == "incomplete",
        native=Native(PROVIDER, beside) if beside else None,
    )


def _native(item: JsonObject, call_id: str, name: str) -> RequestedCall:
    return RequestedCall(
        call_id,
        name,
        arguments_of(item),
        truncated=item.get("status") == "incomplete",
        native=Native(PROVIDER, item),
    )


def merge_items(streamed_items: list[Frame], final_items: Iterable[Any]) -> list[Frame]:
    """Return every item once, in the order of `final_items`. If both lists contain an item, the
    streamed one is used. Entries of `final_items` that are not objects are dropped."""
    at_end = [cast(Frame, item) for item in final_items if isinstance(item, dict)]
    pairs = _pairs(streamed_items, at_end)
    paired = {*pairs.values()}
    left = deque(at for at in range(len(streamed_items)) if at not in paired)
    items: list[Frame] = []
    for place, item in enumerate(at_end):
        pair = pairs.get(place)
        while pair is not None and left and left[0] < pair:
            items.append(streamed_items[left.popleft()])
        items.append(item if pair is None else streamed_items[pair])
    return [*items, *(streamed_items[at] for at in left)]


def _pairs(streamed: list[Frame], listed: list[Frame]) -> dict[int, int]:
    """Return the index of the streamed item for the index of each final item: the item with the
    same ID, or else the next one of the same type."""
    pairs: dict[int, int] = {}
    for name in (_id, _type):
        taken = {*pairs.values()}
        waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for at, item in enumerate(streamed):
            if at not in taken:
                waiting[name(item)].append(at)
        for at, item in enumerate(listed):
            named = name(item)
            if at not in pairs and named is not None and waiting[named]:
                pairs[at] = waiting[named].popleft()
    return pairs


def _id(item: Frame) -> Hashable:
    known = item.get("id") or item.get("call_id")
    return known if isinstance(known, str) else None


def _type(item: Frame) -> Hashable:
    return str(item.get("type"))
