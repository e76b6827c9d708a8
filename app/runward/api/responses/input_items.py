"""The input of a response, as items of OpenAI's API."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, assert_never

from runward.api.responses.continuation import list_requests
from runward.api.responses.items import build_message, function_call, refusal_part, text_part
from runward.api.responses.log import ResponseLog
from runward.api.responses.sealed_reasoning import SealReasoning
from runward.domain.events.values import CallReason
from runward.domain.json import compact
from runward.domain.run.items import (
    HostedCall,
    Item,
    MediaPart,
    Message,
    MessageContent,
    Part,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
    join_text,
)
from runward.domain.run.state import Call, CallOutcome, RunState, SegmentKind

_NEXT_ITEMS: Final = 16
"""Number of items in which the item that followed reasoning is searched for."""


def list_initial_input(
    run: str, state: RunState, seal: SealReasoning | None = None
) -> list[dict[str, Any]]:
    """Return the input of a run, preceded by the conversation that it continues. `seal`: encrypts
    reasoning. None: the input has no encrypted reasoning."""
    segments = [one for one in state.segments if one.kind is SegmentKind.INPUT][:1]
    items = [item for one in segments for item in one.items]
    return list(encode_items(run, items, seal))


def list_continuation_input(
    run: str, before: ResponseLog, state: RunState, messages: int
) -> list[dict[str, Any]]:
    """Return the answers to the previous response, from the client or another approver, and then
    the `messages` that arrived before the run continued."""
    found: list[dict[str, Any]] = []
    for item in list_requests(before):
        if item["type"] == "function_call":
            call = state.calls.get(item["call_id"])
            if call is not None and call.result is not None:
                result = ToolResult(call.id, call.result.whole)
                found += encode_items(f"{run}_{item['id'].rpartition('_')[2]}", [result])
        else:
            calls = state.calls.values()
            call = next((one for one in calls if _is_about(one, item["id"])), None)
            if call is not None and call.approved_digest is not None:
                found.append(_encode_decision(item["id"], approve=True))
            elif call is not None and _was_declined(call):
                found.append(_encode_decision(item["id"], approve=False))
    segments = [one.items for one in state.segments if one.kind is SegmentKind.INPUT]
    later = [item for items in segments[1:] for item in items]
    given = later[before.message_count : before.message_count + messages]
    return found + list(encode_items(f"{run}_{before.seen}", given))


def _is_about(call: Call, approval_id: str) -> bool:
    return call.approval_id is not None and f"apr_{call.approval_id.hex}" == approval_id


def _was_declined(call: Call) -> bool:
    result = call.result
    declined = result is not None and result.outcome is CallOutcome.REJECTED
    return declined and result is not None and result.reason is CallReason.DECLINED


def _encode_decision(approval_id: str, *, approve: bool) -> dict[str, Any]:
    return {
        "type": "mcp_approval_response",
        "id": approval_id.replace("apr_", "mcpr_"),
        "approval_request_id": approval_id,
        "approve": approve,
        "reason": None,
    }


def encode_items(
    run: str, items: Sequence[Item], seal: SealReasoning | None = None
) -> Iterator[dict[str, Any]]:
    """Yield one item of OpenAI's API for each item. `run`: a part of the IDs."""
    for n, item in enumerate(items, start=1):
        match item:
            case Message(role="assistant"):
                text = join_text(item.content)
                part = refusal_part(text) if item.refusal else text_part(text)
                yield build_message(f"msg_{run}_in{n}", item.role, [part])
            case Message(content=content):
                parts = list(_encode_input_parts(content))
                yield build_message(f"msg_{run}_in{n}", item.role, parts)
            case ToolCall():
                arguments = item.raw if item.raw is not None else item.arguments
                yield function_call(run, f"in{n}", item.call_id, item.name, arguments)
            case ToolResult():
                yield {
                    "type": "function_call_output",
                    "id": f"fco_{run}_in{n}",
                    "call_id": item.call_id,
                    "output": list(_encode_input_parts(item.parts)) if item.parts else item.text,
                    "status": "completed",
                }
            case Reasoning():
                near = items[n - 1 : n + _NEXT_ITEMS]
                sealed = None if seal is None else seal(near, item.data)
                yield {
                    "type": "reasoning",
                    "id": f"rs_{run}_in{n}",
                    "summary": [],
                    "encrypted_content": sealed,
                }
            case HostedCall():
                yield {
                    "type": "mcp_call",
                    "id": f"mcp_{run}_in{n}",
                    "server_label": item.kind,
                    "name": item.name,
                    "arguments": compact(item.arguments),
                    "output": compact(item.output),
                    "error": None,
                    "status": "failed" if item.is_error else "completed",
                }
            case _:
                assert_never(item)


def _encode_input_parts(content: MessageContent) -> Iterator[dict[str, Any]]:
    parts: Sequence[Part] = (TextPart(content),) if isinstance(content, str) else content
    for part in parts:
        match part:
            case TextPart(text=text):
                yield {"type": "input_text", "text": text}
            case MediaPart(type="image"):
                yield {"type": "input_image", "image_url": _url(part), "detail": "auto"}
            case MediaPart():
                about = {"filename": part.filename} if part.filename else {}
                place = "file_url" if part.url else "file_data"
                yield {"type": "input_file", place: _url(part), **about}


def _url(part: MediaPart) -> str:
    return part.url or f"data:{part.media_type};base64,{part.data}"
