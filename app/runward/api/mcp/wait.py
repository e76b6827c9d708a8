"""Waiting for the run behind an MCP tool call, and saying meanwhile what it does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from pydantic_core import from_json

from runward.api.events.wait import RECHECK_SECONDS
from runward.api.mcp import results
from runward.domain import errors as e
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject
from runward.domain.run.calls import CLIENT_PHASES
from runward.domain.run.status import TERMINAL, RunStatus
from runward.services import Live, Storage
from runward.store.live import events
from runward.store.live.events import StoredEvent
from runward.store.live.listener import Follower
from runward.store.postgres.db import Tx
from runward.store.runs import views
from runward.store.runs.approvals import Approval
from runward.store.runs.views import WaitingCall

ProgressReport: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Progress: a number that grows, and what there is to say."""

HEARTBEAT_SECONDS: Final = 10.0
"""At least so often something is said, so that a client that resets its timeout goes on waiting."""
_PAGE: Final = 500
"""What whoever started the run gives over the REST API. MCP has no way for that."""


async def wait_for_result(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    *,
    seconds: float,
    report: ProgressReport,
    declared: bool = False,
) -> JsonObject:
    """The result of the call, or that the run goes on: after `seconds`, where it needs what no
    client of MCP can give, or when the process stops. Holds no database connection meanwhile.
    Raises RunNotFoundError."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    said = _ProgressReporter(report, format_id(Prefix.RUN, run_id))
    with live.follow(project_id, run_id) as follower:
        await said.report(f"Run {said.run} has been accepted.")
        while True:
            follower.hinted = False
            follower.pushed.clear()
            async with storage.read() as tx:
                found = await views.get_status(tx, project_id, run_id)
                if found is None:
                    raise e.RunNotFoundError
                status, last = found
                news = await events.read_after(tx, project_id, run_id, follower.seen, _PAGE)
                follower.seen = news[-1].sequence if news else follower.seen
                result, waiting = None, list[WaitingCall]()
                if status not in TERMINAL:
                    waiting = (await views.list_waiting_calls(tx, project_id, [run_id]))[run_id]
                elif follower.seen >= last:
                    result = await _load_result(tx, project_id, run_id, declared=declared)
            # Outside of the connection, and also what came just before the end.
            await said.report_news(news, waiting)
            left = end - loop.time()
            if status not in TERMINAL and (
                left <= 0 or live.is_stopping() or _is_stuck(status, waiting)
            ):
                result = results.build_waiting_result(run_id, status, waiting)
            if result is not None:
                return result
            if follower.seen >= last:
                await _wait_for_event(follower, min(left, RECHECK_SECONDS))
            await said.report_status(status)


async def _load_result(
    tx: Tx, project_id: ProjectId, run_id: RunId, *, declared: bool
) -> JsonObject:
    run = await views.get_run(tx, project_id, run_id)
    if run is None:
        raise e.RunNotFoundError
    one_call = run.config.get("kind") == "call"
    calls = await views.list_calls(tx, project_id, run_id) if one_call else ()
    return results.build_run_result(run, calls, declared=declared)


def _is_stuck(status: RunStatus, waiting: list[WaitingCall]) -> bool:
    """Whether nothing goes on, and something is wanted that comes over the REST API alone."""
    return status is RunStatus.REQUIRES_ACTION and any(
        not isinstance(one.subject, Approval) and one.subject.call.phase in CLIENT_PHASES
        for one in waiting
    )


async def _wait_for_event(follower: Follower, seconds: float) -> None:
    """Until something was stored, at most `seconds`. What is not stored is none of our news."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (left := end - loop.time()) > 0 and await follower.wait(left):
        if follower.hinted or any(isinstance(one, StoredEvent) for one in follower.pushed):
            return
        follower.pushed.clear()


class _ProgressReporter:
    """Everything once, numbered: MCP wants progress to grow with each notification."""

    def __init__(self, report: ProgressReport, run: str) -> None:
        self.run = run
        self._report = report
        self._count = 0
        self._asked: set[str] = set()
        self._last = 0.0

    async def report(self, message: str) -> None:
        self._count += 1
        self._last = asyncio.get_running_loop().time()
        await self._report(self._count, message)

    async def report_news(self, news: list[StoredEvent], waiting: list[WaitingCall]) -> None:
        for event in news:
            if event.type == "tool_call.progress":
                data: dict[str, Any] = from_json(event.json)["data"]
                if (message := _format_progress(data)) is not None:
                    await self.report(message)
        for one in waiting:
            what = results.describe_wait(one)
            if what not in self._asked:
                self._asked.add(what)
                await self.report(f"Run {self.run} waits for {what}.")

    async def report_status(self, status: RunStatus) -> None:
        if asyncio.get_running_loop().time() - self._last >= HEARTBEAT_SECONDS:
            await self.report(f"Run {self.run} is {status}.")


def _format_progress(data: dict[str, Any]) -> str | None:
    """Of what a tool says about how far it is."""
    if data.get("status") != "progress":
        return None
    done, message = data.get("progress"), data.get("message")
    share = None if done is None else f"{100 * done:.0f} %"
    return ": ".join(one for one in (share, message) if one) or None
