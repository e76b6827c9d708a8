"""When a key was last used: recorded, but not for every request."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from datetime import datetime

from sqlalchemy import text

from runward.store.access import keys
from runward.store.access.vault import DataKey, Vault
from runward.store.postgres.db import Tx
from tests.db.proxy import Proxy
from tests.db.store import Store
from tests.db.test_toolbox import statements

SECRET = "a key of more than 32 characters, for sure"


async def used_at(tx: Tx) -> datetime | None:
    return (await tx.execute(text("SELECT last_used_at FROM api_keys"))).scalar_one()


async def test_the_use_of_a_key_is_recorded_once_a_minute(store: Store) -> None:
    digests = store.vault.key_digests(SECRET)
    async with store.pool.begin() as tx:
        await keys.ensure_bootstrap_key(tx, store.vault, name="ci", secret=SECRET)
        assert await used_at(tx) is None
        asked = statements(store)
        for _ in range(3):
            assert await keys.authenticate(tx, digests) is not None
        assert [one.partition(" ")[0] for one in asked] == ["SELECT", "UPDATE", "SELECT", "SELECT"]
        first = await used_at(tx)
        await tx.execute(text("UPDATE api_keys SET last_used_at = now() - interval '61 seconds'"))
        assert await keys.authenticate(tx, digests) is not None
        again = await used_at(tx)
    assert first is not None
    assert again is not None
    assert again >= first


async def test_keys_are_administered_through_pgbouncer(store: Store) -> None:
    proxy = Proxy(store.url)
    async with proxy.open() as url:
        proxy.refuse_parameter("jit")
        listing = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "runward", "keys", "list", "--on-database", "--json"),
            stdout=PIPE,
            stderr=PIPE,
            env={
                **os.environ,
                "DATABASE_URL": url,
                "RUNWARD_PGBOUNCER": "true",
                "RUNWARD_SECRET_KEY": SECRET,
            },
        )
        shown, errors = await listing.communicate()
    assert (shown.strip(), listing.returncode) == (b"[]", 0), errors


async def test_a_key_whose_row_is_locked_is_valid_all_the_same(store: Store) -> None:
    digests = store.vault.key_digests(SECRET)
    async with store.pool.begin() as tx:
        await keys.ensure_bootstrap_key(tx, store.vault, name="ci", secret=SECRET)
    async with store.pool.begin() as one, store.pool.begin() as other:
        await one.execute(text("SELECT FROM api_keys FOR UPDATE"))
        assert await keys.authenticate(other, digests) is not None
        assert await used_at(other) is None


async def test_the_use_of_a_key_replaces_its_digest_under_a_previous_data_key(
    store: Store,
) -> None:
    old, new = DataKey.create(), DataKey.create()
    async with store.pool.begin() as tx:
        await keys.ensure_bootstrap_key(tx, Vault(old), name="ci", secret=SECRET)
        assert await keys.authenticate(tx, Vault(new).key_digests(SECRET)) is None
        both = Vault(new, old).key_digests(SECRET)
        assert await keys.authenticate(tx, both) is not None
        asked = statements(store)
        assert await keys.authenticate(tx, both) is not None
        assert [one.partition(" ")[0] for one in asked] == ["SELECT"]
        assert await keys.authenticate(tx, Vault(new).key_digests(SECRET)) is not None


async def test_a_revoked_bootstrap_key_stays_revoked_when_the_data_key_changes(
    store: Store,
) -> None:
    old, new = DataKey.create(), DataKey.create()
    async with store.pool.begin() as tx:
        await keys.ensure_bootstrap_key(tx, Vault(old), name="ci", secret=SECRET)
        await tx.execute(text("UPDATE api_keys SET revoked_at = now()"))
        for vault in (Vault(old, new), Vault(new, old), Vault(new)):
            await keys.ensure_bootstrap_key(tx, vault, name="ci", secret=SECRET)
            assert await keys.authenticate(tx, vault.key_digests(SECRET)) is None
        assert (await tx.execute(text("SELECT count(*) FROM api_keys"))).scalar_one() == 1
