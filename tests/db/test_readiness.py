"""Ready means that the database answers and takes writes, is migrated, and opens with the key."""

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from alembic.script import ScriptDirectory
from pydantic import SecretStr
from sqlalchemy import make_url

from runward.api.probes import check_readiness
from runward.domain.errors import OperatorError, UnavailableError
from runward.serve import STOP_SIGNALS, run_process
from runward.services import Services
from runward.settings import Settings
from runward.store import readiness
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.secret_keys import open_providers
from runward.store.postgres.db import open_database
from runward.store.readiness import UnmigratedDatabaseError, WrongSecretKeyError
from runward.wiring import open_services
from tests.db.store import Store

KEY: Final = "the key of this deployment, and no other one"
OTHER: Final = "another key, which is as long as the first one"


def settings(key: str) -> Settings:
    return Settings.model_validate({"secret_key": key, "bootstrap_key": "b" * 32})


async def start(url: str, *secret_keys: str) -> None:
    database = open_database(url, pool_size=1)
    try:
        vault = await KeyRing(database, open_providers(secret_keys)).open()
        async with database.pool.begin() as tx:
            await readiness.prepare_database(tx, vault)
    finally:
        await database.close()


@asynccontextmanager
async def services_of(url: str, key: str) -> AsyncGenerator[Services]:
    async with open_services(settings(key), url) as services:
        yield services


async def run(command: str, key: str, url: str) -> None:
    serves = command == "api"
    former = {one: signal.getsignal(one) for one in STOP_SIGNALS}
    try:
        await run_process(settings(key), url, with_api=serves, with_worker=not serves)
    finally:  # a process that ends ignores them, and the tests go on
        for one, handler in former.items():
            signal.signal(one, handler)


async def refusal(services: Services) -> str:
    with pytest.raises(UnavailableError) as refused:
        await check_readiness(services.storage, services.live, services.queue)
    return refused.value.detail


async def test_the_first_start_settles_the_secret_key(database_url: str) -> None:
    await start(database_url, KEY)
    await start(database_url, KEY)
    with pytest.raises(WrongSecretKeyError, match="RUNWARD_SECRET_KEY is not the secret key"):
        await start(database_url, OTHER)
    await start(database_url, KEY)


async def test_a_deployment_starts_without_the_previous_key_after_a_start_with_both(
    database_url: str,
) -> None:
    await start(database_url, KEY)
    await start(database_url, KEY, OTHER)
    with pytest.raises(WrongSecretKeyError):
        await start(database_url, OTHER)
    await start(database_url, OTHER, KEY)
    await start(database_url, OTHER)
    with pytest.raises(WrongSecretKeyError):
        await start(database_url, KEY)


@pytest.mark.parametrize("url", ["garbage", "postgresql://nobody@127.0.0.1:9/x"])
async def test_a_direct_address_that_does_not_work_stops_the_start(store: Store, url: str) -> None:
    """Leases are renewed there: runs of a worker without it would be lost one by one."""
    given = settings(KEY).model_copy(update={"listen_url": SecretStr(url)})
    with pytest.raises(OperatorError, match="RUNWARD_LISTEN_URL"):
        async with open_services(given, store.url):
            pass


@pytest.mark.parametrize("command", ["api", "worker"])
async def test_a_process_with_another_key_does_not_start(store: Store, command: str) -> None:
    await start(store.url, KEY)
    with pytest.raises(WrongSecretKeyError):
        await run(command, OTHER, store.url)
    assert await store.value("SELECT count(*) FROM api_keys WHERE name = 'bootstrap'") == 0


@pytest.mark.parametrize("command", ["api", "worker"])
async def test_a_process_on_an_unmigrated_database_says_what_to_do(
    empty_database_url: str, command: str
) -> None:
    with pytest.raises(OperatorError, match=r"not migrated\. Run: runward migrate"):
        await run(command, KEY, empty_database_url)


async def test_an_older_schema_is_refused_and_a_newer_one_is_not(store: Store) -> None:
    await start(store.url, KEY)
    await store.sql("UPDATE alembic_version SET version_num = 'from_the_future'")
    await start(store.url, KEY)
    await store.sql("UPDATE alembic_version SET version_num = '0003'")
    with pytest.raises(UnmigratedDatabaseError, match="revision 0003"):
        await start(store.url, KEY)


async def test_ready_means_that_runs_can_be_accepted(store: Store) -> None:
    await start(store.url, KEY)
    name = make_url(store.url).database
    read_only = f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'
    async with services_of(store.url, KEY) as services:
        assert (
            await check_readiness(services.storage, services.live, services.queue)
        ).status == "ready"
        await store.sql("UPDATE alembic_version SET version_num = '0003'")
        assert "revision 0003" in await refusal(services)
        await store.sql("UPDATE alembic_version SET version_num = 'from_the_future'")
        assert (
            await check_readiness(services.storage, services.live, services.queue)
        ).status == "ready"
        await store.sql(read_only)
    async with services_of(store.url, KEY) as services:
        assert "does not accept writes" in await refusal(services)


async def test_a_process_with_other_keys_than_the_database_is_not_ready(store: Store) -> None:
    await start(store.url, KEY)
    async with services_of(store.url, KEY) as services:
        await store.sql("UPDATE deployment SET canary = 'of another key, which is longer'")
        assert "RUNWARD_SECRET_KEY" in await refusal(services)


async def test_a_process_whose_database_lost_its_schema_is_not_ready(store: Store) -> None:
    await start(store.url, KEY)
    async with services_of(store.url, KEY) as services:
        await store.sql("ALTER TABLE alembic_version RENAME TO gone")
        assert "not migrated" in await refusal(services)


def test_the_revisions_are_those_that_alembic_finds() -> None:
    scripts = ScriptDirectory(str(readiness.MIGRATIONS)).walk_revisions()
    assert tuple(reversed([one.revision for one in scripts])) == readiness.list_revisions()
