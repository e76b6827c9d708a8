"""Keys that wrap the data keys: from the environment, from a file, and in AWS KMS."""

import asyncio
import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, text

from runward.store import readiness
from runward.store.access import keys
from runward.store.access.secrets import put_secret, read_secrets
from runward.store.access.vault import DataKey, Vault
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.secret_keys import open_providers
from runward.store.data_keys.wrapping import KeyUnavailableError
from runward.store.postgres.db import Database, open_database
from runward.store.postgres.registry_tables import data_keys
from runward.store.readiness import WrongSecretKeyError
from tests.db.store import PROJECT, Store
from tests.db.test_sealed_headers import dump
from tests.support.kms import KmsServer

OLD, NEW = "o" * 32, "n" * 32
API_KEY = "rw_0123456789abcdef0123456789abcdef"


@pytest.fixture
def kms(monkeypatch: pytest.MonkeyPatch) -> Iterator[KmsServer]:
    server = KmsServer()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


@pytest.fixture
async def database(database_url: str) -> Any:
    database = open_database(database_url, pool_size=2)
    yield database
    await database.close()


async def start(database: Database, *secret_keys: str) -> Vault:
    """As a process starts."""
    vault = await KeyRing(database, open_providers(secret_keys)).open()
    async with database.pool.begin() as tx:
        await readiness.prepare_database(tx, vault)
    return vault


async def fill(database: Database, vault: Vault) -> None:
    async with database.pool.begin() as tx:
        await keys.ensure_bootstrap_key(tx, vault, name="ci", secret=API_KEY)
        await put_secret(tx, vault, PROJECT, "TOKEN", "x")


async def expect_content(database: Database, vault: Vault) -> None:
    async with database.pool.connect() as tx:
        assert await read_secrets(tx, vault, PROJECT, ["TOKEN"]) == {"TOKEN": "x"}
        assert await keys.authenticate(tx, vault.key_digests(API_KEY)) is not None


async def list_wrapping_keys(database: Database) -> set[str]:
    async with database.pool.connect() as tx:
        rows = await tx.execute(text("SELECT jsonb_object_keys(wrapped) AS name FROM data_keys"))
        return {row.name for row in rows}


async def test_a_secret_key_is_replaced_without_encrypting_a_value_again(
    database: Database,
) -> None:
    await fill(database, await start(database, OLD))
    async with database.pool.connect() as tx:
        before = (await tx.execute(text("SELECT value FROM secrets"))).scalar_one()
    both = await start(database, NEW, OLD)
    await expect_content(database, both)
    await expect_content(database, await start(database, OLD))  # it was not restarted yet
    await start(database, NEW, OLD)
    await expect_content(database, await start(database, NEW))
    async with database.pool.connect() as tx:
        assert (await tx.execute(text("SELECT value FROM secrets"))).scalar_one() == before
    [wrapping_key] = await list_wrapping_keys(database)
    with pytest.raises(WrongSecretKeyError, match=f"1 data key is encrypted .* {wrapping_key}"):
        await start(database, OLD)


async def test_a_key_that_is_still_needed_cannot_be_removed(database: Database) -> None:
    await fill(database, await start(database, OLD))
    [wrapping_key] = await list_wrapping_keys(database)
    with pytest.raises(WrongSecretKeyError, match=f"secret key {wrapping_key}.*PREVIOUS_SECRET"):
        await start(database, NEW)
    await expect_content(database, await start(database, NEW, OLD))


@pytest.mark.parametrize("wrapped", ["AAAA", "A", 1, None])
async def test_a_damaged_data_key_is_an_error_that_operators_understand(
    database: Database, wrapped: Any
) -> None:
    """Processes that are running log this error. Any other one would end all of them."""
    [provider] = open_providers([OLD])
    ring = KeyRing(database, [provider])
    await ring.open()
    damaged = {"id": b"12345678", "wrapped": {provider.id: wrapped}}
    async with database.pool.begin() as tx:
        await tx.execute(insert(data_keys).values(damaged))
    with pytest.raises(KeyUnavailableError, match="Restore the table data_keys"):
        await ring.refresh()


async def test_processes_that_start_together_agree_on_the_first_data_key(
    database: Database, store: Store
) -> None:
    await store.sql("DELETE FROM projects")
    rings = [KeyRing(one, open_providers([OLD])) for one in (database, store.database)]
    async with store.pool.begin() as tx:
        await tx.execute(text("LOCK TABLE data_keys IN SHARE MODE"))
        starting = [asyncio.create_task(ring.open()) for ring in rings]
        await store.until_blocked(2)
    vaults = [await one for one in starting]
    assert vaults[0].current_id == vaults[1].current_id != b""


