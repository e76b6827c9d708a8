"""The conversation that the model reads: every call is followed by exactly one result."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from runward.domain.events.values import CallReason
from runward.domain.ids import CallId
from runward.domain.json import compact
from runward.domain.registry.guards import Stage
from runward.domain.run import texts
from runward.domain.run.items import Item, Message, TextPart, ToolResult
from runward.domain.run.repeated_calls import find_warned_calls
from runward.domain.run.state import (
    Call,
    CallOutcome,
    Result,
    RunState,
    Segment,
    SegmentKind,
    list_requested_calls,
)


def build_conversation(state: RunState) -> tuple[Item, ...]:
    """Return the conversation. Results directly follow the response that requested them, in the
    model's order, regardless of when they arrived."""
    return tuple(item for item, _ in attribute_items(state))


def attribute_items(state: RunState) -> Iterator[tuple[Item, Segment]]:
    """Return each item with its segment."""
    answered: set[CallId] = set()
    warned = find_warned_calls(state.calls.values())
    for segment in state.segments:
        for item in segment.items:
            yield item, segment
        for asked in list_requested_calls(segment):
            call = state.calls[asked.call_id]
            if call.result is not None:
                again, warn = call.id in answered, call.id in warned
                yield _result(call, again=again, warn=warn), segment
                answered.add(call.id)


def remove_refused(state: RunState, stage: Stage | None) -> RunState:
    """Return the run without the content that a guardrail of `stage` rejected. The result is stored
    in the run's session. The content is either the input that the model did not read, or the text
    of the last response and the results of its calls. The calls are kept, because they were
    sent."""
    match stage:
        case "run_input":
            return _without_items(state, find_new_input(state))
        case "run_output" if state.last_response is not None:
            return _without_answer(state, state.last_response)
        case _:
            return state


def _without_items(state: RunState, refused: Collection[Segment]) -> RunState:
    ids = {id(one) for one in refused}  # There may be earlier input with the same content.
    segments = (replace(one, items=()) if id(one) in ids else one for one in state.segments)
    return replace(state, segments=tuple(segments))


def _without_answer(state: RunState, last: Segment) -> RunState:
    asked = list_requested_calls(last)
    items = tuple(one for one in last.items if asked and not isinstance(one, Message))
    segments = tuple(replace(one, items=items) if one is last else one for one in state.segments)
    state = replace(state, segments=segments)
    for call in (state.calls[one.call_id] for one in asked):
        if call.result is not None and not call.result.is_error:
            withheld = Result(CallOutcome.FAILED, texts.OUTPUT_GUARDED, CallReason.GUARDRAIL)
            state = state.with_call(replace(call, result=withheld))
    return state


def _result(call: Call, *, again: bool, warn: bool) -> ToolResult:
    assert call.result is not None
    result = ToolResult(
        call.id, call.result.output, is_error=call.result.is_error, parts=call.result.parts
    )
    notes: list[str] = []
    if again:
        notes.append(texts.STORED)
    if call.original is not None:
        notes.append(texts.edited(compact(call.arguments)))
    if warn:
        notes.append(texts.REPEATED_WARNING)
    if call.result.full is not None:
        notes.append(texts.cut_result(call.id))
    if not notes:
        return result
    noted = "\n".join([*notes, result.text])
    parts = (TextPart("\n".join(notes)), *result.parts) if result.parts else ()
    return replace(result, output=noted, parts=parts)


def find_new_input(state: RunState) -> tuple[Segment, ...]:
    """Return the input that arrived after the last model request."""
    shown = 0
    for number, segment in enumerate(state.segments):
        if segment.kind is SegmentKind.RESPONSE:
            shown = number if segment.segments_before is None else segment.segments_before
    return tuple(one for one in state.segments[shown:] if one.kind is SegmentKind.INPUT)
