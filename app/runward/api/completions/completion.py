"""Build chat completions and their chunks from the response log of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runward.api.responses.items import JsonItem, Tokens
from runward.api.responses.log import ResponseLog
from runward.api.responses.parts import ResponseEvent, ResponseSnapshot
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, compact
from runward.store.runs.views import RunView

SEPARATOR: Final = "\n\n"
"""The text between the texts of two turns."""


@dataclass(frozen=True, slots=True)
class CompletionInfo:
    """The fields that a completion and its chunks share. `json_only`: whether the content is only
    the run's output, because it must be JSON."""

    run_id: str
    id: str
    created: int
    model: str
    json_only: bool

    @classmethod
    def from_run(cls, view: RunView, model: str) -> "CompletionInfo":
        return cls(
            format_id(Prefix.RUN, view.id),
            f"chatcmpl-{view.id.hex}",
            int(view.created_at.timestamp()),
            model,
            view.config.get("output_schema") is not None,
        )


def create_log(view: RunView) -> ResponseLog:
    """Return the log of a completion before any event is read."""
    return ResponseLog(run=view.id.hex, after=0, background=False, shape=lambda _: {}, holds=True)


def build_completion(info: CompletionInfo, found: ResponseSnapshot) -> JsonObject:
    """Return the completion of a run that has ended or waits for functions of the client."""
    message: JsonObject = {
        "role": "assistant",
        "content": _join_texts(info, found),
        "refusal": _find_refusal(found),
        "tool_calls": [*list_tool_calls(found)] or None,
    }
    choice: JsonObject = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": get_finish_reason(found),
    }
    return _build_object(info, "chat.completion", [choice], _build_usage(found.usage))


def list_tool_calls(found: ResponseSnapshot) -> list[JsonObject]:
    """Return the calls of the client's functions for which the run waits. Their IDs contain the ID
    of the run, so that the next completion can find it."""
    return [
        {
            "id": item["id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in found.output
        if item["type"] == "function_call"
    ]


def get_finish_reason(found: ResponseSnapshot) -> str:
    if list_tool_calls(found):
        return "tool_calls"
    if found.incomplete is None:
        return "stop"
    return "content_filter" if found.incomplete["reason"] == "content_filter" else "length"


def _join_texts(info: CompletionInfo, found: ResponseSnapshot) -> str | None:
    """Return the content: the texts of all turns, or only the last one if it must be JSON."""
    texts = [part["text"] for part in _list_parts(found) if part["type"] == "output_text"]
    texts = [text for text in texts if text]
    if info.json_only:
        texts = texts[-1:]
    return SEPARATOR.join(texts) or None


def _find_refusal(found: ResponseSnapshot) -> str | None:
    refusals = [part["refusal"] for part in _list_parts(found) if part["type"] == "refusal"]
    return SEPARATOR.join(refusals) or None


def _list_parts(found: ResponseSnapshot) -> Iterator[JsonItem]:
    for item in found.output:
        if item["type"] == "message":
            yield from item["content"]


def _build_object(
    info: CompletionInfo, kind: str, choices: Sequence[JsonObject], usage: JsonObject | None
) -> JsonObject:
    return {
        "id": info.id,
        "object": kind,
        "created": info.created,
        "model": info.model,
        "choices": list(choices),
        "usage": usage,
        "service_tier": None,
        "system_fingerprint": None,
    }


def _build_usage(tokens: Tokens) -> JsonObject:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


class AbandonedTextError(Exception):
    """A model request was repeated, and its text differs from the text of the chunks, which cannot
    be taken back."""


class ChunkWriter:
    """Converts the events of a response to the chunks of a completion."""

    def __init__(self, info: CompletionInfo) -> None:
        self._info = info
        self._item = ""
        self._text = ""
        self._shown = False

    def begin(self) -> str:
        """Return the first chunk."""
        return self._write({"role": "assistant"})

    def convert(self, event: ResponseEvent) -> str:
        """Return the chunks of an event, or an empty string. Raises AbandonedTextError."""
        data: dict[str, Any] = {**event.data}
        match event.type:
            case "response.refusal.delta":
                return self._write({"refusal": data["delta"]})
            case "response.output_text.delta" if not self._info.json_only:
                separator = self._separate(data["item_id"])
                self._text += data["delta"]
                return self._write({"content": separator + data["delta"]})
            case "response.output_item.done" if not self._info.json_only:
                self._check_text(data["item"])
                return ""
            case _:
                return ""

    def _separate(self, item_id: str) -> str:
        """Return the text between this text and the one of an earlier turn."""
        new = item_id != self._item
        separator = SEPARATOR if new and self._shown else ""
        self._text = "" if new else self._text
        self._item, self._shown = item_id, True
        return separator

    def _check_text(self, item: JsonItem) -> None:
        """Check that the chunks contain the final text of the item."""
        if item["type"] == "message" and item["id"] == self._item:
            final = "".join(part.get("text", "") for part in item["content"])
            if item["status"] == "incomplete" or final != self._text:
                raise AbandonedTextError

    def end(self, found: ResponseSnapshot, *, include_usage: bool) -> str:
        """Return the last chunks."""
        chunks = ""
        if self._info.json_only and (text := _join_texts(self._info, found)):
            chunks += self._write({"content": text})
        for index, call in enumerate(list_tool_calls(found)):
            chunks += self._write({"tool_calls": [{"index": index, **call}]})
        chunks += self._write({}, get_finish_reason(found))
        if include_usage:
            chunks += self._frame([], _build_usage(found.usage))
        return f"{chunks}data: [DONE]\n\n"

    def _write(self, delta: JsonObject, finish_reason: str | None = None) -> str:
        choice: JsonObject = {
            "index": 0,
            "delta": delta,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        return self._frame([choice], None)

    def _frame(self, choices: Sequence[JsonObject], usage: JsonObject | None) -> str:
        chunk = _build_object(self._info, "chat.completion.chunk", choices, usage)
        return f"data: {compact(chunk)}\n\n"
