"""The conversation as the model is to see it: every call followed by exactly one result."""

from collections.abc import Iterator
from dataclasses import replace

from app.domain import texts
from app.domain.calls import Call
from app.domain.ids import CallId
from app.domain.items import Item, TextPart, ToolResult
from app.domain.json import compact
from app.domain.plan import WARN_AT, identical_before
from app.domain.state import RunState, Segment, tool_calls_of


def conversation(state: RunState) -> tuple[Item, ...]:
    """Results stand directly after the response that asked for them, in the model's order,
    whenever they came."""
    return tuple(item for item, _ in attributed(state))


def attributed(state: RunState) -> Iterator[tuple[Item, Segment]]:
    """Each item with the segment that it belongs to."""
    answered: set[CallId] = set()
    for segment in state.segments:
        for item in segment.items:
            yield item, segment
        for asked in tool_calls_of(segment):
            call = state.calls[asked.call_id]
            if call.result is not None:
                yield _result(state, call, again=call.id in answered), segment
                answered.add(call.id)


def _result(state: RunState, call: Call, *, again: bool) -> ToolResult:
    assert call.result is not None
    result = ToolResult(
        call.id, call.result.output, is_error=call.result.is_error, parts=call.result.parts
    )
    notes: list[str] = []
    if again:
        notes.append(texts.STORED)
    if call.original is not None:
        notes.append(texts.edited(compact(call.arguments)))
    if identical_before(state, call) + 1 == WARN_AT:
        notes.append(texts.REPEATED_WARNING)
    if call.result.full is not None:
        notes.append(texts.cut_result(call.id))
    if not notes:
        return result
    noted = "\n".join([*notes, result.text])
    parts = (TextPart("\n".join(notes)), *result.parts) if result.parts else ()
    return replace(result, output=noted, parts=parts)
