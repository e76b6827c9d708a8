"""Sessions in the database: one run at a time, in order, whoever comes and goes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.json import JsonObject
from runward.domain.run.items import Item, Message
from runward.domain.run.sessions import MAX_STATE_BYTES, ConflictMode
from runward.store.postgres.db import Tx, mint
from runward.store.runs import session_items, sessions
from runward.store.runs.sessions import SessionSlot, StoredSession
from tests.db import test_plans
from tests.db.store import PROJECT, Store
from tests.db.test_plans import FOREIGN_KEYS, Sent, explained, nodes

OTHER: Final = ProjectId(uuid4())
RUN: Final = """
INSERT INTO runs (project_id, id, status, config, session_id, session_seq, available_at)
VALUES (:p, :id, 'queued', '{}', :session, :seq,
  CASE WHEN :waits THEN timestamptz 'infinity' ELSE clock_timestamp() END)"""
BEGIN: Final = """
UPDATE runs SET status = 'in_progress', fence = fence + 1,
  lease_expires_at = now() + interval '1 h', started_at = coalesce(started_at, clock_timestamp())
WHERE id = :id AND status = 'queued' AND available_at <= clock_timestamp() RETURNING id"""
END: Final = """
UPDATE runs SET status = 'completed', lease_expires_at = NULL, ended_at = clock_timestamp()
WHERE id = :id AND ended_at IS NULL"""
IN_TURN: Final = (
    "SELECT id FROM runs WHERE status = 'queued' AND available_at <= clock_timestamp() ORDER BY id"
)
SAID: Final[list[JsonObject]] = [{"role": "user", "content": "hello"}]


class Talk:
    """A session, and the runs on it as the service makes and ends them."""

    def __init__(self, store: Store, session: StoredSession) -> None:
        self.store = store
        self.id = session.id
        self.seqs: dict[RunId, int] = {}

    async def place(self, on_conflict: ConflictMode | None = None) -> SessionSlot:
        """Taken, and given up again."""
        async with self.store.pool.connect() as tx:
            return await sessions.take_slot(tx, PROJECT, self.id, on_conflict)

    async def start(self, on_conflict: ConflictMode | None = None) -> RunId:
        async with self.store.pool.begin() as tx:
            return await self.start_in(tx, on_conflict)

    async def start_in(self, tx: Tx, on_conflict: ConflictMode | None = None) -> RunId:
        place = await sessions.take_slot(tx, PROJECT, self.id, on_conflict)
        assert place.previous == ()
        run_id = RunId(mint())
        values = {"p": PROJECT, "id": run_id, "session": self.id, "seq": place.seq}
        await tx.execute(text(RUN), values | {"waits": place.waits})
        self.seqs[run_id] = place.seq
        return run_id

    async def begin(self, run_id: RunId) -> bool:
        """As a worker's claim does; False: it is not its turn."""
        return len(await self.store.sql(BEGIN, id=run_id)) == 1

    async def end(self, run_id: RunId, items: list[JsonObject] = SAID) -> None:
        async with self.store.pool.begin() as tx:
            await self.end_in(tx, run_id, items)

    async def end_in(self, tx: Tx, run_id: RunId, items: list[JsonObject] = SAID) -> None:
        await tx.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": run_id})
        await tx.execute(text(END), {"id": run_id})
        await sessions.close_run(tx, PROJECT, self.id, self.seqs[run_id], run_id, items)

    async def in_turn(self) -> list[RunId]:
        """The runs that a worker may take now."""
        return [RunId(row.id) for row in await self.store.sql(IN_TURN)]

    async def history(self, before: int = 10**9) -> list[list[str]]:
        async with self.store.pool.connect() as tx:
            found = await session_items.load_history(tx, PROJECT, self.id, before)
        return [[said(item) for item in items] for items in found]

    async def kept(self, **asked: Any) -> list[tuple[int, int, str]]:
        page: dict[str, Any] = {"after": None, "limit": 100, "descending": False, **asked}
        async with self.store.pool.connect() as tx:
            found = await session_items.list_items(tx, PROJECT, self.id, **page)
        return [(one.seq, one.number, str(one.item["content"])) for one in found]

    async def get(self) -> StoredSession:
        async with self.store.pool.connect() as tx:
            found = await sessions.get(tx, PROJECT, self.id)
        assert found is not None
        return found

    async def change(self, **values: Any) -> StoredSession:
        async with self.store.pool.begin() as tx:
            delta = values.pop("delta", {})
            return await sessions.update_session(tx, PROJECT, self.id, delta=delta, **values)

    async def fork(self, run_id: RunId | None = None, name: str | None = None) -> "Talk":
        async with self.store.pool.begin() as tx:
            made = await sessions.fork(tx, PROJECT, self.id, run_id=run_id, name=name)
        return Talk(self.store, made)


