"""A search for a text looks at so many runs at a time, and loses none of them on the way."""

from uuid import UUID

import pytest

from runward.domain.ids import RunId
from runward.store.runs import search
from runward.store.runs.search import FoundRuns, RunFilter, search_runs
from tests.db.store import PROJECT, Store

RUNS = 7
WANTED = (1, 4)
"""Places, the oldest run first."""


@pytest.fixture
async def ids(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[RunId]:
    monkeypatch.setattr(search, "MAX_SEARCHED_RUNS", 3)
    await store.sql("DROP INDEX IF EXISTS runs_text")  # Only servers with pg_trgm have it.
    found = await store.accept(RUNS)
    for place in WANTED:
        await store.sql(f"UPDATE runs SET output = '\"a needle\"' WHERE id = '{found[place]}'")
    return sorted(found)


async def look(
    store: Store, *, after: UUID | None, descending: bool, limit: int = 5, text: str = "needle"
) -> FoundRuns:
    async with store.pool.connect() as tx:
        return await search_runs(
            tx, PROJECT, RunFilter(text=text), after=after, limit=limit, descending=descending
        )


@pytest.mark.parametrize("descending", [False, True])
async def test_each_look_ends_after_so_many_runs_and_says_where(
    store: Store, ids: list[RunId], *, descending: bool
) -> None:
    order = ids[::-1] if descending else ids
    first = await look(store, after=None, descending=descending)
    assert first.resume_after == order[2]
    second = await look(store, after=first.resume_after, descending=descending)
    assert second.resume_after == order[5]
    third = await look(store, after=second.resume_after, descending=descending)
    assert third.resume_after is None
    seen = [run.id for page in (first, second, third) for run in page.runs]
    assert seen == [one for one in order if one in {ids[place] for place in WANTED}]


async def test_a_full_page_is_gone_on_from_at_its_last_run(store: Store, ids: list[RunId]) -> None:
    page = await look(store, after=None, descending=False, limit=1)
    assert ([run.id for run in page.runs], page.resume_after) == ([ids[1]], None)


async def test_exactly_so_many_runs_are_all(store: Store, ids: list[RunId]) -> None:
    page = await look(store, after=ids[3], descending=False, text="nothing")
    assert (page.runs, page.resume_after) == ([], None)


async def test_runs_that_are_looked_for_by_anything_else_are_all_looked_at(
    store: Store, ids: list[RunId]
) -> None:
    async with store.pool.connect() as tx:
        found = await search_runs(
            tx, PROJECT, RunFilter(agent="nobody"), after=None, limit=5, descending=True
        )
    assert (found.runs, found.resume_after) == ([], None)
