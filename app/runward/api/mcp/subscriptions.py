"""subscriptions/listen of /mcp (MCP 2026-07-28): changes of the lists of tools and prompts, of runs
as resources, and of runs as tasks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pydantic import JsonValue

from runward.api.events.follow import RunLog, follow
from runward.api.events.open_streams import check_key
from runward.api.http.params import MAX_SEQUENCE
from runward.api.mcp import results
from runward.api.mcp.resources import parse_uri
from runward.api.mcp.streams import follow_tools
from runward.api.mcp.tasks import McpTasks
from runward.api.mcp.wait import read_status
from runward.domain.ids import Prefix, RunId, parse_id
from runward.domain.json import JsonObject
from runward.domain.run.status import TERMINAL
from runward.services import Services
from runward.store.runs import views

MAX_FOLLOWED: Final = 20
"""Maximum number of runs that one subscription follows."""
TASKS: Final = "taskIds"
MAX_BACKLOG: Final = 1000
"""Maximum number of notifications that wait for a slow client."""
_RESOURCES: Final = "resourceSubscriptions"
_UPDATED: Final = "notifications/resources/updated"
_TASK: Final = "notifications/tasks"
_RUN_SLASHES: Final = 3
"""The number of slashes in the URI of a run itself. The other resources of a run change only at its
end."""
_LISTS: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification of the protocol."""

    method: str
    params: JsonObject = field(default_factory=dict[str, JsonValue])


Notices: TypeAlias = AsyncIterator[Notice | None]
"""Notifications. None: there was nothing to report for a while."""


@dataclass(frozen=True, slots=True)
class McpSubscription:
    """One subscription. `honored`: the part of the client's filter that Runward reports."""

    services: Services
    tasks: McpTasks
    honored: JsonObject
    resources: Mapping[RunId, Sequence[str]]
    """The URIs of each run."""
    task_ids: Set[RunId]

    def follow(self) -> Notices:
        """Yield the notifications until the process stops or the key is no longer valid."""
        live = self.services.live
        key = live.get_key_check(self.tasks.principal)
        return check_key(key, self._merge())

    async def _merge(self) -> AsyncGenerator[Notice | None]:
        found: _Queue = asyncio.Queue()

        def end(done: asyncio.Task[None]) -> None:
            if not done.cancelled() and (done is lists or done.exception()):
                found.put_nowait(None)

        lists = asyncio.create_task(self._follow_lists(found))
        runs = {*self.resources, *self.task_ids}
        followers = [lists, *(asyncio.create_task(self._follow_run(one, found)) for one in runs)]
        for follower in followers:
            follower.add_done_callback(end)
        try:
            while (notices := await found.get()) is not None:
                for notice in notices or [None]:
                    yield notice
        finally:
            for follower in followers:
                follower.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    async def _follow_lists(self, found: "_Queue") -> None:
        told = [Notice(method) for name, method in _LISTS.items() if name in self.honored]
        async for changed in follow_tools(self.services, self.tasks.principal):
            _put(found, told if changed else [])

    async def _follow_run(self, run_id: RunId, found: "_Queue") -> None:
        """Report a task once at the start and then after each change, so that no change is lost
        between a request for the task and the subscription."""
        services, project_id = self.services, self.tasks.principal.project_id
        storage, log = services.storage, RunLog(project_id, run_id, MAX_SEQUENCE)
        last: object = None
        async with aclosing(follow(storage, services.live, log)) as batches:
            async for batch in batches:
                if batch.is_idle:
                    continue
                async with storage.connect() as tx:
                    status, waiting = await read_status(tx, project_id, run_id)
                now = (status, [results.describe_wait(one) for one in waiting])
                if now == last:
                    continue
                notices = [
                    Notice(_UPDATED, {"uri": uri})
                    for uri in self.resources.get(run_id, ())
                    if last is not None and (status in TERMINAL or uri.count("/") == _RUN_SLASHES)
                ]
                if run_id in self.task_ids:
                    notices.append(Notice(_TASK, await self.tasks.get(run_id)))
                if notices:
                    _put(found, notices)
                last = now


_Queue: TypeAlias = asyncio.Queue[list[Notice] | None]
"""Notifications that belong together. None: the subscription ends."""


def _put(found: _Queue, notices: list[Notice]) -> None:
    """Add notifications, or end the subscription if its client reads them too slowly."""
    if found.qsize() <= MAX_BACKLOG:
        found.put_nowait(notices if found.qsize() < MAX_BACKLOG else None)


async def subscribe(services: Services, tasks: McpTasks, wanted: JsonObject) -> McpSubscription:
    """Return the subscription for a filter of the protocol. Raises McpRequestError if the client
    requests tasks without the extension."""
    if TASKS in wanted:
        tasks.check_extension()
    uris = {uri: one for uri in _read_texts(wanted, _RESOURCES) if (one := parse_uri(uri))}
    ids = {
        shown: RunId(one)
        for shown in _read_texts(wanted, TASKS)
        if (one := parse_id(Prefix.RUN, shown))
    }
    asked = dict.fromkeys((*uris.values(), *ids.values()))
    storage, project_id = services.storage, tasks.principal.project_id
    async with storage.connect() as tx:
        found = [await views.get_run(tx, project_id, one) for one in [*asked][:MAX_FOLLOWED]]
    runs = {run.id: run for run in found if run is not None}
    resources: dict[RunId, list[str]] = {}
    for uri, run_id in uris.items():
        if run_id in runs:
            resources.setdefault(run_id, []).append(uri)
    task_ids = {one for one in ids.values() if one in runs and runs[one].parent_run_id is None}
    honored: JsonObject = {name: True for name in _LISTS if wanted.get(name) is True}
    if resources:
        honored[_RESOURCES] = [uri for uri, run_id in uris.items() if run_id in runs]
    if task_ids:
        honored[TASKS] = [shown for shown, run_id in ids.items() if run_id in task_ids]
    return McpSubscription(services, tasks, honored, resources, task_ids)


def _read_texts(wanted: JsonObject, name: str) -> list[str]:
    found = wanted.get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