def said(item: Item) -> str:
    assert isinstance(item, Message)
    return str(item.content)


def say(*texts: str) -> list[JsonObject]:
    return [{"role": "user", "content": words} for words in texts]


async def talk_of(store: Store, project: ProjectId = PROJECT, **fields: Any) -> Talk:
    asked: dict[str, Any] = {
        "name": None,
        "metadata": {},
        "state": {},
        "on_conflict": ConflictMode.QUEUE,
        **fields,
    }
    async with store.pool.begin() as tx:
        return Talk(store, await sessions.create(tx, project, **asked))


@pytest.fixture
async def talk(store: Store) -> AsyncIterator[Talk]:
    yield await talk_of(store)


# Taking turns.


async def test_the_first_run_begins_at_once_and_the_next_ones_wait_in_order(talk: Talk) -> None:
    first, second, third = [await talk.start() for _ in range(3)]
    assert list(talk.seqs.values()) == [1, 2, 3]
    for run_id in (first, second, third):
        assert await talk.in_turn() == [run_id]
        assert await talk.begin(run_id)
        assert await talk.in_turn() == []
        await talk.end(run_id)
    assert await talk.in_turn() == []
    fourth = await talk.start()
    assert await talk.in_turn() == [fourth]


async def test_a_place_that_was_rolled_back_was_not_taken(talk: Talk) -> None:
    assert await talk.place() == await talk.place() == SessionSlot(1, waits=False)


async def test_a_waiting_run_that_is_cancelled_lets_nobody_past(talk: Talk) -> None:
    first, second, third = [await talk.start() for _ in range(3)]
    await talk.begin(first)
    await talk.end(second)
    assert await talk.in_turn() == []
    await talk.end(first)
    assert await talk.in_turn() == [third]


async def test_a_run_that_waits_for_someone_keeps_its_turn(talk: Talk) -> None:
    first, _ = [await talk.start() for _ in range(2)]
    await talk.begin(first)
    await talk.store.sql(
        "UPDATE runs SET status = 'requires_action', lease_expires_at = NULL WHERE id = :id",
        id=first,
    )
    assert await talk.in_turn() == []
    assert (await talk.place()).waits


async def test_a_run_that_waits_for_its_children_is_not_woken_by_its_session(talk: Talk) -> None:
    first, second = [await talk.start() for _ in range(2)]
    await talk.begin(first)
    await talk.store.sql(
        "UPDATE runs SET status = 'queued', lease_expires_at = NULL, available_at = 'infinity'"
        " WHERE id = :id",
        id=first,
    )
    await talk.end(second)
    async with talk.store.pool.begin() as tx:
        assert await sessions.wake_stranded(tx) == 0
    assert await talk.in_turn() == []


async def test_child_runs_have_no_place(talk: Talk) -> None:
    await talk.store.sql(
        "INSERT INTO runs (project_id, id, status, config, session_id) VALUES"
        " (:p, gen_random_uuid(), 'queued', '{}', :s)",
        p=PROJECT,
        s=talk.id,
    )
    assert await talk.place() == SessionSlot(1, waits=False)


async def test_ending_a_run_twice_is_harmless(talk: Talk) -> None:
    first, second, third = [await talk.start() for _ in range(3)]
    await talk.begin(first)
    await talk.end(first, say("first"))
    await talk.begin(second)
    await talk.end(first, say("again"))
    assert await talk.in_turn() == []
    assert not await talk.begin(third)
    assert await talk.history() == [["first"]]


