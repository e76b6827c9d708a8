"""Reading a response from the log of its run, as it is or as it goes on."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final, cast

from pydantic_core import from_json

from runward.api.events.stream import HEARTBEAT_SECONDS
from runward.api.responses.ids import ResponseId
from runward.api.responses.log import Log
from runward.api.responses.parts import Logged, SentItem
from runward.api.responses.shapes import shaper
from runward.domain import errors as e
from runward.domain.ids import ProjectId, RunId
from runward.store.live import events
from runward.store.live.drafts import Piece
from runward.store.live.events import StoredEvent
from runward.store.live.listener import Follower
from runward.store.postgres.db import Tx
from runward.store.runs import views
from runward.store.runs.views import RunView
from runward.wiring import Services

PAGE: Final = 500
"""Events read at once."""


def log_of(view: RunView, id_: ResponseId, starting_after: int = -1) -> Log:
    """Of a response of which nothing is read yet."""
    request = cast("dict[str, Any]", view.config.get("request") or {})
    return Log(
        run=id_.run_id.hex,
        after=id_.after,
        background=bool(request.get("background")),
        shape=shaper(view, id_),
        starting_after=starting_after,
    )


async def found_response(
    services: Services, project_id: ProjectId, shown: str
) -> tuple[RunView, ResponseId, Log]:
    """As far as its run's log goes now. Raises ResponseNotFoundError."""
    id_ = ResponseId.parse(shown)
    if id_ is None:
        raise e.ResponseNotFoundError
    async with services.autocommit.connect() as tx:
        view = await views.get_run(tx, project_id, id_.run_id)
        if view is None:
            raise e.ResponseNotFoundError
        log = log_of(view, id_)
        await read(tx, project_id, log)
    if id_.after and not (log.begins and log.number):
        raise e.ResponseNotFoundError
    return view, id_, log


async def read(tx: Tx, project_id: ProjectId, log: Log) -> None:
    """All that there is now."""
    run_id = _run_of(log)
    while not log.ended:
        stored = await events.read_after(tx, project_id, run_id, log.seen, PAGE)
        for event in stored:
            log.take(await _whole(tx, project_id, event))
        if len(stored) < PAGE:
            return


async def response_before(tx: Tx, project_id: ProjectId, view: RunView, log: Log) -> Log:
    """The response that ends where this one begins, which was read; the run's first one, where this
    is it."""
    before = log_of(view, ResponseId(_run_of(log), log.found.before))
    await read(tx, project_id, before)
    return before


async def messages_given(tx: Tx, project_id: ProjectId, id_: ResponseId) -> int:
    """Return how many messages the run got from where it waited to where it went on."""
    count, after = 0, id_.after
    while page := await events.read_after(tx, project_id, id_.run_id, after, PAGE):
        for event in page:
            if event.type == "run.resumed":
                return count
            if event.type == "input.received":
                count += int(_parsed(event).data["messages"])
        after = page[-1].sequence
    return count


def _run_of(log: Log) -> RunId:
    id_ = ResponseId.parse(f"resp_{log.run}")
    assert id_ is not None
    return id_.run_id


async def follow(
    services: Services, project_id: ProjectId, log: Log, *, pieces: bool
) -> AsyncIterator[list[SentItem]]:
    """What there is, and what comes, until the response ends or the process stops; an empty list
    where nothing came for a while. `pieces`: of text that is being written too. Holds no database
    connection while it waits."""
    with services.feed.follow(project_id, _run_of(log)) as follower:
        while not (log.ended or services.stopping.is_set()):
            follower.hinted = False
            async with services.autocommit.connect() as tx:
                run_id = _run_of(log)
                stored = await events.read_after(tx, project_id, run_id, log.seen, PAGE)
                whole = [await _whole(tx, project_id, event) for event in stored]
            yield _taken(follower, log, whole)
            if len(stored) == PAGE:
                continue
            if pieces and follower.adrift:
                services.feed.catch_up(follower)
            async for sent in _live(services, follower, log):
                yield sent


def _taken(follower: Follower, log: Log, stored: list[Logged]) -> list[SentItem]:
    sent = [one for event in stored for one in log.take(event)]
    follower.seen = log.seen
    return sent


async def _live(services: Services, follower: Follower, log: Log) -> AsyncIterator[list[SentItem]]:
    """Ends when the database is to be read."""
    while not (log.ended or services.stopping.is_set()):
        if sent := _pushed(follower, log):
            yield sent
        if follower.hinted:
            return
        if not log.ended and not await follower.wait(HEARTBEAT_SECONDS):
            yield []


def _pushed(follower: Follower, log: Log) -> list[SentItem]:
    """What went by."""
    sent: list[SentItem] = []
    while follower.pushed:
        one = follower.pushed.popleft()
        if isinstance(one, Piece):
            texts = [piece for piece in follower.news(one) if piece.type == "message.delta"]
            sent += [out for piece in texts for out in log.piece(from_json(piece.json)["data"])]
        elif one.sequence == log.seen + 1 and not _is_cut(one):
            sent += _taken(follower, log, [_parsed(one)])
        elif one.sequence > log.seen:
            follower.pushed.clear()
            follower.wake()  # one was missed, or is to be read whole
    return sent


def _parsed(event: StoredEvent) -> Logged:
    value = from_json(event.json)
    return Logged(event.sequence, event.type, value["created_at"], value["data"])


def _is_cut(event: StoredEvent) -> bool:
    return '"truncated":true' in event.json


async def _whole(tx: Tx, project_id: ProjectId, event: StoredEvent) -> Logged:
    """With what is too large for an event: arguments, from the ledger, and the run's output. The
    outputs of calls stay cut."""
    parsed = _parsed(event)
    if not parsed.data.get("truncated"):
        return parsed
    data, run_id = dict(parsed.data), RunId(event.run_id)
    if "arguments" in data and data["arguments"] is None:
        for one in await views.calls_of(tx, project_id, run_id, call_id=data["call_id"]):
            created = event.type == "tool_call.created"
            data["arguments"] = one.call.asked if created else one.call.arguments
    elif event.is_last:
        view = await views.get_run(tx, project_id, run_id)
        data["output"] = view.output if view else data["output"]
    return replace(parsed, data=data)
