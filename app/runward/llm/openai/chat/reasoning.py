"""The fields in which servers send reasoning and expect it back.

OpenAI's protocol has no such field. Three kinds of servers have one:

- DeepSeek, Moonshot and others send `reasoning_content`. They reject later requests in which an
  assistant message lacks it. If the request has no tools, only messages with tool calls need it.
- OpenRouter sends `reasoning_details`, which contain signatures and encrypted reasoning.
- Groq, Cerebras and others send `reasoning`. They reject it in requests.

`Reasoning.data` is {"text", "field", "details"}, without missing values. `field` is
`reasoning_content` if the server sent this field.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import JsonValue

from runward.domain.json import JsonObject, clean_json
from runward.domain.run.items import Item, Reasoning
from runward.llm.failures import MAX_OUTPUT_ITEMS, TOO_MANY_ITEMS, too_large
from runward.llm.frames import Frame, as_mapping, join_text

PROVIDER: Final = "openai"
CONTENT: Final = "reasoning_content"
DETAILS: Final = "reasoning_details"
REASONING: Final = "reasoning"
_FIELDS: Final = frozenset({CONTENT, DETAILS, REASONING})
_TEXTS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types of details that a stream splits into pieces, with the name of their text."""


@dataclass(slots=True)
class _Detail:
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    pieces: list[str] = field(default_factory=list[str])

    def is_continued_by(self, piece: Frame) -> bool:
        """Return whether a piece belongs to this detail. The index does not distinguish details: in
        OpenRouter's streams, all details of a response can have the index 0. So a detail also ends
        if another type or ID begins, or if text follows its signature."""
        kind = piece.get("type")
        if kind not in _TEXTS or kind != self.fields.get("type"):
            return False
        if self.fields.get("signature") and piece.get(_TEXTS[kind]):
            return False
        return all(
            None in (self.fields.get(name), piece.get(name)) or self.fields[name] == piece[name]
            for name in ("index", "id")
        )

    def add(self, piece: Frame) -> None:
        text = piece.get(_TEXTS.get(str(piece.get("type")), ""))
        if isinstance(text, str):
            self.pieces.append(text)
        for name, value in piece.items():
            if self.fields.get(name) is None:
                self.fields[name] = value

    def result(self) -> JsonValue:
        name = _TEXTS.get(str(self.fields.get("type")))
        text = {name: join_text(self.pieces)} if name and self.pieces else {}
        return clean_json(self.fields | text)[0]


class ReasoningMerge:
    """Merges the reasoning of one response. `add` returns the text to show."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._has_content = False
        self._details: list[_Detail] = []

    def add(self, message: Frame, thought: str, *, streamed: bool) -> str:
        """Add a delta or a complete message. `thought`: reasoning in its content. Raises
        ModelError."""
        if not thought and _FIELDS.isdisjoint(message):
            return ""
        self._has_content |= isinstance(message.get(CONTENT), str)
        pieces = self._add_details(message.get(DETAILS), streamed=streamed)
        own = message.get(CONTENT) or message.get(REASONING) or pieces
        text = thought + (own if isinstance(own, str) else "")
        self._text.append(text)
        return text

    def result(self, *, has_calls: bool) -> tuple[Reasoning, ...]:
        """Return the reasoning. Empty reasoning is also returned if the server expects it back with
        the tool calls."""
        data: JsonObject = {"text": join_text(self._text)}
        if self._has_content and (data["text"] or has_calls):
            data["field"] = CONTENT
        if self._details:
            data["details"] = [detail.result() for detail in self._details]
        return (Reasoning(PROVIDER, data),) if data["text"] or len(data) > 1 else ()

    def _add_details(self, value: Any, *, streamed: bool) -> str:
        """Add the details, and return their text."""
        texts: list[str] = []
        found = map(as_mapping, cast(list[Any], value) if isinstance(value, list) else [])
        for piece in (one for one in found if one):
            text = piece.get(_TEXTS.get(str(piece.get("type")), ""))
            texts.append(text if isinstance(text, str) else "")
            if not (streamed and self._details and self._details[-1].is_continued_by(piece)):
                if len(self._details) >= MAX_OUTPUT_ITEMS:
                    raise too_large(TOO_MANY_ITEMS)
                self._details.append(_Detail())
            self._details[-1].add(piece)
        return "".join(texts)


def expects_reasoning(items: Iterable[Item]) -> bool:
    """Return whether a server has sent `reasoning_content` in this conversation."""
    return any(own_data(item).get("field") == CONTENT for item in items)


def own_data(item: Item) -> JsonObject:
    """Return the data of reasoning from a server with this protocol. Otherwise, return {}."""
    return item.data if isinstance(item, Reasoning) and item.provider == PROVIDER else {}
