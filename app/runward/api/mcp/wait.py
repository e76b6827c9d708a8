"""Wait for the run of an MCP tool call, and report its progress meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from math import inf
from typing import Any, Final, TypeAlias

from pydantic_core import from_json

from runward.api.events.follow import RunLog, follow
from runward.api.mcp import results
from runward.api.mcp.elicitation import ClientQuestions, Question
from runward.api.runs.answers import load_content
from runward.domain import not_found
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject
from runward.domain.run.state import CLIENT_PHASES
from runward.domain.run.status import TERMINAL, RunStatus
from runward.services import Live, Storage
from runward.store.live.events import StoredEvent
from runward.store.postgres.db import Tx
from runward.store.runs import views
from runward.store.runs.approvals import Approval
from runward.store.runs.views import WaitingCall

ProgressReport: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Reports progress: a number that increases, and a message."""

HEARTBEAT_SECONDS: Final = 10.0
"""Maximum number of seconds between two reports. Clients that restart their timeout at each report
then keep waiting."""
BEAT_SECONDS: Final = 2.0
"""Interval in seconds at which new progress is checked."""


async def wait_for_result(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    *,
    seconds: float,
    report: ProgressReport,
    declared: bool = False,
    questions: ClientQuestions | None = None,
) -> JsonObject:
    """Return the result of the call. If the run continues, return a description of it: after
    `seconds`, when it needs something that MCP clients cannot provide, or when the process stops.
    Raises RunNotFoundError."""
    asked = await wait_for_run(
        storage, live, project_id, run_id, seconds=seconds, report=report, questions=questions
    )
    if asked:
        return results.build_input_required(run_id, asked)
    async with storage.connect() as tx:
        status, waiting = await read_status(tx, project_id, run_id)
        if status in TERMINAL:
            return await load_result(tx, project_id, run_id, declared=declared)
    return results.build_waiting_result(run_id, status, waiting)


async def wait_for_run(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    *,
    seconds: float = inf,
    report: ProgressReport,
    questions: ClientQuestions | None = None,
    leaves_stuck: bool = True,
) -> list[Question]:
    """Wait until the run ends, until the client must answer the returned questions, for `seconds`,
    or until the process stops. `leaves_stuck`: also stop when the run needs something that MCP
    clients cannot provide. Holds no database connection while it waits. Raises
    RunNotFoundError."""
    reporter = _ProgressReporter(report, format_id(Prefix.RUN, run_id))
    await reporter.report(f"Run {reporter.run} was accepted.")
    found = follow(
        storage, live, RunLog(project_id, run_id), seconds=seconds, heartbeat=BEAT_SECONDS
    )
    async with aclosing(found) as batches:
        async for batch in batches:
            async with storage.connect() as tx:
                status, waiting = await read_status(tx, project_id, run_id)
            await reporter.report_news([entry.event for entry in batch.entries], waiting)
            await reporter.report_status(status)
            if questions is not None and (asked := await questions.ask(waiting)):
                return asked
            if leaves_stuck and _is_stuck(status, waiting, questions):
                break
    return []


async def read_status(
    tx: Tx, project_id: ProjectId, run_id: RunId
) -> tuple[RunStatus, list[WaitingCall]]:
    """Return the status of the run, and the calls that wait. Raises RunNotFoundError."""
    found = await views.get_status(tx, project_id, run_id)
    if found is None:
        raise not_found.RunNotFoundError
    if found[0] in TERMINAL:
        return found[0], []
    return found[0], (await views.list_waiting_calls(tx, project_id, [run_id]))[run_id]


async def load_result(
    tx: Tx, project_id: ProjectId, run_id: RunId, *, declared: bool
) -> JsonObject:
    """Return the result of a run that has ended. `declared`: as in `build_run_result`. Raises
    RunNotFoundError."""
    run = await load_content(tx, project_id, run_id)
    one_call = run.config.get("kind") == "call"
    calls = await views.list_calls(tx, project_id, run_id) if one_call else ()
    return results.build_run_result(run, calls, declared=declared)


def _is_stuck(
    status: RunStatus, waiting: list[WaitingCall], questions: ClientQuestions | None
) -> bool:
    """Return whether the run makes no progress and needs something that only the REST API
    accepts."""
    return status is RunStatus.REQUIRES_ACTION and any(
        not isinstance(one.subject, Approval)
        and one.subject.call.phase in CLIENT_PHASES
        and (questions is None or not questions.covers(one))
        for one in waiting
    )


class _ProgressReporter:
    """Reports each message once. The numbers increase, as MCP requires."""

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
                await self.report(f"Run {self.run} is waiting for {what}.")

    async def report_status(self, status: RunStatus) -> None:
        if asyncio.get_running_loop().time() - self._last >= HEARTBEAT_SECONDS:
            await self.report(f"Run {self.run} has the status {status}.")


def _format_progress(data: dict[str, Any]) -> str | None:
    """Return the message of a tool's own progress."""
    if data.get("status") != "progress":
        return None
    done, message = data.get("progress"), data.get("message")
    share = None if done is None else f"{100 * done:.0f} %"
    return ": ".join(one for one in (share, message) if one) or None