async def test_a_run_may_be_closed_before_or_after_its_row_says_that_it_ended(talk: Talk) -> None:
    first, second = [await talk.start() for _ in range(2)]
    await talk.begin(first)
    async with talk.store.pool.begin() as tx:
        await sessions.close_run(tx, PROJECT, talk.id, talk.seqs[first], first, SAID)
        await tx.execute(text(END), {"id": first})
    assert await talk.in_turn() == [second]


async def test_the_end_of_a_run_whose_session_is_gone_changes_nothing(talk: Talk) -> None:
    first = await talk.start()
    await talk.store.sql("DELETE FROM sessions WHERE id = :id", id=talk.id)
    await talk.end(first)
    assert await talk.store.value("SELECT count(*) FROM session_items") == 0


async def test_two_sessions_do_not_wait_for_each_other(talk: Talk) -> None:
    other = await talk_of(talk.store)
    first, _ = [await talk.start() for _ in range(2)]
    theirs, _ = [await other.start() for _ in range(2)]
    assert await talk.in_turn() == [first, theirs]
    await talk.begin(first)
    await talk.end(first)
    assert len(await talk.in_turn()) == 2
    assert theirs in await talk.in_turn()


async def test_a_run_that_comes_while_the_last_one_ends_is_not_left_behind(talk: Talk) -> None:
    """Each looks after it has the session's lock, so one of the two sees the other."""
    first = await talk.start()
    await talk.begin(first)
    async with talk.store.pool.begin() as ending:
        await talk.end_in(ending, first)
        coming = asyncio.create_task(talk.start())
        await talk.store.until_blocked()
    second = await coming
    assert await talk.in_turn() == [second]
    await talk.begin(second)
    async with talk.store.pool.begin() as starting:
        third = await talk.start_in(starting)
        ended = asyncio.create_task(talk.end(second))
        await talk.store.until_blocked()
    await ended
    assert await talk.in_turn() == [third]


async def test_two_ends_at_once_do_not_wait_for_each_other_s_runs(talk: Talk) -> None:
    """The one that ends second holds its run and waits for the session; were the first one to
    wait for that run, neither could go on."""
    first, second, third = [await talk.start() for _ in range(3)]
    await talk.begin(first)
    async with talk.store.pool.begin() as one:
        await one.execute(text("SELECT 1 FROM sessions FOR UPDATE"))
        other = asyncio.create_task(talk.end(second))
        await talk.store.until_blocked()
        await talk.end_in(one, first)
    await other
    assert await talk.in_turn() == [third]


async def test_a_run_whose_row_was_held_when_its_turn_came_is_found_later(talk: Talk) -> None:
    first, second, _ = [await talk.start() for _ in range(3)]
    await talk.begin(first)
    async with talk.store.pool.begin() as holding:
        await holding.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": second})
        await talk.end(first)
        assert await talk.in_turn() == []
    async with talk.store.pool.begin() as tx:
        assert await sessions.wake_stranded(tx) == 1
        assert await sessions.wake_stranded(tx) == 0
    assert await talk.in_turn() == [second]


async def test_many_stranded_runs_are_found_in_batches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BATCH", 2)
    talks = [await talk_of(store) for _ in range(3)]
    for talk in talks:
        first = await talk.start()
        await talk.start()
        await store.sql("UPDATE runs SET available_at = 'infinity' WHERE id = :id", id=first)
    found: list[int] = []
    for _ in range(3):
        async with store.pool.begin() as tx:
            found.append(await sessions.wake_stranded(tx))
    assert found == [2, 1, 0]
    assert len(await talks[0].in_turn()) == 3


