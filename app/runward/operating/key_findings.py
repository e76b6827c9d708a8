"""The checks of `doctor` on the secret key and the data keys."""

from collections.abc import AsyncIterator, Iterator

from runward.operating.finding import Finding, create_failure
from runward.settings import Settings
from runward.store import readiness
from runward.store.data_keys import inventory
from runward.store.data_keys.inventory import KeyState
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.secret_keys import is_reference, open_providers
from runward.store.data_keys.wrapping import KeyUnavailableError
from runward.store.postgres.db import Database
from runward.store.readiness import UnmigratedDatabaseError, WrongSecretKeyError


def check_secret_key(settings: Settings) -> Finding:
    """Check the form of the key. A later check compares the key with the database."""
    if settings.secret_key is None:
        return Finding(
            "secret key",
            "fail",
            "RUNWARD_SECRET_KEY is missing",
            "Set the same value of 32 characters or more for every process. If "
            "this database is already in use, set the value that was used before. "
            "Otherwise, create one: openssl rand -hex 32",
        )
    value = settings.secret_key.get_secret_value()
    if not is_reference(value) and len(set(value)) < 10:
        return Finding(
            "secret key",
            "warn",
            "RUNWARD_SECRET_KEY has few different characters, so it is easy to guess",
            "Create a random key before you store data with this one: openssl rand -hex 32",
        )
    return Finding("secret key", "ok", "RUNWARD_SECRET_KEY is set")


async def check_keys(settings: Settings, database: Database) -> AsyncIterator[Finding]:
    """Check that the secret keys belong to the database, and how far a rotation is."""
    finding = check_secret_key(settings)
    if settings.secret_key is None:
        yield finding
        return
    try:
        ring = KeyRing(database, open_providers(settings.list_secret_keys()))
        vault = await ring.load_without_writes()
        async with database.pool.connect() as tx:
            await readiness.check_database(tx, vault)
    except (WrongSecretKeyError, KeyUnavailableError) as error:
        yield create_failure("secret key", error)
        return
    except UnmigratedDatabaseError:  # no process has used this database yet
        yield finding
        return
    if settings.database_url is None and finding.status == "ok":
        detail = "the stored key can decrypt the secrets of this database"
        finding = Finding("secret key", "ok", detail)
    yield finding
    async with database.pool.connect() as tx:
        states = await inventory.list_states(tx)
        outdated = await inventory.count_outdated_values(tx)
    for one in _check_rotation(states, ring.current_wrapping_id, outdated):
        yield one


def _check_rotation(states: list[KeyState], wrapping_id: str, outdated: int) -> Iterator[Finding]:
    """Report a rotation that has not been completed."""
    missing = [one for one in states if wrapping_id not in one.secret_keys]
    if missing:
        yield Finding(
            "data keys",
            "warn",
            f"RUNWARD_SECRET_KEY has not wrapped {len(missing)} of {len(states)} data keys yet",
            "Keep the other secret keys in RUNWARD_PREVIOUS_SECRET_KEYS, and restart all processes"
            " with the new key.",
        )
    if outdated:
        yield Finding(
            "data keys",
            "warn",
            f"previous data keys encrypt {outdated} stored values",
            "Workers encrypt these values again. Start a worker if none is running.",
        )
    if not missing and any(len(one.secret_keys) > 1 for one in states):
        yield Finding(
            "secret key",
            "ok",
            "RUNWARD_PREVIOUS_SECRET_KEYS can be removed when every process has been restarted"
            " with the new secret key",
        )
