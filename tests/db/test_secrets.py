"""Secrets in the database: sealed, each to its place, and heard of when they change."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy import text

from runward.store.access.secrets import delete_secret, put_secret, read_secrets
from runward.store.access.vault import SecretUnreadableError
from runward.store.live.listener import Listener
from tests.db.store import PROJECT, Store


async def test_secrets_are_read_by_name_and_what_is_not_there_is_left_out(store: Store) -> None:
    async with store.pool.begin() as tx:
        for name in ("a", "b", "c"):
            await put_secret(tx, store.vault, PROJECT, name, f"value of {name}")
        await put_secret(tx, store.vault, PROJECT, "b", "another")
        found = await read_secrets(tx, store.vault, PROJECT, ["a", "b", "nobody"])
        assert found == {"a": "value of a", "b": "another"}
        assert await read_secrets(tx, store.vault, PROJECT, []) == {}


async def test_a_row_that_is_moved_to_another_name_does_not_open(store: Store) -> None:
    async with store.pool.begin() as tx:
        await put_secret(tx, store.vault, PROJECT, "low", "of little worth")
        await put_secret(tx, store.vault, PROJECT, "high", "worth a lot")
        moved = "UPDATE secrets SET value = (SELECT value FROM secrets WHERE name = 'high')"
        await tx.execute(text(f"{moved} WHERE name = 'low'"))
        with pytest.raises(SecretUnreadableError):
            await read_secrets(tx, store.vault, PROJECT, ["low"])


async def test_no_value_is_in_the_table_as_it_is(store: Store) -> None:
    async with store.pool.begin() as tx:
        await put_secret(tx, store.vault, PROJECT, "a", "plainly visible")
        row = (await tx.execute(text("SELECT value FROM secrets"))).one()
    assert b"visible" not in row.value


async def test_every_process_hears_of_a_change(store: Store) -> None:
    heard: asyncio.Queue[UUID | None] = asyncio.Queue()
    listener = Listener(
        store.url,
        on_run=lambda _: None,
        on_tools=heard.put_nowait,
        own_backends=set(),
    )
    listening = asyncio.create_task(listener.run())
    try:
        async with asyncio.timeout(20):
            assert await heard.get() is None  # it listens
            async with store.pool.begin() as tx:
                await put_secret(tx, store.vault, PROJECT, "a", "x")
            assert await heard.get() == PROJECT
            async with store.pool.begin() as tx:
                assert await delete_secret(tx, PROJECT, "a")
            assert await heard.get() == PROJECT
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
