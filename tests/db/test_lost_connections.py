"""A connection that is lost in a commit leaves its outcome unknown. A step is written once all
the same, whether PostgreSQL had done it, was doing it, or gets it when nobody expects it any more.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from asyncpg import exceptions as pg  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy import exc, text
from sqlalchemy.engine import make_url

from runward.domain.run.config import AgentConfig
from runward.domain.run.status import Move
from runward.store.postgres import db
from runward.store.runs.gate import Committed, Ending
from runward.store.runs.related_changes import RelatedChanges
from tests.db.proxy import Break, Proxy
from tests.db.store import Store, new_run, step

OPENED = ["run.created", "run.started"]
TERMINATIONS = 5


@pytest.fixture
def proxy(database_url: str) -> Proxy:
    return Proxy(database_url)


@pytest.fixture
def short_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of connections that are opened from now on."""
    monkeypatch.setattr(db, "STATEMENT_TIMEOUT", timedelta(seconds=0.5))


@pytest.fixture
async def far(proxy: Proxy, store: Store) -> AsyncIterator[Store]:
    """The same database behind the network that fails; `store` looks at it directly."""
    async with proxy.open() as url:
        far = Store(url)
        yield far
        await far.close()


@asynccontextmanager
async def stopped_at_events(store: Store) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Whoever writes events stops there, in the middle of the statement, until `go_on`."""
    await store.sql(
        "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END$$"
    )
    await store.sql(
        "CREATE TRIGGER stop BEFORE INSERT ON run_events FOR EACH ROW EXECUTE FUNCTION stop()"
    )
    async with store.autocommit.connect() as gate:
        await gate.execute(text("SELECT pg_advisory_lock(1)"))

        async def go_on() -> None:
            await gate.execute(text("SELECT pg_advisory_unlock(1)"))

        yield go_on


@pytest.mark.parametrize("how", [Break.BEFORE, Break.ANSWER_LOST])
async def test_a_step_is_committed_once_wherever_its_connection_broke(
    store: Store, far: Store, proxy: Proxy, how: Break
) -> None:
    states = [await store.leased() for _ in range(3)]
    await far.write(*[step(state, "before") for state in states])
    proxy.break_at("fragile", how)
    written = await far.write(*[step(state, "fragile") for state in states])
    assert proxy.broken == 1
    assert [one for one in written if not isinstance(one, Committed)] == []
    for state in states:
        assert await store.log(state.id) == [*OPENED, "before", "fragile"]


async def test_a_run_s_end_is_committed_once_though_its_answer_is_lost(
    store: Store, far: Store, proxy: Proxy
) -> None:
    state = await store.leased()
    proxy.break_at("run.completed", Break.ANSWER_LOST)
    ending = Ending(Move.COMPLETE, output="done")
    await far.committed(step(state, "run.completed", seen=0, ending=ending))
    assert proxy.broken == 1
    assert await store.log(state.id) == [*OPENED, "run.completed"]


@pytest.mark.usefixtures("short_statements")
@pytest.mark.parametrize("related", [None, RelatedChanges()])
async def test_a_step_is_committed_once_though_its_connection_swallows_it(
    store: Store, far: Store, proxy: Proxy, related: RelatedChanges | None
) -> None:
    """On the committer's own connection, and in a transaction of the pool."""
    state = await store.leased()
    proxy.break_at("fragile" if related is None else "COMMIT", Break.SWALLOWED)
    await far.committed(replace(step(state, "fragile"), related=related))
    assert proxy.broken == 1
    assert await store.log(state.id) == [*OPENED, "fragile"]


async def test_a_step_that_the_server_is_still_writing_is_not_written_again(
    store: Store, far: Store, proxy: Proxy
) -> None:
    """Its row is locked, and does not bear the step's id yet, when the worker asks again."""
    state = await store.leased()
    proxy.break_at("fragile", Break.WHILE_RUNNING)
    async with stopped_at_events(store) as go_on:
        writing = asyncio.create_task(far.write(step(state, "fragile")))
        await store.until_blocked(2)
        await go_on()
    [written] = await writing
    assert isinstance(written, Committed)
    assert written.last_seq == 0
    assert await store.log(state.id) == [*OPENED, "fragile"]


async def test_a_step_that_arrives_after_the_worker_has_gone_on_is_not_written_again(
    store: Store, far: Store, proxy: Proxy
) -> None:
    state = await store.leased()
    await far.committed(step(state, "before"))
    proxy.break_at("fragile", Break.DELIVERED_LATE)
    await far.committed(step(state, "fragile"))
    await far.committed(step(state, "after"))
    await proxy.deliver()
    assert await store.log(state.id) == [*OPENED, "before", "fragile", "after"]


