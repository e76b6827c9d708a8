"""The items of a response, as OpenAI's clients read them.

What Runward ran shows as `mcp_call`, which clients display and never run themselves. A
`function_call` is only ever one that the client is to run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from runward.api.responses.models import SERVER
from runward.domain.json import JsonObject, as_text, compact

JsonItem: TypeAlias = dict[str, Any]
ContentPart: TypeAlias = dict[str, Any]

_TEXTS: Final = ("summary_text", "reasoning_text", "text", "thinking", "reasoning_content")
_REASONS: Final[Mapping[str, str]] = {"guardrail": "content_filter", "max_turns": "max_messages"}
"""Other limits are `max_output_tokens`, the nearest that OpenAI's clients know."""


@dataclass(frozen=True, slots=True)
class Tokens:
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> "Tokens":
        """From `usage.updated`."""
        return cls(
            data["input_tokens"],
            data["output_tokens"],
            data.get("cached_tokens", 0),
            data.get("reasoning_tokens", 0),
        )

    def __sub__(self, before: "Tokens") -> "Tokens":
        return Tokens(
            self.input - before.input,
            self.output - before.output,
            self.cached - before.cached,
            self.reasoning - before.reasoning,
        )

    @property
    def usage(self) -> JsonObject:
        return {
            "input_tokens": self.input,
            "input_tokens_details": {"cached_tokens": self.cached, "cache_write_tokens": 0},
            "output_tokens": self.output,
            "output_tokens_details": {"reasoning_tokens": self.reasoning},
            "total_tokens": self.input + self.output,
        }


# Messages.


def message_id(run: str, turn: int) -> str:
    return f"msg_{run}_{turn}"


def message(run: str, turn: int, *parts: ContentPart, status: str = "completed") -> JsonItem:
    return build_message(message_id(run, turn), "assistant", list(parts), status)


def final_message(run: str, output: JsonValue) -> JsonItem:
    """Of a run whose output is not what its model said last."""
    return build_message(f"msg_{run}_output", "assistant", [text_part(as_text(output))])


def build_message(
    id_: str, role: str, parts: list[ContentPart], status: str = "completed"
) -> JsonItem:
    return {"type": "message", "id": id_, "status": status, "role": role, "content": parts}


def text_part(text: str) -> ContentPart:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def refusal_part(text: str) -> ContentPart:
    return {"type": "refusal", "refusal": text}


def ends_with(output: Sequence[JsonItem], final: JsonValue) -> bool:
    """Return whether the last message is the run's whole output already."""
    last = next((item for item in reversed(output) if item["type"] == "message"), None)
    if last is None:
        return False
    said = "".join(part.get("text", part.get("refusal", "")) for part in last["content"])
    return said == as_text(final)


# What the model thought, and what it called.


def reasoning(run: str, number: int, data: Mapping[str, Any]) -> JsonItem:
    """Its text, as far as the vendor shows it."""
    texts = _find_texts(data["reasoning"])
    said = [{"type": "summary_text", "text": text} for text in texts if text]
    return {"type": "reasoning", "id": f"rs_{run}_{number}", "summary": said}