class Workers:
    """Who take whatever is in turn, until so many runs have ended."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.done: list[tuple[SessionId, int]] = []
        self.at_work: set[SessionId] = set()

    async def work(self, talks: list[Talk]) -> None:
        while len(self.done) < self.runs:
            for talk in talks:
                for run_id in await talk.in_turn():
                    await self.take(talk, run_id)

    async def take(self, talk: Talk, run_id: RunId) -> None:
        if run_id not in talk.seqs or not await talk.begin(run_id):
            return
        assert talk.id not in self.at_work
        self.at_work.add(talk.id)
        await asyncio.sleep(0)
        self.done.append((talk.id, talk.seqs[run_id]))
        self.at_work.remove(talk.id)
        await talk.end(run_id)


async def test_many_come_and_go_at_once_and_never_two_are_at_work(store: Store) -> None:
    talks = [await talk_of(store) for _ in range(3)]
    workers = Workers(30)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for talk in talks:
            for _ in range(10):
                group.create_task(talk.start())
        for _ in range(4):
            group.create_task(workers.work(talks))
    for talk in talks:
        assert [seq for of, seq in workers.done if of == talk.id] == list(range(1, 11))


# What a run does that finds others before it.


async def test_reject_refuses_while_a_run_is_open(talk: Talk) -> None:
    assert not (await talk.place(ConflictMode.REJECT)).waits
    first = await talk.start()
    with pytest.raises(e.SessionBusyError):
        await talk.place(ConflictMode.REJECT)
    await talk.end(first)
    assert await talk.place(ConflictMode.REJECT) == SessionSlot(2, waits=False)


async def test_cancel_previous_names_those_before_it_newest_first(talk: Talk) -> None:
    runs = [await talk.start() for _ in range(3)]
    place = await talk.place(ConflictMode.CANCEL_PREVIOUS)
    assert place == SessionSlot(0, waits=False, previous=tuple(reversed(runs)))
    for run_id in place.previous:
        await talk.end(run_id)
        assert await talk.in_turn() in ([], [runs[0]]), "none of them begins while they are ended"
    assert await talk.place(ConflictMode.CANCEL_PREVIOUS) == SessionSlot(4, waits=False)


async def test_a_session_s_own_rule_holds_where_a_run_says_nothing(store: Store) -> None:
    talk = await talk_of(store, on_conflict=ConflictMode.REJECT)
    await talk.start()
    with pytest.raises(e.SessionBusyError):
        await talk.place()
    assert (await talk.place(ConflictMode.QUEUE)).waits


async def test_a_session_has_so_many_open_runs(talk: Talk) -> None:
    await talk.store.sql(
        "INSERT INTO runs (project_id, id, status, config, session_id, session_seq, available_at)"
        " SELECT :p, gen_random_uuid(), 'queued', '{}', :s, n, 'infinity'"
        " FROM generate_series(1, CAST(:n AS int)) n",
        p=PROJECT,
        s=talk.id,
        n=sessions.MAX_OPEN_RUNS,
    )
    with pytest.raises(e.TooManyRequestsError):
        await talk.place()


async def test_an_unknown_session_and_another_project_s_are_not_found(talk: Talk) -> None:
    async with talk.store.pool.connect() as tx:
        for project, session_id in ((PROJECT, SessionId(uuid4())), (OTHER, talk.id)):
            with pytest.raises(not_found.SessionNotFoundError):
                await sessions.take_slot(tx, project, session_id, None)
            with pytest.raises(not_found.SessionNotFoundError):
                await sessions.update_session(tx, project, session_id, delta={})
            with pytest.raises(not_found.SessionNotFoundError):
                await sessions.delete(tx, project, session_id)
            with pytest.raises(not_found.SessionNotFoundError):
                await sessions.fork(tx, project, session_id, run_id=None, name=None)
            assert await sessions.get(tx, project, session_id) is None
            assert await session_items.load_history(tx, project, session_id, 10) == ()


# What is kept.


async def ended(talk: Talk, *texts: str) -> RunId:
    run_id = await talk.start()
    await talk.end(run_id, say(*texts))
    return run_id


async def test_a_run_is_given_the_items_of_those_before_it_in_order(talk: Talk) -> None:
    for n in range(1, 4):
        await ended(talk, f"{n}a", f"{n}b")
    assert await talk.history() == [["1a", "1b"], ["2a", "2b"], ["3a", "3b"]]
    assert await talk.history(before=3) == [["1a", "1b"], ["2a", "2b"]]
    assert await talk.history(before=1) == []


async def test_the_newest_runs_are_given_as_far_as_the_limits_go(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        await ended(talk, f"{n}" * 1000)
    monkeypatch.setattr(session_items, "MAX_RUNS", 4)
    assert [one[0][0] for one in await talk.history()] == ["2", "3", "4", "5"]
    monkeypatch.setattr(session_items, "MAX_BYTES", 2500)
    assert [one[0][0] for one in await talk.history()] == ["4", "5"]
    monkeypatch.setattr(session_items, "MAX_BYTES", 10)
    assert [one[0][0] for one in await talk.history()] == ["5"]


async def test_kept_items_are_walked_across_runs_both_ways(talk: Talk) -> None:
    await ended(talk, "1a", "1b")
    await ended(talk)
    await ended(talk, "3a", "3b", "3c")
    whole = [(1, 1, "1a"), (1, 2, "1b"), (3, 1, "3a"), (3, 2, "3b"), (3, 3, "3c")]
    assert await talk.kept() == whole
    assert await talk.kept(descending=True) == whole[::-1]
    for at, (seq, number, _) in enumerate(whole):
        assert await talk.kept(after=(seq, number), limit=2) == whole[at + 1 : at + 3]
        before = whole[:at][::-1]
        assert await talk.kept(after=(seq, number), descending=True) == before


# Sessions themselves.


async def test_a_delta_is_merged_and_null_removes(store: Store) -> None:
    talk = await talk_of(store, state={"a": 1, "b": {"c": 2}})
    changed = await talk.change(delta={"a": None, "b": {"d": 3}, "e": [None]})
    assert changed.state == {"b": {"d": 3}, "e": [None]}
    async with store.pool.connect() as tx:
        kept = await sessions.get(tx, PROJECT, talk.id)
    assert kept is not None
    assert kept.state == changed.state


async def test_no_delta_is_lost_among_many_at_once(talk: Talk) -> None:
    await asyncio.gather(*(talk.change(delta={f"k{n}": n}) for n in range(20)))
    assert (await talk.get()).state == {f"k{n}": n for n in range(20)}


async def test_a_state_has_a_size(talk: Talk) -> None:
    half = "x" * (MAX_STATE_BYTES // 2)
    await talk.change(delta={"a": half})
    with pytest.raises(e.InvalidRequestError) as refused:
        await talk.change(delta={"b": half})
    assert refused.value.errors[0].path == "state"
    with pytest.raises(e.InvalidRequestError):
        await talk_of(talk.store, state={"a": half * 2})
    assert (await talk.get()).state == {"a": half}


async def test_name_metadata_and_rule_are_changed_where_they_are_given(talk: Talk) -> None:
    before = await talk.get()
    changed = await talk.change(name="n", metadata={"m": 1}, on_conflict=ConflictMode.REJECT)
    assert (changed.name, changed.metadata, changed.on_conflict) == ("n", {"m": 1}, "reject")
    assert changed.updated_at > before.updated_at
    again = await talk.change(name=None)
    assert (again.name, again.metadata, again.on_conflict) == (None, {"m": 1}, "reject")


async def test_sessions_are_listed_in_order(store: Store) -> None:
    made = [(await talk_of(store)).id for _ in range(4)]

    async def listed(after: UUID | None, *, descending: bool) -> list[SessionId]:
        async with store.pool.connect() as tx:
            found = await sessions.search(tx, PROJECT, after=after, limit=3, descending=descending)
            assert await sessions.search(tx, OTHER, after=None, limit=3, descending=True) == []
        return [one.id for one in found]

    assert await listed(None, descending=False) == made[:3]
    assert await listed(made[2], descending=False) == made[3:]
    assert await listed(None, descending=True) == made[:0:-1]
    assert await listed(made[1], descending=True) == made[:1]


async def test_a_busy_session_is_not_deleted_an_idle_one_is_with_its_items(talk: Talk) -> None:
    run_id = await ended(talk, "hello")
    second = await talk.start()
    async with talk.store.pool.begin() as tx:
        with pytest.raises(e.SessionBusyError):
            await sessions.delete(tx, PROJECT, talk.id)
    await talk.end(second)
    async with talk.store.pool.begin() as tx:
        await sessions.delete(tx, PROJECT, talk.id)
    assert await talk.store.value("SELECT count(*) FROM session_items") == 0
    assert (await talk.store.head(run_id)).session_id == talk.id


async def test_a_fork_goes_on_from_a_run_or_from_the_end(store: Store) -> None:
    talk = await talk_of(store, name="mine", state={"a": 1}, on_conflict=ConflictMode.REJECT)
    first, second = [await ended(talk, words) for words in ("one", "two")]
    await talk.start()
    whole, part = await talk.fork(), await talk.fork(first, "theirs")
    assert await whole.history() == [["one"], ["two"]]
    assert await part.history() == [["one"]]
    made = await part.get()
    assert (made.name, made.state, made.on_conflict) == ("theirs", {"a": 1}, "reject")
    assert (made.forked_from, (await whole.get()).name) == (talk.id, "mine")
    assert await whole.place() == SessionSlot(4, waits=False)
    await ended(part, "three")
    await part.change(delta={"a": 2})
    assert await part.history() == [["one"], ["three"]]
    assert await talk.history() == [["one"], ["two"]]
    assert (await talk.get()).state == {"a": 1}
    again = await part.fork(first)
    assert await again.history() == [["one"]], "a fork of a fork"
    assert second in talk.seqs


async def test_a_fork_begins_behind_an_ended_run_of_the_session(talk: Talk) -> None:
    open_run = await talk.start()
    with pytest.raises(e.SessionBusyError):
        await talk.fork(open_run)
    foreign = await ended(await talk_of(talk.store), "x")
    for unknown in (foreign, RunId(uuid4())):
        with pytest.raises(not_found.RunNotFoundError):
            await talk.fork(unknown)


# Plans.


SEED: Final = """
INSERT INTO sessions (project_id, id, last_seq)
SELECT :p, gen_random_uuid(), 1000 FROM generate_series(1, 40);
INSERT INTO runs (project_id, id, status, config, session_id, session_seq, started_at, ended_at)
SELECT :p, gen_random_uuid(), 'completed', '{}', s.id, n, now(), now()
FROM sessions s, generate_series(1, 1000) n;
INSERT INTO session_items (project_id, session_id, seq, run_id, items)
SELECT project_id, session_id, session_seq, id, '[{"role": "user", "content": "x"}]'
FROM runs WHERE session_id IS NOT NULL;
INSERT INTO runs (project_id, id, status, config, started_at, ended_at)
SELECT :p, gen_random_uuid(), 'completed', '{}', now(), now() FROM generate_series(1, 40000) n"""


def read(plan: dict[str, Any]) -> float:
    """How many rows of runs were looked at."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes(plan)
        if node.get("Relation Name") == "runs"
    )


