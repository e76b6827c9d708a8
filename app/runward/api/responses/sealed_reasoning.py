"""Reasoning that the client stores. The client receives the provider's reasoning as
`encrypted_content`, and sends it back with the conversation. Only this deployment can decrypt it,
and only for the same project.

Some providers reject reasoning without the item that followed it. So the encrypted content also
describes the items after it, and reasoning is dropped if the first of them was changed. It also
contains the provider's data of these items, such as signatures of tool calls.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue
from pydantic_core import from_json

from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject, compact
from runward.domain.run.items import (
    Item,
    Message,
    Native,
    Reasoning,
    ToolCall,
    item_from_json,
    item_to_json,
)
from runward.store.access.vault import SecretUnreadableError, Vault

_COLUMN: Final = "responses.reasoning"
_MESSAGE: Final = "message"
"""The description of a message. The description of a tool call is a digest."""

SealReasoning: TypeAlias = Callable[[Sequence[Item], JsonObject], str | None]
"""Convert a provider's reasoning, which is part of these items, to `encrypted_content`. None: no
message or tool call followed the reasoning."""


@dataclass(frozen=True, slots=True)
class OpenedReasoning:
    """Reasoning from `encrypted_content`. `followers`: the descriptions of the messages and tool
    calls that followed it, up to the next reasoning, with the provider's data of each."""

    reasoning: Reasoning
    followers: tuple[tuple[str, Native | None], ...]


def make_seal(vault: Vault, project_id: ProjectId) -> SealReasoning:
    def seal(items: Sequence[Item], data: JsonObject) -> str | None:
        content = _build_content(items, data)
        if content is None:
            return None
        sealed = vault.seal(compact(content), column=_COLUMN, project_id=project_id, row="")
        return base64.b64encode(sealed).decode()

    return seal


def _build_content(items: Sequence[Item], data: JsonObject) -> JsonObject | None:
    found: Reasoning | None = None
    followers: list[JsonValue] = []
    for item in items:
        if isinstance(item, Reasoning) and followers:
            break
        if found is None and isinstance(item, Reasoning) and item.data == data:
            found = item
        elif found is not None and isinstance(item, Message | ToolCall):
            native = None if item.native is None else asdict(item.native)
            followers.append([_describe(item), native])
    return (
        {"reasoning": item_to_json(found), "followers": followers} if found and followers else None
    )


def _describe(item: Message | ToolCall) -> str:
    if isinstance(item, Message):
        return _MESSAGE
    return hashlib.sha256(compact([item.name, item.arguments]).encode()).hexdigest()


def open_reasoning(vault: Vault, project_id: ProjectId, sealed: str) -> OpenedReasoning | None:
    """Return the reasoning. None: `make_seal` did not create the value for this project."""
    try:
        raw = base64.b64decode(sealed, validate=True)
        text = vault.open(raw, column=_COLUMN, project_id=project_id, row="")
    except (SecretUnreadableError, ValueError):
        return None
    content = cast("dict[str, Any]", from_json(text))
    reasoning = item_from_json(content["reasoning"])
    assert isinstance(reasoning, Reasoning)
    followers = tuple(
        (str(description), native and Native(**native))
        for description, native in content["followers"]
    )
    return OpenedReasoning(reasoning, followers)


def place_reasoning(given: Sequence[Item | OpenedReasoning]) -> list[Item]:
    """Return the items with each reasoning directly before the item that followed it. A response of
    the API contains the message of a turn before its reasoning. Reasoning is dropped if the item
    that followed it was changed or is missing."""
    placer = _Placer()
    for item in given:
        placer.add(item)
    return placer.list_items()


@dataclass(frozen=True, slots=True)
class _Link:
    """The provider's data of an item, and the reasoning directly before it. None: the item is not
    the first one after the reasoning."""

    native: Native | None
    reasoning: Reasoning | None


@dataclass(slots=True)
class _Placer:
    _items: list[Item] = field(default_factory=list[Item])
    _leading: dict[int, list[Reasoning]] = field(default_factory=dict[int, list[Reasoning]])
    """The reasoning before an item, by the index of the item."""
    _waiting: dict[str, list[_Link]] = field(default_factory=dict[str, list[_Link]])
    """The links to items that come later, by the description of the item."""
    _last_is_answer: bool = False
    """Whether the last item is a message of the assistant."""

    def add(self, item: Item | OpenedReasoning) -> None:
        if isinstance(item, OpenedReasoning):
            for n, (description, native) in enumerate(item.followers):
                link = _Link(native, item.reasoning if n == 0 else None)
                if description == _MESSAGE and self._last_is_answer:
                    self._apply(link)
                else:
                    self._waiting.setdefault(description, []).append(link)
            return
        self._last_is_answer = isinstance(item, Message) and item.role == "assistant"
        if isinstance(item, Message) and not self._last_is_answer:
            self._waiting.clear()
        self._items.append(item)
        if self._waiting and isinstance(item, Message | ToolCall):
            for link in self._waiting.pop(_describe(item), ()):
                self._apply(link)

    def _apply(self, link: _Link) -> None:
        """Apply a link to the last item."""
        last = len(self._items) - 1
        item = self._items[last]
        assert isinstance(item, Message | ToolCall)
        self._items[last] = replace(item, native=link.native or item.native)
        if link.reasoning is not None:
            self._leading.setdefault(last, []).append(link.reasoning)

    def list_items(self) -> list[Item]:
        return [
            one
            for index, item in enumerate(self._items)
            for one in (*self._leading.get(index, ()), item)
        ]
