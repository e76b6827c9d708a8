"""Rows that lists read, compared with the rows that they show, however large the tables are.

If most rows match, PostgreSQL may read the table in order and skip the others."""

from typing import Any, Final

from sqlalchemy import text

from runward.domain.run.status import RunStatus
from runward.store.postgres.db import Tx
from runward.store.runs import approvals, required_actions
from runward.store.runs.required_actions import MIN_COUNTED
from runward.store.runs.search import RunFilter, search_runs
from tests.db.store import PROJECT, Store
from tests.db.test_plans import seed

LIMIT: Final = 21
READ: Final = text(
    "SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)), 0) FROM pg_class c"
    " LEFT JOIN pg_index i ON i.indexrelid = c.oid"
    " WHERE coalesce(i.indrelid, c.oid) = CAST(CAST(:table AS text) AS regclass)"
)
"""Rows and index entries that this transaction has read."""
FILTERS: Final = (
    RunFilter(),
    RunFilter(agent="agent 7"),
    *(RunFilter(statuses=[status]) for status in RunStatus),
    RunFilter(statuses=[RunStatus.FAILED, RunStatus.REQUIRES_ACTION]),
    RunFilter(statuses=[RunStatus.QUEUED, RunStatus.IN_PROGRESS]),
    RunFilter(statuses=[*RunStatus]),
)
APPROVALS: Final[tuple[dict[str, Any], ...]] = (
    {},
    *({"status": status} for status in ("pending", "approved", "rejected")),
    {"tool": "rare"},
    {"tool": "pay"},
)


async def rows_read(tx: Tx, table: str) -> int:
    return int(await tx.scalar(READ, {"table": table}) or 0)


async def test_a_list_reads_few_rows_that_it_does_not_show(store: Store) -> None:
    await seed(store, runs=20_000)
    await store.sql(
        "UPDATE approvals SET tool = 'rare' WHERE id IN (SELECT max(id::text)::uuid FROM approvals"
        " UNION SELECT min(id::text)::uuid FROM approvals)"
    )
    await store.sql("ANALYZE")
    read: dict[str, tuple[int, int]] = {}
    async with store.pool.connect() as tx:
        for descending in (False, True):
            page: dict[str, Any] = {"after": None, "limit": LIMIT, "descending": descending}
            for filters in FILTERS:
                before = await rows_read(tx, "runs")
                shown = len((await search_runs(tx, PROJECT, filters, **page)).runs)
                read[f"{filters} {page}"] = (await rows_read(tx, "runs") - before, shown)
            for which in APPROVALS:
                before = await rows_read(tx, "approvals")
                shown = len(await approvals.search(tx, PROJECT, **which, **page))
                read[f"{which} {page}"] = (await rows_read(tx, "approvals") - before, shown)
        before = await rows_read(tx, "approvals") + await rows_read(tx, "tool_calls")
        inbox = await required_actions.list_pending_actions(tx, PROJECT, MIN_COUNTED)
        after = await rows_read(tx, "approvals") + await rows_read(tx, "tool_calls")
        read["inbox"] = (after - before, len(inbox.actions))
    assert (len(inbox.actions), inbox.counts.approval, inbox.has_more) == (*[MIN_COUNTED] * 2, True)
    assert sum(shown == LIMIT for _, shown in read.values()) > 20
    # A merge reads one entry of each status ahead.
    ahead = len(RunStatus)
    assert {name: one for name, one in read.items() if one[0] > max(2 * one[1], ahead)} == {}
