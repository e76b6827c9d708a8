"""Checks that a process can use its database: it is reachable, writable and migrated, and the
secret key is the right one."""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import structlog
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import ProgrammingError

from runward.domain.errors import OperatorError
from runward.store.access.keys import DEFAULT_PROJECT
from runward.store.access.vault import SecretUnreadableError, Vault
from runward.store.live import project_log
from runward.store.postgres.db import Tx, sqlstate
from runward.store.postgres.tables import deployment

log = structlog.get_logger()

_WHEEL: Final = Path(__file__).parents[1] / "_migrations"
_CHECKOUT: Final = Path(__file__).parents[3] / "migrations"
MIGRATIONS: Final = _WHEEL if _WHEEL.is_dir() else _CHECKOUT
"""The migrations of the wheel or of the checkout. In an installed package, a top-level `migrations`
would belong to another package."""

_CANARY: Final = "runward"
CANARY_COLUMN: Final = "deployment.canary"
_REVISION_PATTERN: Final = re.compile(
    r'^revision = "(?P<own>\w+)"\ndown_revision = (?:None|"(?P<down>\w+)")$', re.MULTILINE
)
_UNDEFINED_TABLE: Final = "42P01"
_INSUFFICIENT_PRIVILEGE: Final = "42501"
_REVISION: Final = text("SELECT version_num FROM alembic_version")
# The row lock is a write, so standby servers and read-only servers reject it.
_LOCK_STATE: Final = text(
    "SELECT (SELECT version_num FROM alembic_version) AS revision, canary FROM deployment"
    " FOR NO KEY UPDATE"
)


class UnmigratedDatabaseError(OperatorError):
    """The schema of the database is missing, or is older than this version requires."""


class WrongSecretKeyError(OperatorError):
    """The configured secret keys cannot decrypt the data keys of this database."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(
            f"RUNWARD_SECRET_KEY is not the secret key of this database{reason}. Set the key that"
            " the other processes have in RUNWARD_SECRET_KEY or RUNWARD_PREVIOUS_SECRET_KEYS. If it"
            ' is lost, see "If the secret key is lost" in docs/how-to/rotate-the-secret-key.md.'
        )


async def prepare_database(tx: Tx, vault: Vault) -> None:
    """Check the schema and the keys when a process starts. The first start stores the canary that
    later starts decrypt. Raises UnmigratedDatabaseError and WrongSecretKeyError."""
    await check_schema(tx)
    canary = vault.seal(_CANARY, column=CANARY_COLUMN, project_id=DEFAULT_PROJECT, row="")
    await tx.execute(upsert(deployment).values(canary=canary).on_conflict_do_nothing())
    await check_database(tx, vault)
    await _continue_log(tx)


async def _continue_log(tx: Tx) -> None:
    try:
        added = await project_log.continue_numbers(tx)
    except ProgrammingError as error:
        if sqlstate(error) != _INSUFFICIENT_PRIVILEGE:
            raise
        raise OperatorError(
            "The database was restored to another server, and this role may not change the table"
            " run_events. Start one process as the owner of the table."
        ) from None
    if added:
        log.info("log_continued_after_restore", offset=added)


async def check_schema(tx: Tx) -> None:
    """Check that the schema has this version's revision or a newer one. Raises
    UnmigratedDatabaseError."""
    row = await _read_state(tx, _REVISION)
    _check_revision(None if row is None else row.version_num)


async def check_database(tx: Tx, vault: Vault) -> None:
    """Check that the database accepts writes, and check the schema and the keys. Raises
    UnmigratedDatabaseError, WrongSecretKeyError and DATABASE_ERRORS."""
    row = await _read_state(tx, _LOCK_STATE)
    if row is None:
        raise UnmigratedDatabaseError(
            "The database was emptied or replaced while this process was running. "
            "Restart this process."
        )
    _check_revision(row.revision)
    check_canary(vault, row.canary)


def check_canary(vault: Vault, canary: bytes) -> None:
    """Check that the vault decrypts the canary. Raises WrongSecretKeyError."""
    if not is_canary(vault, canary):
        raise WrongSecretKeyError


def is_canary(vault: Vault, canary: bytes) -> bool:
    """Return whether the vault decrypts the canary."""
    try:
        vault.open(canary, column=CANARY_COLUMN, project_id=DEFAULT_PROJECT, row="")
    except SecretUnreadableError:
        return False
    return True


@cache
def list_revisions() -> tuple[str, ...]:
    """Return the revisions of this code, oldest first. Alembic would return the same, but its
    import takes longer than all other imports of a worker."""
    texts = (path.read_text("utf-8") for path in MIGRATIONS.glob("versions/*.py"))
    after = {found["down"]: found["own"] for found in map(_REVISION_PATTERN.search, texts) if found}
    ordered: list[str] = []
    while (following := after.get(ordered[-1] if ordered else None)) is not None:
        ordered.append(following)
    return tuple(ordered)


def _check_revision(revision: str | None) -> None:
    """Raise UnmigratedDatabaseError unless the revision is current or unknown. An unknown revision
    belongs to a newer version, and this code also works with its schema."""
    if revision is None:
        raise UnmigratedDatabaseError("The database is not migrated. Run: runward migrate")
    if revision in list_revisions()[:-1]:
        raise UnmigratedDatabaseError(
            f"The schema of the database is at revision {revision}, which is older "
            "than this version requires. Run: runward migrate"
        )


async def _read_state(tx: Tx, statement: Any) -> Any:
    try:
        return (await tx.execute(statement)).one_or_none()
    except ProgrammingError as error:
        if sqlstate(error) != _UNDEFINED_TABLE:
            raise
        raise UnmigratedDatabaseError(
            "The database is not migrated. Run: runward migrate"
        ) from None
