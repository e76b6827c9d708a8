"""What operators see of the secret key and the data keys: by `doctor`, and before a removal."""

from datetime import timedelta

from runward.operating.deployment import open_deployment
from runward.operating.key_findings import check_keys
from runward.settings import Settings
from runward.store import readiness
from runward.store.access import keys
from runward.store.access.secrets import put_secret
from runward.store.access.vault import DataKey, Vault
from runward.store.data_keys import inventory
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.secret_keys import open_providers
from runward.worker.reencryption import Reencryption
from tests.db.store import PROJECT, Store

OLD, NEW = "the old secret key, which is long enough", "the new secret key, which is long enough"
API_KEY = "rw_0123456789abcdef0123456789abcdef"


async def start(store: Store, *secret_keys: str) -> KeyRing:
    """As a process starts."""
    ring = KeyRing(store.database, open_providers(secret_keys))
    store.vault = await ring.open()
    async with store.pool.begin() as tx:
        await readiness.prepare_database(tx, store.vault)
    return ring


async def rotate(store: Store, ring: KeyRing) -> None:
    """All processes have used the new data key for some minutes."""
    await ring.add_key()
    await store.sql("UPDATE data_keys SET created_at = created_at - interval '10 minutes'")
    await ring.refresh()


async def find(store: Store, *secret_keys: str) -> list[tuple[str, str]]:
    """The status and the detail of each finding."""
    current, *previous = secret_keys
    settings = Settings.model_validate(
        {"secret_key": current, "previous_secret_keys": previous, "database_url": store.url}
    )
    return [(one.status, one.detail) async for one in check_keys(settings, store.database)]


async def test_doctor_shows_when_a_previous_secret_key_can_be_removed(store: Store) -> None:
    fine = ("ok", "RUNWARD_SECRET_KEY is set")
    assert await find(store, OLD) == [fine]
    assert await store.value("SELECT count(*) FROM data_keys") == 0
    await start(store, OLD)
    assert await find(store, OLD) == [fine]
    [_, unwrapped] = await find(store, NEW, OLD)
    assert unwrapped == (
        "warn",
        "RUNWARD_SECRET_KEY has not wrapped 1 of 1 data keys yet",
    )
    await start(store, NEW, OLD)
    [_, removable] = await find(store, NEW, OLD)
    assert removable[0] == "ok"
    assert removable[1].startswith("RUNWARD_PREVIOUS_SECRET_KEYS can be removed when every process")
    await start(store, NEW)
    assert await find(store, NEW) == [fine]
    [(status, detail)] = await find(store, OLD)
    assert status == "fail"
    assert "1 data key is encrypted with the secret key local:" in detail


async def test_a_command_with_the_old_secret_key_removes_no_data_key_of_the_new_one(
    store: Store,
) -> None:
    for secret_keys in ((OLD,), (NEW, OLD)):
        await start(store, *secret_keys)
    settings = Settings.model_validate({"secret_key": OLD, "database_url": store.url})
    async with open_deployment(settings):
        pass
    await start(store, NEW)


async def test_doctor_accepts_a_database_that_only_an_earlier_version_has_used(
    store: Store,
) -> None:
    async with store.pool.begin() as tx:
        await readiness.prepare_database(tx, Vault(DataKey.from_secret_key(OLD)))
    assert await find(store, OLD) == [("ok", "RUNWARD_SECRET_KEY is set")]
    [(status, _)] = await find(store, NEW)
    assert status == "fail"


async def test_doctor_counts_the_values_that_have_to_be_encrypted_again(store: Store) -> None:
    ring = await start(store, OLD)
    async with store.pool.begin() as tx:
        for name in ("A", "B"):
            await put_secret(tx, store.vault, PROJECT, name, "x")
    await rotate(store, ring)
    [_, outdated] = await find(store, OLD)
    assert outdated == ("warn", "previous data keys encrypt 3 stored values")  # and the canary
    assert await Reencryption(store.database, ring).run_pass()
    assert len(await find(store, OLD)) == 1


async def test_api_keys_depend_on_a_previous_data_key_until_they_are_used(store: Store) -> None:
    ring = await start(store, OLD)
    async with store.pool.begin() as tx:
        await keys.ensure_bootstrap_key(tx, store.vault, name="ci", secret=API_KEY)
    await store.sql(
        "UPDATE api_keys SET created_at = now() - CAST(:age AS interval)", age=timedelta(hours=1)
    )
    await rotate(store, ring)
    async with store.pool.begin() as tx:
        assert (await inventory.count_dependents(tx)).api_keys == 1
        assert await keys.authenticate(tx, store.vault.key_digests(API_KEY)) is not None
        assert (await inventory.count_dependents(tx)).api_keys == 0
        [previous, _] = await inventory.list_states(tx)
        await inventory.delete_key(tx, previous.id)
    await ring.refresh()
    async with store.pool.connect() as tx:
        assert await keys.authenticate(tx, store.vault.key_digests(API_KEY)) is not None
