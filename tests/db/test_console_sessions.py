"""Console sessions in the database: only their HMAC, for a time, never more than their key."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager

import pytest
from sqlalchemy import text
from starlette.types import Message

from runward.api.events.open_streams import check_key, respond_with_stream
from runward.domain.ids import KeyId
from runward.domain.registry.scopes import Principal, Scope
from runward.settings import Settings
from runward.store.access import console_sessions, key_checks, keys
from runward.store.access.console_sessions import (
    MAX_PER_KEY,
    authenticate,
    close_session,
    get_session,
    open_session,
)
from runward.store.access.key_checks import KeyChecks
from runward.store.postgres.db import Tx
from runward.wiring import open_services
from tests.db.store import PROJECT, Store


async def some_key(tx: Tx, store: Store) -> Principal:
    made = await keys.add_key(
        tx, store.vault, PROJECT, name="test", scopes=("runs:read",), secret=keys.make_secret()
    )
    return Principal(PROJECT, KeyId(made.id), made.name, frozenset({Scope.RUNS_READ}))


async def opened(tx: Tx, store: Store, who: Principal) -> tuple[bytes, ...]:
    digests = store.vault.session_digests(console_sessions.make_token())
    await open_session(tx, who, digests[0])
    return digests


async def test_a_session_is_its_key_s_as_long_as_both_last(store: Store) -> None:
    async with store.pool.begin() as tx:
        who = await some_key(tx, store)
        digests = await opened(tx, store, who)
        assert await authenticate(tx, digests) == who
        await tx.execute(text("UPDATE api_keys SET scopes = '{runs:write}'"))
        now = await authenticate(tx, digests)
        assert now is not None and now.scopes == {Scope.RUNS_WRITE}
        ends = "now() + interval '1 minute'"
        await tx.execute(text(f"UPDATE api_keys SET expires_at = {ends}"))
        session = await get_session(tx, digests)
        key = await keys.get_key(tx, PROJECT, who.key_id)
        assert session is not None and key is not None
        assert session.expires_at == key.expires_at


async def test_a_session_ends_with_its_time_its_key_s_time_or_its_key(store: Store) -> None:
    ends = (
        "UPDATE console_sessions SET expires_at = clock_timestamp()",
        "UPDATE api_keys SET expires_at = clock_timestamp()",
        "UPDATE api_keys SET revoked_at = clock_timestamp()",
        "DELETE FROM api_keys",
    )
    for end in ends:
        async with store.pool.connect() as tx:
            digests = await opened(tx, store, await some_key(tx, store))
            assert await authenticate(tx, digests) is not None
            await tx.execute(text(end))
            assert await authenticate(tx, digests) is None, end
            await tx.rollback()


async def test_a_stream_ends_with_its_session(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_checks, "KEY_CHECK_SECONDS", 0.0)

    async def said() -> AsyncGenerator[int]:
        yield 1
        async with store.pool.begin() as tx:
            await close_session(tx, digests)
        yield 2

    async with store.pool.begin() as tx:
        digests = await opened(tx, store, await some_key(tx, store))
        who = await authenticate(tx, digests)
    assert who is not None
    settings = Settings.model_validate({"secret_key": "a key for this test, and no other one"})
    async with open_services(settings, store.url) as services:
        heard = [one async for one in check_key(services.live.get_key_check(who), said())]
    assert heard == [1]


async def test_a_stream_without_events_ends_with_its_key_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would hold a place of the project until its run changes."""
    monkeypatch.setattr(key_checks, "KEY_CHECK_SECONDS", 0.0)
    comment, sent = b": still here\n\n", list[bytes]()

    async def idle() -> AsyncGenerator[bytes]:
        yield comment
        async with store.pool.begin() as tx:
            await tx.execute(text("UPDATE api_keys SET revoked_at = clock_timestamp()"))
        yield comment

    async def receive() -> Message:
        return await asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))

    async with store.pool.begin() as tx:
        who = await some_key(tx, store)
    settings = Settings.model_validate({"secret_key": "a key for this test, and no other one"})
    async with open_services(settings, store.url) as services:
        await respond_with_stream(services.live, who, idle())({}, receive, send)
        assert services.live.open_streams.total() == 0
    assert sent.count(comment) == 1


async def test_an_outage_of_the_database_ends_no_stream(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_checks, "KEY_CHECK_SECONDS", 0.0)

    def connect() -> AbstractAsyncContextManager[Tx]:
        raise ConnectionRefusedError

    async with store.pool.begin() as tx:
        who = await some_key(tx, store)
    assert await KeyChecks(connect).of(who).is_valid()


async def test_all_streams_of_a_key_share_one_query(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_checks, "KEY_CHECK_SECONDS", 0.0)
    queries = 0

    def connect() -> AbstractAsyncContextManager[Tx]:
        nonlocal queries
        queries += 1
        return store.pool.connect()

    async with store.pool.begin() as tx:
        who = await some_key(tx, store)
    checks = KeyChecks(connect)
    streams = [checks.of(who) for _ in range(100)]
    assert all(await asyncio.gather(*(stream.is_valid() for stream in streams)))
    assert queries == 1
    async with store.pool.begin() as tx:
        await tx.execute(text("DELETE FROM api_keys"))
    assert not any(await asyncio.gather(*(stream.is_valid() for stream in streams)))
    assert queries == 2


async def test_opening_one_takes_away_what_is_over_and_the_oldest_of_too_many(store: Store) -> None:
    async with store.pool.begin() as tx:
        who = await some_key(tx, store)
        [over] = await opened(tx, store, who)
        await tx.execute(text("UPDATE console_sessions SET expires_at = clock_timestamp()"))
        made = [(await opened(tx, store, who))[0] for _ in range(MAX_PER_KEY + 1)]
        kept = {row.token_hmac for row in await tx.execute(text("SELECT * FROM console_sessions"))}
    assert over not in kept
    assert kept == set(made[1:])
