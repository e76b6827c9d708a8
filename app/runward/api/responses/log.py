"""Convert the event log of a run to the items and events of responses.

Each response covers a part of a run's log. The part starts at the beginning, or where the run
waited for the client. It ends where the run waits for the client again, or ends. A response and its
event numbers depend only on the stored log, so any process can continue a stream.

The number of an event is `STRIDE * n + position`, where `n` counts the log's events since the start
of the response. Pieces of text are shown while the model generates them and are never stored. Their
numbers are between those of two stored events and contain the number of characters shown so far. If
a client reconnects with such a number, it receives exactly the rest of the text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runward.api.responses import items
from runward.api.responses.items import ContentPart, JsonItem
from runward.api.responses.parts import (
    CALL_ENDINGS,
    RUN_ENDINGS,
    CallState,
    LoggedEvent,
    OpenMessage,
    ResponseEvent,
    ResponseSnapshot,
)
from runward.api.responses.sealed_reasoning import SealReasoning
from runward.domain.json import JsonObject, compact

STRIDE: Final = 2**24
LIVE: Final = 2**16
"""Positions below this belong to stored events. Positions from here on belong to pieces of text."""


@dataclass(slots=True)
class ResponseLog:
    """Builds one response from the log. `shape`: builds the response's JSON. `after`: the number of
    the last event before the response. `starting_after`: the number of the last event that the
    client has. `seal`: encrypts reasoning for the client. None: without encrypted reasoning.
    `namespaces`: the `name` and `namespace` of calls of functions in namespaces, by tool."""

    run: str
    """The hexadecimal digits of the run's ID."""
    after: int
    background: bool
    shape: Callable[[ResponseSnapshot], JsonObject]
    starting_after: int = -1
    seal: SealReasoning | None = None
    namespaces: Mapping[str, JsonItem] = field(default_factory=dict[str, JsonItem])
    holds: bool = False
    """Whether a run that waits for more than the client's functions does not end the response."""
    ended: bool = False
    begins_at_wait: bool = False
    """Whether the run waited for the client where the response begins."""
    seen: int = 0
    """The number of the last event of the log that was applied."""
    message_count: int = 0
    """The number of messages that the run had received by then, not counting its first input."""
    _before: int = 0
    """The position in the log where the previous response begins."""
    _status: str = "queued"
    _output: list[JsonItem] = field(default_factory=list[JsonItem])
    _calls: dict[str, CallState] = field(default_factory=dict[str, CallState])
    _early: list[JsonItem] = field(default_factory=list[JsonItem])
    """Items that are before the message of their turn in the log, and after it in the response."""
    _hosted: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    _writing: OpenMessage | None = None
    _turn: int = 0
    """The last turn that has ended."""
    _used_before: items.Tokens = field(default_factory=items.Tokens)
    _used: items.Tokens = field(default_factory=items.Tokens)
    _created_at: str | None = None
    _ended_at: str | None = None
    _error: JsonObject | None = None
    _incomplete: JsonObject | None = None
    _position: int = 0
    _new: list[ResponseEvent] = field(default_factory=list[ResponseEvent])

    @property
    def snapshot(self) -> ResponseSnapshot:
        return ResponseSnapshot(
            self._status,
            [item for item in self._output if item],
            self._used - self._used_before,
            self._created_at,
            self._ended_at,
            self._error,
            self._incomplete,
            self._before,
        )

    @property
    def event_count(self) -> int:
        """The number of the log's events that belong to the response so far."""
        return max(0, self.seen - self.after)

    def apply_event(self, event: LoggedEvent) -> list[ResponseEvent]:
        """Return the events for the client that follow from a stored event."""
        if self.ended or event.sequence <= self.seen:
            return []
        self.seen, self._position = event.sequence, 0
        if event.type == "input.received":
            self.message_count += int(event.data["messages"])
        if event.sequence <= self.after:
            self._apply_earlier(event)
            return []
        if self.event_count == 1:
            self._begin(event)
        if event.type in _HANDLERS:
            _HANDLERS[event.type](self, event)
        self._resume()
        new, self._new = self._new, []
        return new

    def apply_delta(self, data: Mapping[str, Any]) -> list[ResponseEvent]:
        """Return the events for a piece of a text that is being generated. If the piece does not
        begin where the last one ended, skip it: the stored message contains it later."""
        offset, text, turn = int(data["offset"]), str(data["text"]), int(data["turn"])
        if self.ended or self.event_count == 0 or turn <= self._turn:
            return []
        writing = self._writing
        if writing is not None and writing.turn == 0:
            writing.turn = turn
        if writing is None or writing.turn != turn:
            if offset or writing is not None:
                return []
            writing = self._open_message(turn, LIVE)
        if not writing.part:
            writing.part, self._position = True, LIVE + 1
            self._send(
                "response.content_part.added", **self._locate(writing), part=items.text_part("")
            )
        known = writing.text
        if offset > writing.shown or (
            known is not None and known[offset:] != text[: len(known) - offset]
        ):
            return []
        fresh = text[writing.shown - offset :]
        if fresh and writing.shown + len(fresh) < STRIDE - LIVE - 2:
            writing.shown += len(fresh)
            writing.text = None if known is None else known + fresh
            self._position = LIVE + 1 + writing.shown
            self._send(
                "response.output_text.delta", **self._locate(writing), delta=fresh, logprobs=[]
            )
        new, self._new = self._new, []
        return new

    def _open_message(self, turn: int, position: int) -> OpenMessage:
        self._position = position
        item = items.message(self.run, turn, status="in_progress")
        index = len(self._output)
        writing = self._writing = OpenMessage(index, turn, part=True)
        self._send("response.output_item.added", output_index=index, item=item)
        self._send("response.content_part.added", **self._locate(writing), part=items.text_part(""))
        return writing

    def _resume(self) -> None:
        """Continue after the client's last event. The client may also have pieces of text that
        followed it."""
        shown = self.starting_after - STRIDE * self.event_count - LIVE
        if 0 <= shown < STRIDE - LIVE:
            length = max(0, shown - 1)
            self._writing = OpenMessage(len(self._output), 0, length, None, part=shown > 0)

    def _apply_earlier(self, event: LoggedEvent) -> None:
        """Read the events before the response that matter for it."""
        data = event.data
        match event.type:
            case (
                "tool_call.created" | "tool_call.approval_requested" | "tool_call.approval_decided"
            ):
                self.on_call_changed(event)
            case "usage.updated":
                self._used = self._used_before = items.Tokens.parse(data)
            case "run.waiting" if self._list_requests(data):
                self.begins_at_wait = event.sequence == self.after
                self._before = self._before if self.begins_at_wait else event.sequence
            case _:
                pass

    def _begin(self, event: LoggedEvent) -> None:
        self._created_at = event.created_at
        self._status = "queued" if self.background else "in_progress"
        snapshot = self.shape(self.snapshot)
        self._new.append(ResponseEvent(0, "response.created", {"response": snapshot}))
        if self.background:
            self._new.append(ResponseEvent(1, "response.queued", {"response": snapshot}))
        self._status = "queued"
        self._new = [one for one in self._new if one.number > self.starting_after]

    def on_started(self, event: LoggedEvent) -> None:
        del event
        if self._status == "queued":
            self._status = "in_progress"
            self._send("response.in_progress", response=self.shape(self.snapshot))

    def on_reasoning(self, event: LoggedEvent) -> None:
        self._early.append(items.reasoning(self.run, event.sequence, event.data))

    def on_message(self, event: LoggedEvent) -> None:
        self._send_message(event.data)
        self._send_early()

    def on_call_created(self, event: LoggedEvent) -> None:
        data = event.data
        if "hosted" in data:
            self._hosted[data["call_id"]] = items.hosted_call(self.run, event.sequence, data)
            return
        self._abandon_writing()
        self._send_early()
        self.on_call_changed(event)

    def on_call_started(self, event: LoggedEvent) -> None:
        self._start_call(self._calls[event.data["call_id"]])

    def on_call_ended(self, event: LoggedEvent) -> None:
        data, good = event.data, CALL_ENDINGS[event.type]
        if "hosted" in data:
            item = self._hosted.pop(data["call_id"])
            self._early.append(item | items.call_result(data, succeeded=good))
        elif "output" in data:  # If not, the outcome is unknown, and a person must record it.
            self._end_call(data, good=good)

    def on_usage(self, event: LoggedEvent) -> None:
        if "call_id" not in event.data:
            self._abandon_writing()
            self._send_early()
            self._turn = int(event.data["turn"])
        self._used = items.Tokens.parse(event.data)

    def _send(self, type_: str, **data: Any) -> None:
        number = STRIDE * self.event_count + self._position
        self._position += 1
        if number > self.starting_after:
            self._new.append(ResponseEvent(number, type_, data))

    def _locate(self, writing: OpenMessage) -> JsonObject:
        id_ = items.message_id(self.run, writing.turn)
        return {"item_id": id_, "output_index": writing.index, "content_index": 0}

    def _send_item(self, item: JsonItem) -> None:
        """Return the events of an item that is complete at once."""
        index = len(self._output)
        self._output.append(item)
        self._send("response.output_item.added", output_index=index, item=items.strip_content(item))
        for type_, data in items.list_content_events(item):
            self._send(type_, item_id=item["id"], output_index=index, **data)
        self._send("response.output_item.done", output_index=index, item=item)

    def _send_early(self) -> None:
        early, self._early = self._early, []
        for item in early:
            self._send_item(item)

    def _send_message(self, data: Mapping[str, Any]) -> None:
        text, turn = str(data["text"]), int(data["turn"])
        self._turn = turn
        writing, self._writing = self._writing, None
        if data.get("refusal"):
            self._send_item(items.message(self.run, turn, items.refusal_part(text)))
            return
        part = items.text_part(text)
        if writing is None:
            self._send_item(items.message(self.run, turn, part))
            return
        writing.turn = turn
        at, done = self._locate(writing), items.message(self.run, turn, part)
        self._output.append(done)
        if not writing.part:
            self._send("response.content_part.added", **at, part=items.text_part(""))
        rest = (
            text[writing.shown :] if writing.text is None or text.startswith(writing.text) else ""
        )
        if rest:
            self._send("response.output_text.delta", **at, delta=rest, logprobs=[])
        self._close(writing, part, done)

    def _close(self, writing: OpenMessage, part: ContentPart, item: JsonItem) -> None:
        at = self._locate(writing)
        self._send("response.output_text.done", **at, text=part["text"], logprobs=[])
        self._send("response.content_part.done", **at, part=part)
        self._send("response.output_item.done", output_index=writing.index, item=item)

    def _abandon_writing(self) -> None:
        """Remove the message that was being shown: its worker was lost or its model failed, so it
        is not part of the response."""
        writing, self._writing = self._writing, None
        if writing is not None and writing.text is not None:
            part = items.text_part(writing.text)
            item = items.message(self.run, writing.turn, part, status="incomplete")
            self._close(writing, part, item)

    def on_call_changed(self, event: LoggedEvent) -> None:
        data = event.data
        call = self._calls.get(data["call_id"])
        if event.type == "tool_call.created":
            self._calls[data["call_id"]] = CallState(
                event.sequence,
                data["tool"],
                data.get("tool_type") == "client",
                data.get("arguments_text") or compact(data["arguments"]),
            )
        elif call is not None:
            call.approval_id = data.get("approval_id", call.approval_id)
            if "arguments" in data:  # An approver has edited the arguments.
                call.arguments = compact(data["arguments"])

    def _start_call(self, call: CallState) -> None:
        if call.client or call.index is not None:
            return
        call.index = len(self._output)
        item = items.mcp_call(self.run, call.number, call.tool, call.arguments, call.approval_id)
        self._output.append(item | {"status": "in_progress"})
        begun = items.strip_content(item)
        self._send("response.output_item.added", output_index=call.index, item=begun)
        for type_, data in items.list_content_events(item):
            self._send(type_, item_id=item["id"], output_index=call.index, **data)

    def _end_call(self, data: Mapping[str, Any], *, good: bool) -> None:
        call = self._calls[data["call_id"]]
        if call.client:
            return
        self._start_call(call)
        index, call.index = call.index, None
        assert index is not None
        item = self._output[index] = self._output[index] | items.call_result(data, succeeded=good)
        ended = "response.mcp_call.completed" if good else "response.mcp_call.failed"
        self._send(ended, item_id=item["id"], output_index=index)
        self._send("response.output_item.done", output_index=index, item=item)

    def _mark_calls_incomplete(self) -> None:
        """Mark calls that are open at the end of the response as incomplete."""
        for call in self._calls.values():
            if call.index is not None:
                item = self._output[call.index] | {"status": "incomplete"}
                self._output[call.index] = item
                self._send("response.output_item.done", output_index=call.index, item=item)
                call.index = None

    def _list_requests(self, data: Mapping[str, Any]) -> list[JsonItem]:
        """Return the requests for the client. Empty if the run waits only for others."""
        asked: list[JsonItem] = []
        for one in data["waiting_for"]:
            call = self._calls.get(one["call_id"])
            if call is None:
                continue
            if one["type"] == "approval":
                asked.append(items.approval_request(one["approval_id"], call.tool, call.arguments))
            elif one["type"] == "tool_result" and call.client:
                about = (one["call_id"], call.tool, call.arguments)
                item = items.function_call(self.run, call.number, *about)
                asked.append(item | self.namespaces.get(call.tool, {}))
        functions = sum(item["type"] == "function_call" for item in asked)
        return [] if self.holds and functions < len(data["waiting_for"]) else asked

    def on_waiting(self, event: LoggedEvent) -> None:
        asked = self._list_requests(event.data)
        if not asked:
            return
        self._mark_calls_incomplete()
        for item in asked:
            self._send_item(item)
        self._finish("completed", "response.completed", event)

    def on_run_ended(self, event: LoggedEvent) -> None:
        self._abandon_writing()
        self._send_early()
        self._mark_calls_incomplete()
        data = event.data
        output = data.get("output")
        if output is not None and not items.ends_with(self._output, output):
            self._send_item(items.final_message(self.run, output))
        status, last = RUN_ENDINGS[event.type]
        if status == "failed":
            self._error = items.error(data["error"])
        elif status == "incomplete":
            self._incomplete = items.incomplete_details(data["incomplete_details"])
        self._finish(status, last, event)

    def _finish(self, status: str, last: str, event: LoggedEvent) -> None:
        self._status, self._ended_at, self.ended = status, event.created_at, True
        self._send(last, response=self.shape(self.snapshot))


_HANDLERS: Final[Mapping[str, Callable[[ResponseLog, LoggedEvent], None]]] = {
    "run.started": ResponseLog.on_started,
    "run.resumed": ResponseLog.on_started,
    "reasoning.completed": ResponseLog.on_reasoning,
    "message.completed": ResponseLog.on_message,
    "tool_call.created": ResponseLog.on_call_created,
    "tool_call.approval_requested": ResponseLog.on_call_changed,
    "tool_call.approval_decided": ResponseLog.on_call_changed,
    "tool_call.started": ResponseLog.on_call_started,
    "usage.updated": ResponseLog.on_usage,
    "run.waiting": ResponseLog.on_waiting,
    **dict.fromkeys(CALL_ENDINGS, ResponseLog.on_call_ended),
    **dict.fromkeys(RUN_ENDINGS, ResponseLog.on_run_ended),
}
