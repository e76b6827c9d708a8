"""Restore the tool calls that Runward ran in earlier completions.

The history of a client contains only its own functions. The ID of a call that a completion returned
names the run of this completion, so the run's other calls can be added to the history.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from pydantic_core import from_json

from runward.api.completions.completion import SEPARATOR
from runward.api.runs.input_models import InputMessages, LocatedItem, locate_items, pair_items
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.events.kinds import ToolCallCreatedEvent
from runward.domain.events.values import CallReason
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.json import compact
from runward.domain.run.conversation import attribute_items
from runward.domain.run.items import (
    Item,
    Message,
    ToolCall,
    ToolResult,
    item_to_json,
    join_text,
)
from runward.domain.run.state import RunState, SegmentKind
from runward.services import Storage
from runward.store.live import events
from runward.store.postgres.db import Tx
from runward.store.runs import queries

MAX_RUNS: Final = 32
"""Maximum number of earlier completions whose calls are restored."""
MAX_BYTES: Final = 4_194_304
"""Maximum size in bytes of the restored items, as JSON."""
_RETURNED_ID: Final = re.compile(r"fc_([0-9a-f]{32})_([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The run of an earlier completion. `items`: its conversation after its input, without results
    of the calls that the completion returned. `returned`: the IDs of these calls. `call_ids`: their
    IDs by the IDs that the client sent."""

    items: tuple[Item, ...]
    returned: frozenset[CallId]
    call_ids: Mapping[CallId, CallId]


async def build_history(
    storage: Storage, project_id: ProjectId, messages: InputMessages
) -> tuple[Item, ...]:
    """Return the items of the messages, with the calls that Runward ran in earlier completions.
    Raises InvalidRequestError."""
    read = [locate_items(message, f"messages.{n}") for n, message in enumerate(messages)]
    wanted: dict[RunId, list[CallId]] = {}
    for located in reversed(read):
        if (run_id := _find_run(located)) is not None and len(wanted) < MAX_RUNS:
            wanted.setdefault(run_id, [one.call_id for one in _list_calls(located)])
    known = await _load_runs(storage, project_id, wanted) if wanted else {}
    return pair_items(list(_restore(read, known)))


def _list_calls(located: Sequence[LocatedItem]) -> list[ToolCall]:
    return [item for _, item in located if isinstance(item, ToolCall)]


def _find_run(located: Sequence[LocatedItem]) -> RunId | None:
    """Return the run that returned the calls of a message."""
    found = {
        match[1] if (match := _RETURNED_ID.fullmatch(call.call_id)) else None
        for call in _list_calls(located)
    }
    [shown] = found if len(found) == 1 else [None]
    return None if shown is None else RunId(UUID(hex=shown))


async def _load_runs(
    storage: Storage, project_id: ProjectId, wanted: Mapping[RunId, Sequence[CallId]]
) -> dict[RunId, _Earlier]:
    """Return the runs that exist and have content, newest first, up to MAX_BYTES."""
    known: dict[RunId, _Earlier] = {}
    left = MAX_BYTES
    async with storage.connect() as tx:
        for run_id, call_ids in wanted.items():
            earlier = await _load_run(tx, project_id, run_id, call_ids)
            if earlier is None:
                continue
            left -= sum(len(compact(item_to_json(item))) for item in earlier.items)
            if left < 0:
                break
            known[run_id] = earlier
    return known


async def _load_run(
    tx: Tx, project_id: ProjectId, run_id: RunId, shown_ids: Sequence[CallId]
) -> _Earlier | None:
    try:
        found = await queries.load(tx, project_id, run_id)
    except (not_found.RunErasedError, e.RunUnreadableError):
        return None
    if found is None:
        return None
    state = found[1]
    places = {int(shown.rpartition("_")[2]): shown for shown in shown_ids}
    call_ids: dict[CallId, CallId] = {}
    for event in await events.read_some(tx, project_id, run_id, [*places]):
        if event.type == ToolCallCreatedEvent.type:
            call_id = CallId(from_json(event.json)["data"]["call_id"])
            call_ids[places[event.sequence]] = call_id
    returned = _list_returned(state)
    if len(call_ids) < len(shown_ids) or not returned.issuperset(call_ids.values()):
        return None
    first = next((one for one in state.segments if one.kind is SegmentKind.INPUT), None)
    items = (item for item, segment in attribute_items(state) if segment is not first)
    own = tuple(
        item for item in items if not (isinstance(item, ToolResult) and item.call_id in returned)
    )
    return _Earlier(own, returned, call_ids)


def _list_returned(state: RunState) -> frozenset[CallId]:
    return frozenset(
        call.id
        for call in state.calls.values()
        if call.result is not None and call.result.reason is CallReason.RETURNED_TO_CLIENT
    )


def _restore(
    read: Sequence[Sequence[LocatedItem]], known: Mapping[RunId, _Earlier]
) -> Iterator[LocatedItem]:
    left = dict(known)  # A run is restored where the client refers to it first.
    renamed: dict[CallId, CallId] = {}
    for located in read:
        run_id = _find_run(located)
        earlier = left.pop(run_id, None) if run_id is not None else None
        if earlier is None:
            for at, item in located:
                if isinstance(item, ToolResult):
                    call_id = renamed.pop(item.call_id, item.call_id)
                    yield at, replace(item, call_id=call_id)
                else:
                    yield at, item
        elif _is_unchanged(located, earlier):
            renamed |= earlier.call_ids
            yield from ((located[-1][0], item) for item in earlier.items)
        else:
            yield from ((located[0][0], item) for item in _list_own_calls(earlier))
            yield from located


def _is_unchanged(located: Sequence[LocatedItem], earlier: _Earlier) -> bool:
    """Return whether the client has not changed the text and the calls of the completion."""
    if len(earlier.call_ids) < len(earlier.returned):
        return False
    asked = {one.call_id: one for one in earlier.items if isinstance(one, ToolCall)}
    for call in _list_calls(located):
        own = asked.get(earlier.call_ids[call.call_id])
        if own is None or (own.name, own.arguments) != (call.name, call.arguments):
            return False
    said = [join_text(item.content) for _, item in located if isinstance(item, Message)]
    texts = [
        join_text(item.content)
        for item in earlier.items
        if isinstance(item, Message) and item.role == "assistant"
    ]
    texts = [text for text in texts if text]
    return SEPARATOR.join(said) in (SEPARATOR.join(texts), *texts[-1:])


def _list_own_calls(earlier: _Earlier) -> Iterator[Item]:
    """Return the calls that Runward ran, with their results, and without the provider's data, which
    belongs to the text and the reasoning."""
    for item in earlier.items:
        if isinstance(item, ToolResult):
            yield item
        elif isinstance(item, ToolCall) and item.call_id not in earlier.returned:
            yield replace(item, native=None)
