"""Responses of a model server: the frames of both protocols, and the whole response at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from tests.chaos.load.plan import Call, Json, role_of

Protocol: TypeAlias = Literal["chat", "responses"]

CREATED: Final = 1_700_000_000
PIECE: Final = 24
"""Characters of a text or of arguments in one frame."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to a model, as the plan sees it."""

    number: int
    protocol: Protocol
    model: str
    plan_id: str
    turn: int
    streamed: bool

    @property
    def role(self) -> str:
        return role_of(self.model)

    @property
    def id(self) -> str:
        return f"{self.plan_id}-{self.model}-{self.turn}-{self.number}"


def _pieces(whole: str) -> list[str]:
    return [whole[at : at + PIECE] for at in range(0, len(whole), PIECE)]


def chat_frames(
    asked: Asked, text: str, calls: list[tuple[Call, str]], usage: dict[str, int]
) -> Iterator[tuple[str, Json]]:
    head = {"id": asked.id, "created": CREATED, "model": asked.model}
    chunk = {**head, "object": "chat.completion.chunk"}
    finish = "tool_calls" if calls else "stop"
    deltas: list[Json] = [{"role": "assistant", "content": "" if text else None}]
    deltas += [{"content": piece} for piece in _pieces(text)]
    for index, (call, arguments) in enumerate(calls):
        function = {"name": call.tool, "arguments": ""}
        opened = {"index": index, "id": call.id, "type": "function", "function": function}
        deltas.append({"tool_calls": [opened]})
        for piece in _pieces(arguments):
            part = {"index": index, "function": {"arguments": piece}}
            deltas.append({"tool_calls": [part]})
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield "", {**chunk, "choices": [choice], "usage": None}
    tokens = {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": sum(usage.values()),
    }
    end: Json = {"index": 0, "delta": {}, "finish_reason": finish}
    yield "", {**chunk, "choices": [end], "usage": None}
    yield "", {**chunk, "choices": [], "usage": tokens}
    message: Json = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": arguments},
            }
            for call, arguments in calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    yield "whole", {**head, "object": "chat.completion", "choices": [choice], "usage": tokens}


def responses_frames(
    asked: Asked, text: str, calls: list[tuple[Call, str]], usage: dict[str, int]
) -> Iterator[tuple[str, Json]]:
    number = 0

    def event(kind: str, **data: Any) -> tuple[str, Json]:
        nonlocal number
        number += 1
        return kind, {"type": kind, "sequence_number": number - 1, **data}

    items = [_message(asked, text)] if text else []
    items += [_function_call(asked, call, arguments) for call, arguments in calls]
    opened: Json = {
        "id": f"resp_{asked.id}",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "model": asked.model,
        "output": [],
        "usage": None,
        "error": None,
        "incomplete_details": None,
    }
    tokens = usage | {
        "total_tokens": sum(usage.values()),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole = opened | {"status": "completed", "output": items, "usage": tokens}
    yield event("response.created", response=opened)
    for index, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": index}
        hidden: Json = {"content": []} if "content" in item else {"arguments": ""}
        started: Json = item | hidden | {"status": "in_progress"}
        yield event("response.output_item.added", output_index=index, item=started)
        kind = "output_text" if "content" in item else "function_call_arguments"
        for piece in _pieces(text if "content" in item else item["arguments"]):
            more: Json = {"content_index": 0, "logprobs": []} if "content" in item else {}
            yield event(f"response.{kind}.delta", **place, **more, delta=piece)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole)
    yield "whole", whole


def _message(asked: Asked, text: str) -> Json:
    part: Json = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": f"msg_{asked.number}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _function_call(asked: Asked, call: Call, arguments: str) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_{asked.number}_{call.id}",
        "call_id": call.id,
        "name": call.tool,
        "arguments": arguments,
        "status": "completed",
    }
