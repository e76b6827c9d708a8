"""The data keys of a deployment: they are stored wrapped, and every process loads them."""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert

from runward.domain.audit import AuditAction
from runward.domain.errors import OperatorError
from runward.store import readiness
from runward.store.access import audit
from runward.store.access.vault import DataKey, Vault
from runward.store.data_keys.wrapping import KeyProvider, LocalKey
from runward.store.postgres.db import DATABASE_ERRORS, Database, Tx, is_outage, log_fields
from runward.store.postgres.registry_tables import data_keys
from runward.store.readiness import WrongSecretKeyError

log = structlog.get_logger()

REFRESH_SECONDS: Final = 10.0
"""Seconds between two reads of the data keys by a process."""
ACTIVATION: Final = timedelta(seconds=60)
"""Time from the creation of a data key until processes encrypt with it. Until then, all processes
have loaded it."""

_LIST: Final = text(
    "SELECT id, wrapped, created_at, drained_at,"
    " created_at <= clock_timestamp() - CAST(:activation AS interval) AS is_active"
    " FROM data_keys ORDER BY created_at, id"
)
_STATE: Final = text(
    "SELECT (SELECT canary FROM deployment) AS canary, EXISTS (SELECT FROM projects) AS is_used,"
    " EXISTS (SELECT FROM data_keys) AS has_keys"
)
_LOCK: Final = text("LOCK TABLE data_keys IN SHARE ROW EXCLUSIVE MODE")
_ADD_WRAPPED: Final = text(
    "UPDATE data_keys SET wrapped = wrapped || :wrapped WHERE id = :id"
).bindparams(bindparam("wrapped", type_=JSONB))
_REMOVE_WRAPPED: Final = text(
    "UPDATE data_keys SET wrapped = wrapped - CAST(:others AS text[])"
    " WHERE wrapped ?| CAST(:others AS text[])"
)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A data key as it is stored. `wrapped`: the key by the ID of each key that has wrapped it.
    `is_active`: whether processes may encrypt with it. `drained_at`: when all of its values had
    been encrypted with a newer key."""

    id: bytes
    wrapped: Mapping[str, bytes]
    created_at: datetime
    is_active: bool
    drained_at: datetime | None


async def list_keys(tx: Tx) -> list[StoredKey]:
    """Return the data keys, oldest first."""
    rows = await tx.execute(_LIST, {"activation": ACTIVATION})
    return [
        StoredKey(
            row.id,
            {name: _decode(value) for name, value in row.wrapped.items()},
            row.created_at,
            row.is_active,
            row.drained_at,
        )
        for row in rows
    ]


def find_current(stored: Sequence[StoredKey]) -> StoredKey:
    """Return the key that encrypts: the newest active one. The first key need not wait, because no
    process has another one."""
    return next((one for one in reversed(stored) if one.is_active), stored[0])


def list_outdated(stored: Sequence[StoredKey]) -> list[StoredKey]:
    """Return the keys older than the current one whose values may not all be encrypted again."""
    if not stored:
        return []
    current = stored.index(find_current(stored))
    return [one for one in stored[:current] if one.drained_at is None]


class KeyRing:
    """The data keys in the memory of a process. `providers`: the wrapping keys, the current one
    first. `on_change` is called when `vault` has other keys than before."""

    vault: Vault

    def __init__(self, database: Database, providers: Sequence[KeyProvider]) -> None:
        self._database = database
        self._providers = providers
        self._known: dict[bytes, DataKey] = {}
        self._order: list[bytes] = []
        self.on_change: Callable[[], None] = lambda: None
        self.has_outdated = False
        """Whether values may be encrypted with a data key older than the current one."""

    @property
    def current_wrapping_id(self) -> str:
        return self._providers[0].id

    async def open(self, *, keep_others: bool = False) -> Vault:
        """Load the data keys. Create the first one if there is none. Wrap them with the current
        wrapping key. Unless `keep_others`, remove what other wrapping keys than the configured
        ones have wrapped. Raises UnmigratedDatabaseError, WrongSecretKeyError and
        KeyUnavailableError."""
        stored = await self._read()
        if not stored:
            if (first := await self._choose_first()) is not None:
                await self._add(first, only_first=True)
            stored = await self._read()
        await self._load(stored)
        others = {name for one in stored for name in one.wrapped} - self._list_provider_ids()
        if others and not keep_others:
            async with self._database.pool.begin() as tx:
                await tx.execute(_REMOVE_WRAPPED, {"others": sorted(others)})
            log.info("wrapping_keys_removed", keys=sorted(others))
        return self.vault

    async def run(self) -> None:
        """Load the data keys again and again, until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self.refresh()
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                log.warning("data_keys_not_loaded", **log_fields(error))
            except OperatorError as error:
                log.error("data_keys_not_loaded", reason=str(error))

    async def refresh(self) -> None:
        """Load the data keys that other processes have added. Raises UnmigratedDatabaseError,
        WrongSecretKeyError and KeyUnavailableError."""
        stored = await self._read()
        if stored:  # otherwise the database was emptied, which the readiness check reports
            await self._load(stored)

    async def load_without_writes(self) -> Vault:
        """Return the vault as `open` does, and change nothing."""
        if (first := await self._choose_first()) is not None:
            return Vault(first)
        stored = await self._read()
        await self._unwrap(stored)
        self._apply(stored)
        return self.vault

    async def add_key(self) -> DataKey:
        """Create a data key. Every process encrypts with it after ACTIVATION."""
        key = DataKey.create()
        await self._add(key, only_first=False)
        log.info("data_key_created", key=format_key_id(key.id))
        return key

    async def _read(self) -> list[StoredKey]:
        async with self._database.pool.connect() as tx:
            await readiness.check_schema(tx)
            return await list_keys(tx)

    async def _choose_first(self) -> DataKey | None:
        """Return a new key, or None if there is a key already. If an earlier version used the
        database, return its secret key, which encrypted its values and peppers its API keys."""
        async with self._database.pool.connect() as tx:
            # One statement, because other processes store the first key and then the canary.
            state = (await tx.execute(_STATE)).one()
        if state.has_keys:
            return None
        if not state.is_used and state.canary is None:
            return DataKey.create()
        for provider in self._providers:
            if isinstance(provider, LocalKey):
                key = DataKey.from_secret_key(provider.secret_key)
                if state.canary is None or readiness.is_canary(Vault(key), state.canary):
                    return key
        raise WrongSecretKeyError

    async def _add(self, key: DataKey, *, only_first: bool) -> None:
        """Store the key, wrapped by all providers, because some processes may not have the current
        one yet."""
        wrapped = {one.id: _encode(await one.wrap(key)) for one in self._providers}
        async with self._database.pool.begin() as tx:
            if only_first:
                await tx.execute(_LOCK)
                if await list_keys(tx):
                    return  # another process was faster
            await tx.execute(upsert(data_keys).values(id=key.id, wrapped=wrapped))
            if not only_first:
                action = AuditAction.DATA_KEY_CREATED
                await audit.append_for_deployment(tx, action, format_key_id(key.id))

    async def _load(self, stored: Sequence[StoredKey]) -> None:
        await self._unwrap(stored)
        current = self._providers[0]
        wrapping_key = current.id
        missing = {
            one.id: {wrapping_key: _encode(await current.wrap(self._known[one.id]))}
            for one in stored
            if wrapping_key not in one.wrapped
        }
        if missing:
            async with self._database.pool.begin() as tx:
                for key_id, wrapped in missing.items():
                    await tx.execute(_ADD_WRAPPED, {"id": key_id, "wrapped": wrapped})
            log.info("data_keys_wrapped", by=wrapping_key, keys=len(missing))
        self._apply(stored)

    async def _unwrap(self, stored: Sequence[StoredKey]) -> None:
        locked: list[StoredKey] = []
        for one in stored:
            if one.id in self._known:
                continue
            provider = next((each for each in self._providers if each.id in one.wrapped), None)
            if provider is None:
                locked.append(one)
            else:
                self._known[one.id] = await provider.unwrap(one.id, one.wrapped[provider.id])
        if locked:
            needed = ", ".join(sorted({name for one in locked for name in one.wrapped}))
            keys = "1 data key is" if len(locked) == 1 else f"{len(locked)} data keys are"
            raise WrongSecretKeyError(f": {keys} encrypted with the secret key {needed}")

    def _apply(self, stored: Sequence[StoredKey]) -> None:
        current = find_current(stored)
        self.has_outdated = bool(list_outdated(stored))
        order = [current.id, *(one.id for one in reversed(stored) if one is not current)]
        if order == self._order:
            return
        first = not self._order
        self._known = {one: self._known[one] for one in order}
        self._order, keys = order, list(self._known.values())
        if first:
            self.vault = Vault(*keys)
            return
        self.vault.replace_keys(*keys)
        log.info("data_keys_changed", current=format_key_id(current.id), keys=len(keys))
        self.on_change()

    def _list_provider_ids(self) -> set[str]:
        return {one.id for one in self._providers}


def format_key_id(key_id: bytes) -> str:
    """Return the ID for people. The key of versions without data keys has none."""
    return key_id.hex() or ORIGINAL


ORIGINAL: Final = "original"


def parse_key_id(shown: str) -> bytes | None:
    """Return the ID, or None if `shown` is not the form of one."""
    try:
        return b"" if shown == ORIGINAL else bytes.fromhex(shown)
    except ValueError:
        return None


def _encode(wrapped: bytes) -> str:
    return base64.b64encode(wrapped).decode()


def _decode(wrapped: Any) -> bytes:
    """Return the wrapped key. No key can unwrap the empty one, if the value is not base64."""
    try:
        return base64.b64decode(wrapped)
    except (ValueError, TypeError):
        return b""