async def test_a_process_that_starts_while_another_one_stores_the_first_key_loads_it(
    database: Database, store: Store
) -> None:
    """The first statement of a start finds no key, and the next one finds a database in use."""
    await store.sql("DELETE FROM projects")
    [provider] = open_providers([OLD])
    key = DataKey.create()
    async with store.pool.begin() as tx:
        await tx.execute(text("LOCK TABLE projects IN ACCESS EXCLUSIVE MODE"))
        starting = asyncio.create_task(KeyRing(database, [provider]).open())
        await store.until_blocked()
        wrapped = {provider.id: base64.b64encode(await provider.wrap(key)).decode()}
        await tx.execute(insert(data_keys).values(id=key.id, wrapped=wrapped))
        await readiness.prepare_database(tx, Vault(key))
    assert (await starting).current_id == key.id


async def test_the_secret_key_of_an_earlier_version_stays_a_data_key(store: Store) -> None:
    """Its processes still work while they are replaced."""
    async with store.pool.begin() as tx:
        await readiness.prepare_database(tx, store.vault)
    await fill(store.database, store.vault)
    for other in (NEW, OLD):
        with pytest.raises(WrongSecretKeyError):
            await start(store.database, other)
    vault = await start(store.database, NEW, "k" * 32)
    await expect_content(store.database, vault)
    async with store.pool.begin() as tx:
        await put_secret(tx, vault, PROJECT, "TOKEN", "y")
        assert await read_secrets(tx, store.vault, PROJECT, ["TOKEN"]) == {"TOKEN": "y"}


async def test_a_key_is_read_from_a_file(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "key"
    reference = f"file:{path}"
    with pytest.raises(KeyUnavailableError, match="No such file"):
        await start(database, reference)
    path.write_text("short\n")
    with pytest.raises(KeyUnavailableError, match="32 characters"):
        await start(database, reference)
    path.write_bytes(b"\xff" * 40)
    with pytest.raises(KeyUnavailableError, match="not UTF-8"):
        await start(database, reference)
    path.write_text(f"{OLD}\n")
    await fill(database, await start(database, reference))
    await expect_content(database, await start(database, OLD))


async def test_the_data_key_is_wrapped_by_kms_and_kms_is_used_only_at_start(
    database: Database, kms: KmsServer
) -> None:
    reference = f"aws-kms:{kms.create_key()}"
    await fill(database, await start(database, reference))
    again = await start(database, reference)
    kms.close()
    await expect_content(database, again)
    async with database.pool.begin() as tx:
        await put_secret(tx, again, PROJECT, "TOKEN", "x")
    await expect_content(database, again)
    assert await list_wrapping_keys(database) == {reference}


async def test_no_data_key_is_in_the_database_in_clear_text(
    database: Database, kms: KmsServer
) -> None:
    provider, *_ = open_providers([f"aws-kms:{kms.create_key()}"])
    ring = KeyRing(database, [provider])
    await ring.open()
    key = await ring.add_key()
    async with database.pool.connect() as tx:
        row = (
            await tx.execute(text("SELECT wrapped FROM data_keys WHERE id = :id"), {"id": key.id})
        ).one()
        dumped = await dump(tx)
    wrapped = base64.b64decode(row.wrapped[provider.id])
    assert await provider.unwrap(key.id, wrapped) == key
    for shown in (key.root.hex(), base64.b64encode(key.root).decode()):
        assert shown not in dumped
    with pytest.raises(KeyUnavailableError):  # it is bound to its ID
        await provider.unwrap(b"another", wrapped)


async def test_a_deployment_moves_to_kms_and_to_another_key_of_kms(
    database: Database, kms: KmsServer
) -> None:
    first, second = (f"aws-kms:{kms.create_key()}" for _ in range(2))
    await fill(database, await start(database, OLD))
    for secret_keys in ((first, OLD), (first,), (second, first), (second,)):
        await expect_content(database, await start(database, *secret_keys))
    assert await list_wrapping_keys(database) == {second}
    with pytest.raises(WrongSecretKeyError, match=second):
        await start(database, first)


async def test_the_start_explains_why_kms_cannot_be_used(
    database: Database, kms: KmsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = kms.create_key()
    await start(database, f"aws-kms:{arn}")
    gone = arn.replace(arn.rpartition("/")[2], "00000000-0000-0000-0000-000000000000")
    with pytest.raises(KeyUnavailableError, match=f"{gone}.*NotFoundException"):
        await start(database, f"aws-kms:{gone}", f"aws-kms:{arn}")
    kms.close()
    with pytest.raises(KeyUnavailableError, match="Could not connect to the endpoint"):
        await start(database, f"aws-kms:{arn}")
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "runward.store.data_keys.aws_kms")
    with pytest.raises(KeyUnavailableError, match=r"Install `runward\[aws\]`"):
        await start(database, f"aws-kms:{arn}")
