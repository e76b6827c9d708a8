"""Build the output items of a response in OpenAI's format.

Calls that Runward runs become `mcp_call` items, which clients display but do not run. A
`function_call` item is always a call that the client must run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from runward.api.responses.models import SERVER
from runward.domain.json import JsonObject, as_text, compact

JsonItem: TypeAlias = dict[str, Any]
ContentPart: TypeAlias = dict[str, Any]

ENCRYPTED: Final = "reasoning.encrypted_content"
"""The value of `include` that adds encrypted reasoning."""
_TEXTS: Final = ("summary_text", "reasoning_text", "text", "thinking", "reasoning_content")
_REASONS: Final[Mapping[str, str]] = {"guardrail": "content_filter", "max_turns": "max_messages"}
"""The reasons that OpenAI's clients know. All other limits become `max_output_tokens`, the nearest
reason."""


@dataclass(frozen=True, slots=True)
class Tokens:
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> "Tokens":
        """Return the usage from a `usage.updated` event."""
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
    """Return the message of a run whose output is not the last text of its model."""
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
    """Return whether the last message is already the run's complete output."""
    last = next((item for item in reversed(output) if item["type"] == "message"), None)
    if last is None:
        return False
    said = "".join(part.get("text", part.get("refusal", "")) for part in last["content"])
    return said == as_text(final)


# Reasoning and calls.


def reasoning(run: str, number: int, data: Mapping[str, Any]) -> JsonItem:
    """Return the item of the reasoning, with the text that the provider returns. `data` contains
    `encrypted_content` if the client requested it."""
    texts = _find_texts(data["reasoning"])
    said = [{"type": "summary_text", "text": text} for text in texts if text]
    return {
        "type": "reasoning",
        "id": f"rs_{run}_{number}",
        "summary": said,
        "encrypted_content": data.get("encrypted_content"),
    }


def _find_texts(value: JsonValue) -> Iterator[str]:
    """Return the texts in a provider's own format. Encrypted and signed parts are left out. So are
    `details`, which repeat the text."""
    if isinstance(value, list):
        for one in value:
            yield from _find_texts(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name in _TEXTS and isinstance(one, str):
                yield one
            elif isinstance(one, dict | list) and name != "details":
                yield from _find_texts(one)


def function_call(run: str, number: int | str, call_id: str, name: str, arguments: str) -> JsonItem:
    """Return the item of a function call. `number`: the number of the event that created it, or
    another value that is unique in the run."""
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
    """Return the item of a hosted call. Its label is the kind of the tool."""
    arguments = compact(data["arguments"])
    item = mcp_call(run, number, data["tool"], arguments, None)
    return item | {"server_label": data["hosted"]}


def call_result(data: Mapping[str, Any], *, succeeded: bool) -> JsonItem:
    """Return the fields that a call's item gets when the call ends. `data`: the data of its last
    event."""
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


# Events of one item.


def strip_content(item: JsonItem) -> JsonItem:
    """Return the item as it is when it is added: without the content that later events add."""
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
    """Return the events between the start and the end of an item. The caller adds the item's ID and
    index."""
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


# End of the response.


def error(data: Mapping[str, Any]) -> JsonObject:
    """Return the error. OpenAI's clients know few codes, so the run's own code is at the start of
    the message."""
    code = "rate_limit_exceeded" if data["code"] == "model_rate_limited" else "server_error"
    return {"code": code, "message": f"{data['code']}: {data['message']}"}


def incomplete_details(data: Mapping[str, Any]) -> JsonObject:
    """Return the details. `code` and `message` are Runward's own. `reason` is one of those that
    OpenAI's clients know."""
    reason = _REASONS.get(data["reason"], "max_output_tokens")
    return {"reason": reason, "code": data["reason"], "message": data.get("message")}