def _find_texts(value: JsonValue) -> Iterator[str]:
    """The texts in a vendor's own form of it; what is encrypted or signed is left out."""
    if isinstance(value, list):
        for one in value:
            yield from _find_texts(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name in _TEXTS and isinstance(one, str):
                yield one
            elif isinstance(one, dict | list):
                yield from _find_texts(one)


def function_call(run: str, number: int | str, call_id: str, name: str, arguments: str) -> JsonItem:
    """`number`: of the event that made it, or what else tells it apart in its run."""
    return {
        "type": "function_call",
        "id": f"fc_{run}_{number}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def mcp_call(run: str, number: int, name: str, arguments: str, approval_id: str | None) -> JsonItem:
    return {
        "type": "mcp_call",
        "id": f"mcp_{run}_{number}",
        "server_label": SERVER,
        "name": name,
        "arguments": arguments,
        "approval_request_id": approval_id,
        "output": None,
        "error": None,
        "status": "completed",
    }


def hosted_call(run: str, number: int, data: Mapping[str, Any]) -> JsonItem:
    """A call that the model's vendor ran by itself; its label is the kind of tool."""
    arguments = compact(data["arguments"])
    item = mcp_call(run, number, data["tool"], arguments, None)
    return item | {"server_label": data["hosted"]}


def call_result(data: Mapping[str, Any], *, succeeded: bool) -> JsonItem:
    """What a call that has ended adds to its item. `data`: of its last event."""
    text = as_text(data["output"])
    if succeeded:
        return {"status": "completed", "output": text}
    content = [{"type": "text", "text": text}]
    return {
        "status": "failed",
        "error": {"type": "mcp_tool_execution_error", "content": content},
    }


def approval_request(approval_id: str, name: str, arguments: str) -> JsonItem:
    return {
        "type": "mcp_approval_request",
        "id": approval_id,
        "server_label": SERVER,
        "name": name,
        "arguments": arguments,
    }


# How an item comes, piece by piece.


def strip_content(item: JsonItem) -> JsonItem:
    """As it is when it is added: without what the events after that bring."""
    match item["type"]:
        case "message":
            return item | {"status": "in_progress", "content": []}
        case "function_call":
            return item | {"status": "in_progress", "arguments": ""}
        case "mcp_call":
            fresh = {"status": "in_progress", "arguments": ""}
            return item | fresh | {"output": None, "error": None}
        case "reasoning":
            return item | {"summary": []}
        case _:
            return item


def list_content_events(item: JsonItem) -> Iterator[tuple[str, JsonItem]]:
    """The events between its being added and done, of which each gets its id and index."""
    match item["type"]:
        case "message":
            yield from _list_message_events(item)
        case "function_call" | "mcp_call" as kind:
            if kind == "mcp_call":
                yield "response.mcp_call.in_progress", {}
            yield f"response.{kind}_arguments.delta", {"delta": item["arguments"]}
            done = {"arguments": item["arguments"]}
            named = {"name": item["name"]} if kind == "function_call" else {}
            yield f"response.{kind}_arguments.done", done | named
            if kind == "mcp_call" and (item["output"] or item["error"]):
                ended = "completed" if item["status"] == "completed" else "failed"
                yield f"response.mcp_call.{ended}", {}
        case "reasoning":
            for index, part in enumerate(item["summary"]):
                at = {"summary_index": index}
                empty = {"type": "summary_text", "text": ""}
                yield "response.reasoning_summary_part.added", {**at, "part": empty}
                yield "response.reasoning_summary_text.delta", {**at, "delta": part["text"]}
                yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
                yield "response.reasoning_summary_part.done", {**at, "part": part}
        case _:
            pass


def _list_message_events(item: JsonItem) -> Iterator[tuple[str, JsonItem]]:
    for index, part in enumerate(item["content"]):
        at = {"content_index": index}
        if part["type"] == "refusal":
            said = part["refusal"]
            yield "response.content_part.added", {**at, "part": refusal_part("")}
            yield "response.refusal.delta", {**at, "delta": said}
            yield "response.refusal.done", {**at, "refusal": said}
        else:
            said = part["text"]
            yield "response.content_part.added", {**at, "part": text_part("")}
            if said:
                yield "response.output_text.delta", {**at, "delta": said, "logprobs": []}
            yield "response.output_text.done", {**at, "text": said, "logprobs": []}
        yield "response.content_part.done", {**at, "part": part}


# How it ended.


def error(data: Mapping[str, Any]) -> JsonObject:
    """OpenAI's clients know few codes; the run's own stands in front of the message."""
    code = "rate_limit_exceeded" if data["code"] == "model_rate_limited" else "server_error"
    return {"code": code, "message": f"{data['code']}: {data['message']}"}


def incomplete_details(data: Mapping[str, Any]) -> JsonObject:
    """`code` and `message` are Runward's own words; `reason` is one that OpenAI's clients know."""
    reason = _REASONS.get(data["reason"], "max_output_tokens")
    return {"reason": reason, "code": data["reason"], "message": data.get("message")}