@pytest.mark.parametrize("how", [Break.BEFORE, Break.ANSWER_LOST])
async def test_a_step_that_goes_alone_is_committed_once_too(
    store: Store, far: Store, proxy: Proxy, how: Break
) -> None:
    state = await store.leased()
    async with store.locked(state.id):
        [alone] = await far.writer.write([step(state, "fragile")])
        assert isinstance(alone, asyncio.Task)
        await store.until_blocked()
        proxy.break_at("COMMIT", how)
    assert isinstance(await alone, Committed)
    assert proxy.broken == 1
    assert await store.log(state.id) == [*OPENED, "fragile"]


async def test_a_backend_that_is_terminated_is_replaced(store: Store, far: Store) -> None:
    state = await store.leased()
    for number in range(3):
        await far.committed(step(state, f"step {number}"))
        [pid] = far.own_backends
        await store.terminate(pid)
    assert await store.log(state.id) == [*OPENED, "step 0", "step 1", "step 2"]


async def test_a_step_whose_backend_is_terminated_in_the_statement_is_written_once(
    store: Store, far: Store
) -> None:
    state = await store.leased()
    async with stopped_at_events(store) as go_on:
        writing = asyncio.create_task(far.committed(step(state, "fragile")))
        await store.until_blocked()
        [pid] = far.own_backends
        await store.terminate(pid)
        await go_on()
    await writing
    assert pid not in far.own_backends
    assert await store.log(state.id) == [*OPENED, "fragile"]


async def test_steps_are_written_once_and_in_order_while_backends_are_terminated(
    store: Store, far: Store
) -> None:
    """At any moment: before, in and after a statement."""
    state = await store.leased()
    names = [f"step {number}" for number in range(40)]
    terminated: set[int] = set()

    async def write() -> None:
        for name in names:
            await far.committed(step(state, name))

    writing = asyncio.create_task(write())
    while not writing.done():
        await asyncio.sleep(0)
        for pid in far.own_backends - terminated:
            if len(terminated) < TERMINATIONS:
                await store.terminate(pid)
                terminated.add(pid)
    await writing
    assert len(terminated) == TERMINATIONS
    assert await store.log(state.id) == [*OPENED, *names]


async def test_an_accept_whose_backend_is_terminated_is_an_outage_and_stores_nothing(
    store: Store, far: Store
) -> None:
    new = new_run(AgentConfig(model="offline:rules"))
    async with stopped_at_events(store) as go_on:
        writing = asyncio.create_task(far.acceptor.write([new]))
        await store.until_blocked()
        await store.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
        )
        [error] = await writing
        await go_on()
    assert isinstance(error, db.DATABASE_ERRORS)
    assert db.is_outage(error)
    assert await store.value("SELECT count(*) FROM runs WHERE id = :id", id=new.id) == 0
    assert await far.accept()


async def test_connections_that_were_lost_while_idle_are_replaced(store: Store, far: Store) -> None:
    """The first one is then kept to accept runs, the second one is in the pool."""
    drivers: list[Any] = []
    for _ in range(2):
        async with far.pool.connect() as tx:
            drivers.append((await tx.get_raw_connection()).driver_connection)
        await far.accept()
    assert drivers[0] is not drivers[1]
    for driver in drivers:
        await store.terminate(driver.get_server_pid())
    async with asyncio.timeout(10):
        while not all(driver.is_closed() for driver in drivers):
            await asyncio.sleep(0)
    assert await far.accept()
    async with far.pool.connect() as tx:
        assert (await tx.execute(text("SELECT 1"))).scalar_one() == 1


async def test_a_server_that_is_starting_up_is_waited_for(
    store: Store, far: Store, proxy: Proxy
) -> None:
    state = await store.leased()
    proxy.refuse(2)
    await far.committed(step(state, "patient"))
    assert await store.log(state.id) == [*OPENED, "patient"]


async def test_an_accept_whose_answer_is_lost_is_an_outage_and_not_sent_again(
    store: Store, far: Store, proxy: Proxy
) -> None:
    new = new_run(AgentConfig(model="offline:rules"), metadata={"name": "fragile"})
    proxy.break_at("fragile", Break.ANSWER_LOST)
    [error] = await far.acceptor.write([new])
    assert isinstance(error, exc.DBAPIError)
    assert db.is_outage(error)
    assert await store.log(new.id) == ["run.created"]
    assert await far.accept()


