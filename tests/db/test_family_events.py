"""The log of a run and all below it, as the store reads it."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from runward.domain.ids import RunId
from runward.store.live.family_events import FamilyPage, read_family_after
from runward.store.postgres.db import mint
from tests.db.store import PROJECT, Store

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


async def family(store: Store, *ancestors: RunId, ended: str = "now()", events: int = 2) -> RunId:
    """A run below these that has ended then, with events a second apart."""
    run = RunId(mint())
    parent = f"'{ancestors[-1]}'" if ancestors else "NULL"
    above = ",".join(str(one) for one in ancestors)
    await store.sql(
        "INSERT INTO runs (project_id, id, status, config, last_seq, parent_run_id, parent_call_id,"
        f" ancestors, ended_at) VALUES ('{PROJECT}', '{run}', 'completed', '{{}}', {events},"
        f" {parent}, 'c1', '{{{above}}}', {ended})"
    )
    await store.sql(
        "INSERT INTO run_events (project_id, run_id, seq, type, data, created_at)"
        f" SELECT '{PROJECT}', '{run}', n, CASE WHEN n = {events} THEN 'run.completed' ELSE 'x'"
        f" END, '{{}}', timestamptz '{BEGIN.isoformat()}' + n * interval '1 s'"
        f" FROM generate_series(1, {events}) n"
    )
    return run


async def read(
    store: Store,
    run: RunId,
    seen: dict[UUID, int] | None = None,
    floor: datetime = LONG_AGO,
    count: int = 100,
) -> FamilyPage:
    async with store.autocommit.connect() as tx:
        page = await read_family_after(tx, PROJECT, run, seen or {}, floor, count)
    assert page is not None
    return page


def numbers(page: FamilyPage) -> list[tuple[UUID, int]]:
    return [(event.run_id, event.sequence) for event in page.events]


async def test_events_come_as_they_happened_and_the_runs_last_one_last(store: Store) -> None:
    root = await family(store, events=2)
    child = await family(store, root, events=3)
    grandchild = await family(store, root, child, events=1)
    page = await read(store, root)
    first = sorted([(root, 1), (child, 1), (grandchild, 1)])
    assert numbers(page) == [*first, (child, 2), (child, 3), (root, 2)]
    assert not page.more
    below = await read(store, child)
    assert {event.run_id for event in below.events} == {child, grandchild}


async def test_pages_of_any_size_lose_nothing_and_repeat_nothing(store: Store) -> None:
    root = await family(store, events=4)
    for _ in range(3):
        await family(store, root, events=5)
    whole = numbers(await read(store, root))
    assert len(whole) == 19
    for count in (2, 3, 7):
        seen: dict[UUID, int] = {}
        found: list[tuple[UUID, int]] = []
        more = True
        while more:
            page = await read(store, root, seen, count=count)
            found += numbers(page)
            seen |= dict(numbers(page))
            more = page.more
        assert sorted(found) == sorted(whole)
        assert found[-1] == (root, 4)


async def test_what_ended_up_to_the_floor_is_left_out_unless_it_has_a_place(store: Store) -> None:
    root = await family(store)
    old = await family(store, root, ended="now() - interval '1 h'")
    new = await family(store, root)
    floor = datetime.now(UTC) - timedelta(minutes=30)
    page = await read(store, root, floor=floor)
    assert {event.run_id for event in page.events} == {root, new}
    page = await read(store, root, {old: 1}, floor)
    assert (old, 2) in numbers(page)
    assert (old, 1) not in numbers(page)
    assert [page.runs[one].long_ended for one in (old, new)] == [True, False]


async def test_a_clock_that_was_set_back_does_not_change_a_runs_order(store: Store) -> None:
    root = await family(store, events=4)
    await store.sql(
        "UPDATE run_events SET created_at = created_at - interval '1 day'"
        f" WHERE run_id = '{root}' AND seq = 3"
    )
    seen: dict[UUID, int] = {}
    found: list[int] = []
    more = True
    while more:
        page = await read(store, root, seen)
        found += [sequence for _, sequence in numbers(page)]
        seen |= dict(numbers(page))
        more = page.more
    assert found == [1, 2, 3, 4]


async def test_pages_smaller_than_what_followed_when_the_clock_was_set_back_go_on(
    store: Store,
) -> None:
    root = await family(store, events=8)
    child = await family(store, root, events=8)
    await store.sql(
        "UPDATE run_events SET created_at = created_at - interval '1 day' WHERE seq >= 3"
    )
    seen: dict[UUID, int] = {}
    found: list[tuple[UUID, int]] = []
    more = True
    while more:
        page = await read(store, root, seen, count=3)
        assert page.events
        found += numbers(page)
        seen |= dict(numbers(page))
        more = page.more
    for run in (root, child):
        assert [number for one, number in found if one == run] == list(range(1, 9))
    assert found[-1] == (root, 8)


async def test_a_run_that_is_not_there_has_no_log(store: Store) -> None:
    async with store.autocommit.connect() as tx:
        page = await read_family_after(tx, PROJECT, RunId(mint()), {}, LONG_AGO, 10)
    assert page is None
