"""Read a response from the event log of its run: once, or while the run continues."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, cast

from pydantic_core import from_json

from runward.api.events.follow import Entry, RunLog, follow
from runward.api.responses.items import ENCRYPTED
from runward.api.responses.log import ResponseLog
from runward.api.responses.parts import LoggedEvent, ResponseEvent, ResponseId
from runward.api.responses.response_body import make_shape, map_namespaces
from runward.api.responses.sealed_reasoning import SealReasoning, make_seal
from runward.domain import not_found
from runward.domain.events.kinds import MessageDeltaEvent, ReasoningCompletedEvent
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.status import TERMINAL
from runward.services import Live, Storage
from runward.store.live import events
from runward.store.live.events import StoredEvent
from runward.store.postgres.db import Tx
from runward.store.runs import views
from runward.store.runs.views import RunView

PAGE: Final = 500
"""Maximum number of events of one query."""


def create_log(
    view: RunView,
    id_: ResponseId,
    starting_after: int = -1,
    *,
    seal: SealReasoning | None = None,
    include: Collection[str] = (),
) -> ResponseLog:
    """Return the log of a response before any event is read. `seal` is used only if the request of
    the run or `include` asks for encrypted reasoning."""
    request = cast("dict[str, Any]", view.config.get("request") or {})
    return ResponseLog(
        run=id_.run_id.hex,
        after=id_.after,
        background=bool(request.get("background")),
        seal=seal if ENCRYPTED in {*request.get("include", ()), *include} else None,
        namespaces=map_namespaces(request),
        holds=view.erase_at_end,
        shape=make_shape(view, id_),
        starting_after=starting_after,
    )


async def load_response(
    storage: Storage, project_id: ProjectId, shown: str, include: Collection[str] = ()
) -> tuple[RunView, ResponseId, ResponseLog]:
    """Return the response in its current state, from the run's log. Raises ResponseNotFoundError,
    also for a response with `store: false`."""
    id_ = ResponseId.parse(shown)
    if id_ is None:
        raise not_found.ResponseNotFoundError
    async with storage.connect() as tx:
        view = await views.get_run(tx, project_id, id_.run_id)
        if view is None or view.erase_at_end:
            raise not_found.ResponseNotFoundError
        seal = make_seal(storage.vault, project_id)
        log = create_log(view, id_, seal=seal, include=include)
        await read_log(tx, project_id, log)
    if view.status in TERMINAL and not log.event_count:  # Retention has removed the events.
        raise not_found.ResponseNotFoundError
    if id_.after and not (log.begins_at_wait and log.event_count):
        raise not_found.ResponseNotFoundError
    return view, id_, log


async def read_log(tx: Tx, project_id: ProjectId, log: ResponseLog) -> None:
    """Read all events that the log has now."""
    run_id = get_run_id(log)
    while not log.ended:
        stored = await events.read_after(tx, project_id, run_id, log.seen, PAGE)
        for event in stored:
            log.apply_event(await _load_whole(tx, project_id, log, event))
        if len(stored) < PAGE:
            return


async def read_previous_response(
    tx: Tx, project_id: ProjectId, view: RunView, log: ResponseLog
) -> ResponseLog:
    """Return the response that ends where this one begins. If this is the run's first response,
    return this one."""
    before = create_log(view, ResponseId(get_run_id(log), log.snapshot.before))
    await read_log(tx, project_id, before)
    return before


async def count_messages(tx: Tx, project_id: ProjectId, id_: ResponseId) -> int:
    """Return how many messages the run got from where it waited to where it went on."""
    count, after = 0, id_.after
    while page := await events.read_after(tx, project_id, id_.run_id, after, PAGE):
        for event in page:
            if event.type == "run.resumed":
                return count
            if event.type == "input.received":
                count += int(_parse_event(event).data["messages"])
        after = page[-1].sequence
    return count


def get_run_id(log: ResponseLog) -> RunId:
    id_ = ResponseId.parse(f"resp_{log.run}")
    assert id_ is not None
    return id_.run_id


async def follow_response(
    storage: Storage, live: Live, project_id: ProjectId, log: ResponseLog, *, deltas: bool
) -> AsyncGenerator[list[ResponseEvent]]:
    """Yield stored and new events until the response ends or the process stops. Yield an empty list
    if nothing arrived for a while. `deltas`: also yield pieces of texts that are being
    generated."""
    run_log = RunLog(project_id, get_run_id(log), log.seen)
    async with aclosing(follow(storage, live, run_log, deltas=deltas)) as batches:
        async for batch in batches:
            sent: list[ResponseEvent] = []
            for item in batch.items:
                if isinstance(item, Entry):
                    sent += log.apply_event(await _load_event(storage, project_id, log, item.event))
                elif item.type == MessageDeltaEvent.type:
                    sent += log.apply_delta(item.data)
            if sent or not batch.items:
                yield sent
            if log.ended:
                return


async def _load_event(
    storage: Storage, project_id: ProjectId, log: ResponseLog, event: StoredEvent
) -> LoggedEvent:
    if not _is_truncated(event) and not _has_sealed_reasoning(log, event):
        return _parse_event(event)
    async with storage.connect() as tx:
        return await _load_whole(tx, project_id, log, event)


def _has_sealed_reasoning(log: ResponseLog, event: StoredEvent) -> bool:
    new = event.sequence > log.after
    return new and log.seal is not None and event.type == ReasoningCompletedEvent.type


def _parse_event(event: StoredEvent) -> LoggedEvent:
    value = from_json(event.json)
    return LoggedEvent(event.sequence, event.type, value["created_at"], value["data"])


def _is_truncated(event: StoredEvent) -> bool:
    return b'"truncated":true' in event.json


async def _load_whole(
    tx: Tx, project_id: ProjectId, log: ResponseLog, event: StoredEvent
) -> LoggedEvent:
    """Load the values that are too large for events: arguments from the tool-call log, and the
    run's output. Outputs of calls stay truncated. Also add encrypted reasoning."""
    parsed = _parse_event(event)
    if log.seal is not None and _has_sealed_reasoning(log, event):
        items = await views.list_response_items(
            tx, project_id, RunId(event.run_id), parsed.data["turn"]
        )
        sealed = log.seal(items, parsed.data["reasoning"])
        return replace(parsed, data={**parsed.data, "encrypted_content": sealed})
    if not parsed.data.get("truncated"):
        return parsed
    data, run_id = dict(parsed.data), RunId(event.run_id)
    if "arguments" in data and data["arguments"] is None:
        for one in await views.list_calls(tx, project_id, run_id, call_id=data["call_id"]):
            created = event.type == "tool_call.created"
            data["arguments"] = one.call.requested_arguments if created else one.call.arguments
    elif event.is_last:
        view = await views.get_run(tx, project_id, run_id)
        data["output"] = view.output if view else data["output"]
    return replace(parsed, data=data)