async def test_a_process_that_freezes_in_a_transaction_does_not_keep_its_locks(
    store: Store,
) -> None:
    """PostgreSQL ends the session."""
    async with store.pool.connect() as tx:
        found = await tx.execute(text("SHOW idle_in_transaction_session_timeout"))
        assert found.scalar_one() == "30s"


async def test_a_primary_that_is_missing_during_a_failover_is_an_outage(store: Store) -> None:
    """The other way around, since this server is a primary."""
    url = make_url(store.url).update_query_dict({"target_session_attrs": "standby"})
    far = db.open_database(url.render_as_string(hide_password=False), pool_size=1)
    with pytest.raises(exc.DBAPIError, match="target attribute") as failed:
        async with far.pool.connect():
            pass
    await far.close()
    assert db.is_outage(failed.value)


async def test_a_value_that_the_driver_cannot_send_is_no_outage(store: Store) -> None:
    with pytest.raises(exc.DBAPIError, match="int32") as failed:
        await store.sql("SELECT CAST(:number AS int)", number=2**40)
    assert not db.is_outage(failed.value)


AWAY = [
    exc.TimeoutError("no connection of the pool came free"),
    ConnectionRefusedError(),
    TimeoutError(),
    pg.CannotConnectNowError("starting up"),
    exc.DBAPIError("SELECT 1", {}, pg.AdminShutdownError("going down")),
    exc.DBAPIError("SELECT 1", {}, pg.LockNotAvailableError("lock timeout")),
    exc.DBAPIError("SELECT 1", {}, pg.ReadOnlySQLTransactionError("the old primary")),
    exc.InterfaceError("SELECT 1", {}, pg.InterfaceError("connection is closed")),
    exc.DBAPIError("SELECT 1", {}, Exception("cut"), connection_invalidated=True),
    ExceptionGroup("two", [OSError(), TimeoutError()]),
]
NOT_AWAY = [
    ValueError(),
    exc.DBAPIError("SELECT 1", {}, pg.UniqueViolationError("twice")),
    exc.DBAPIError("SELECT 1", {}, pg.UntranslatableCharacterError("NUL")),
    exc.DBAPIError("SELECT 1", {}, pg.UndefinedColumnError("a defect")),
    ExceptionGroup("two", [OSError(), ValueError()]),
]


@pytest.mark.parametrize("error", AWAY, ids=repr)
def test_it_is_an_outage_where_a_retry_helps(error: Exception) -> None:
    assert db.is_outage(error)


@pytest.mark.parametrize("error", NOT_AWAY, ids=repr)
def test_it_is_no_outage_where_the_statement_is_wrong(error: Exception) -> None:
    assert not db.is_outage(error)


@pytest.mark.parametrize("spins", [0, 1, 2])
async def test_a_process_that_was_frozen_in_a_transaction_sees_an_outage(
    database_url: str, spins: int
) -> None:
    """PostgreSQL ends the transaction meanwhile. The error depends on how much of that the driver
    has read when it is used again."""
    database = db.open_database(database_url, pool_size=1)
    with pytest.raises(db.DATABASE_ERRORS) as caught:
        async with database.pool.begin() as tx:
            await tx.execute(text("SET idle_in_transaction_session_timeout = '20ms'"))
            gone = Thread(
                target=_wait_until_gone,
                args=[database_url, await tx.scalar(text("SELECT pg_backend_pid()"))],
            )
            gone.start()
            gone.join()  # the event loop stands still, as in a frozen process
            for _ in range(spins):
                await asyncio.sleep(0)
            await tx.execute(text("SELECT 1"))
    await database.close()
    assert db.is_outage(caught.value)


def test_a_connection_that_the_driver_does_not_understand_is_an_outage() -> None:
    """SQLAlchemy marks it as lost, but not while it opens the first connection of a pool."""
    driver = pg.InternalClientError(
        "cannot switch to state 11; another operation (2) is in progress"
    )
    translated = Exception()
    translated.__cause__ = driver
    assert db.is_outage(exc.InternalError("SHOW transaction isolation level", {}, translated))
    assert db.is_outage(driver)


def _wait_until_gone(database_url: str, backend: int) -> None:
    async def wait() -> None:
        database = db.open_database(database_url, pool_size=1)
        async with database.autocommit.connect() as tx:
            of_backend = text("SELECT 1 FROM pg_stat_activity WHERE pid = :backend")
            while (await tx.execute(of_backend, {"backend": backend})).first():
                pass
        await database.close()

    asyncio.run(wait())