async def seed(store: Store) -> Talk:
    """Sessions with a thousand ended runs each; one of them."""
    async with store.autocommit.connect() as tx:
        await tx.execute(text(FOREIGN_KEYS), {"role": "replica"})
        for statement in SEED.replace(":p", f"'{PROJECT}'").split(";"):
            await tx.execute(text(statement))
        await tx.execute(text(FOREIGN_KEYS), {"role": "origin"})
        await tx.execute(text("ANALYZE"))
        [one] = await sessions.search(tx, PROJECT, after=None, limit=1, descending=True)
    return Talk(store, one)


async def test_no_statement_walks_over_all_that_ever_was(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await seed(store)
    first, second = [await talk.start() for _ in range(2)]
    assert await talk.begin(first)
    sent = Sent(by="end")
    with sent.of(store.pool):
        await talk.end(first)
        sent.by = "reads"
        assert len(await talk.history()) == session_items.MAX_RUNS
        assert len(await talk.kept(limit=10)) == 10
        assert len(await talk.kept(after=(500, 0), limit=10, descending=True)) == 10
        sent.by = "place"
        assert (await talk.place()).waits
        sent.by = "fork"
        await talk.fork(first)
        sent.by = "sweep"
        async with store.pool.begin() as tx:
            assert await sessions.wake_stranded(tx) == 0
    assert second in await talk.in_turn()

    monkeypatch.setattr(test_plans, "LARGE", {"runs", "session_items"})
    wrong: dict[str, Any] = {}
    async with store.autocommit.connect() as tx:
        connection: Any = (await tx.get_raw_connection()).driver_connection
        for statement, (by, values) in sent.statements.items():
            if found := await explained(connection, statement, values):
                wrong[f"{by}: {statement}"] = found
            if "FROM runs" not in statement:
                continue
            await connection.execute("BEGIN")
            explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
            [[[done]]] = await connection.fetch(explain, *values)
            await connection.execute("ROLLBACK")
            if (rows := read(done["Plan"])) > 20:
                wrong[f"{by}, as it ran: {statement}"] = rows
    assert len(sent.statements) > 8
    assert wrong == {}
