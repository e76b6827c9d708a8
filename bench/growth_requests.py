"""The requests and queries of the part `growth`, and the number of rows that each of them reads."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias
from uuid import UUID

from sqlalchemy import text

from bench.growth_fill import NEEDLE
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.status import RunStatus
from runward.store.access.keys import DEFAULT_PROJECT
from runward.store.live import events
from runward.store.postgres.db import Tx
from runward.store.registry.tool_history import list_past_calls
from runward.store.runs import approvals, erasure, queue, required_actions, sweep, views
from runward.store.runs.search import RunFilter, search_runs

PROJECT: Final = ProjectId(DEFAULT_PROJECT)
LEASE: Final = timedelta(seconds=30)
LIMIT: Final = 21
"""A page of 20 items, and one item that shows whether there are more."""
INBOX_LIMIT: Final = 100
_READ: Final = text(
    "SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)), 0) FROM pg_class c"
    " LEFT JOIN pg_index i ON i.indexrelid = c.oid"
    " WHERE coalesce(i.indrelid, c.oid) = ANY(CAST(CAST(:tables AS text[]) AS regclass[]))"
)
"""Rows and index entries of these tables that this connection has read since it last reported its
statistics."""

Query: TypeAlias = Callable[[Tx, UUID], Awaitable[list[Any]]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a list or a run. `{old}` in the path is the ID of the oldest run. `query`
    returns the rows of the response, and `tables` contain them."""

    name: str
    path: str
    query: Query
    tables: tuple[str, ...] = ("runs",)


def _list_runs(**conditions: Any) -> Query:
    async def query(tx: Tx, _: UUID) -> list[Any]:
        found = await search_runs(
            tx, PROJECT, RunFilter(**conditions), after=None, limit=LIMIT, descending=True
        )
        return found.runs

    return query


def _list_approvals(**conditions: Any) -> Query:
    async def query(tx: Tx, _: UUID) -> list[Any]:
        return await approvals.search(tx, PROJECT, **conditions, limit=LIMIT, descending=True)

    return query


async def _list_inbox(tx: Tx, _: UUID) -> list[Any]:
    return [*(await required_actions.list_pending_actions(tx, PROJECT, INBOX_LIMIT)).actions]


async def _read_events(tx: Tx, run: UUID) -> list[Any]:
    page = await events.read_page(tx, PROJECT, RunId(run), 0, 100)
    return list(page.events) if page else []


async def _read_run(tx: Tx, run: UUID) -> list[Any]:
    return [await views.get_run(tx, PROJECT, RunId(run))]


async def _list_calls(tx: Tx, _: UUID) -> list[Any]:
    return list(
        await list_past_calls(tx, PROJECT, "lookup", after=None, limit=LIMIT, descending=True)
    )


REQUESTS: Final = (
    Request("runs", "/v1/runs", _list_runs()),
    Request(
        "runs, status of most",
        "/v1/runs?status=completed",
        _list_runs(statuses=[RunStatus.COMPLETED]),
    ),
    Request(
        "runs, status of few", "/v1/runs?status=failed", _list_runs(statuses=[RunStatus.FAILED])
    ),
    Request(
        "runs, parked",
        "/v1/runs?status=requires_action",
        _list_runs(statuses=[RunStatus.REQUIRES_ACTION]),
    ),
    Request("runs, agent of most", "/v1/runs?agent=plain", _list_runs(agent="plain")),
    Request("runs, agent of few", "/v1/runs?agent=rare", _list_runs(agent="rare")),
    Request("runs, unknown agent", "/v1/runs?agent=none", _list_runs(agent="none")),
    Request("search, text in most", "/v1/runs?q=question", _list_runs(text="question")),
    Request("search, text in few", f"/v1/runs?q={NEEDLE}", _list_runs(text=NEEDLE)),
    Request("search, text in none", "/v1/runs?q=ostrich", _list_runs(text="ostrich")),
    Request("approvals", "/v1/approvals", _list_approvals(), ("approvals",)),
    Request(
        "approvals, pending",
        "/v1/approvals?status=pending",
        _list_approvals(status="pending"),
        ("approvals",),
    ),
    Request(
        "approvals, status of few",
        "/v1/approvals?status=rejected",
        _list_approvals(status="rejected"),
        ("approvals",),
    ),
    Request(
        "approvals, tool of few",
        "/v1/approvals?tool=rare",
        _list_approvals(tool="rare"),
        ("approvals",),
    ),
    Request("inbox", "/v1/required_actions", _list_inbox, ("approvals", "tool_calls")),
    Request("calls of a tool", "/v1/tools/lookup/calls", _list_calls, ("tool_calls",)),
    Request("an old run", "/v1/runs/{old}", _read_run),
    Request("events of an old run", "/v1/runs/{old}/events", _read_events, ("run_events",)),
)
QUERIES: Final[Mapping[str, Callable[[Tx], Awaitable[object]]]] = {
    "claim": lambda tx: queue.claim(tx, 16, LEASE),
    "sweep, leases": sweep.free_expired_leases,
    "sweep, approvals": sweep.list_due_approvals,
    "sweep, callbacks": sweep.list_due_callbacks,
    "sweep, results": sweep.list_due_results,
    "sweep, deadlines": sweep.list_due_deadlines,
    "sweep, crash loops": lambda tx: sweep.list_crash_loops(tx, LEASE),
    "sweep, orphans": sweep.list_orphans,
    "sweep, erasures": lambda tx: erasure.list_due(tx, sweep.BATCH),
    "sweep, idempotency keys": sweep.delete_expired_idempotency_keys,
}


async def count_rows(tx: Tx, request: Request, old: UUID) -> tuple[int, int]:
    """Return the numbers of rows that the query reads and shows."""
    tables = {"tables": list(request.tables)}
    before = int(await tx.scalar(_READ, tables) or 0)
    rows = await request.query(tx, old)
    return int(await tx.scalar(_READ, tables) or 0) - before, len(rows)
