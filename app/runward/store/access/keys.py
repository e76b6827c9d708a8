"""Projects and API keys. A key consists of `rw_`, 256 random bits and a checksum. Only its HMAC is
stored."""

import secrets
import time
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, FromClause, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from runward.domain.ids import KeyId, ProjectId
from runward.domain.registry.scopes import Principal, Scope
from runward.store.access import limits
from runward.store.access.vault import Vault
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, mint, select_page
from runward.store.postgres.engine import AsyncEngine
from runward.store.postgres.project_scope import all_projects
from runward.store.postgres.tables import api_keys, projects

DEFAULT_PROJECT: Final = ProjectId(UUID(int=0))
"""The project `default`. A key of this project with the scope `admin` belongs to the operator."""
USE_INTERVAL: Final = timedelta(minutes=1)
"""Interval at which the use of a key is recorded."""
CACHE_SECONDS: Final = 2.0
"""Maximum number of seconds for which a process that has just used a key accepts it after it was
revoked."""
MAX_CACHED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Key:
    id: UUID
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """Time of the last use, accurate to `USE_INTERVAL`. None: the key was never used."""


@dataclass(frozen=True, slots=True)
class ActingKey:
    """The key with which an action was performed. A revoked key keeps its name."""

    id: UUID
    name: str


@dataclass(frozen=True, slots=True)
class Project:
    id: UUID
    name: str
    created_at: datetime


IS_VALID: Final = api_keys.c.revoked_at.is_(None) & (
    api_keys.c.expires_at.is_(None) | (api_keys.c.expires_at > func.clock_timestamp())
)
"""SQL condition for a key that is neither revoked nor expired."""
_KEY: Final = RowMapping(Key, api_keys)
_PROJECT: Final = RowMapping(Project, projects)


def make_secret() -> str:
    """Return a new key: `rw_`, 43 characters of base64url (256 bits) and 8 hexadecimal digits of
    CRC-32. With the checksum, a scanner recognizes keys without a request."""
    body = secrets.token_urlsafe(32)
    return f"rw_{body}{zlib.crc32(body.encode()):08x}"


async def authenticate(tx: Tx, digests: Sequence[bytes]) -> Principal | None:
    """Return the principal of a key. Returns None if the key is unknown, revoked or expired.
    `digests`: of the key under each data key, the current one first. The use of a key replaces
    the digest under a previous data key."""
    used = api_keys.c.last_used_at
    row = (
        await tx.execute(
            limits.add_limits(
                select(
                    api_keys.c.project_id,
                    api_keys.c.id,
                    api_keys.c.name,
                    api_keys.c.scopes,
                    (
                        used.is_(None)
                        | (used < func.now() - USE_INTERVAL)
                        | (api_keys.c.secret_hmac != digests[0])
                    ).label("use_is_due"),
                ).where(api_keys.c.secret_hmac.in_(digests), IS_VALID)
            )
        )
    ).one_or_none()
    if row is None:
        return None
    if row.use_is_due:
        await _record_use(tx, row.project_id, row.id, digests[0])
    return principal_from_row(row)


def principal_from_row(row: Any, session: bytes | None = None) -> Principal:
    """Return the principal of a key. `session`: the digest of a console session's token."""
    scopes = frozenset(Scope(scope) for scope in row.scopes)
    operator = row.project_id == DEFAULT_PROJECT and Scope.ADMIN in scopes
    return Principal(
        ProjectId(row.project_id),
        KeyId(row.id),
        row.name,
        scopes,
        operator,
        limits.read_limits(row),
        limits.read_key_limits(row),
        session,
    )


async def is_valid(tx: Tx, project_id: ProjectId, key_id: KeyId) -> bool:
    """Return whether the key is neither revoked nor expired."""
    found = await tx.execute(
        select(api_keys.c.id).where(
            api_keys.c.project_id == project_id, api_keys.c.id == key_id, IS_VALID
        )
    )
    return found.one_or_none() is not None


async def _record_use(tx: Tx, project_id: UUID, key_id: UUID, digest: bytes) -> None:
    """Record that the key is used now, and store its current digest. If another process records a
    use at the same time, that record is enough, so this function does not wait for the lock."""
    free = (
        select(api_keys.c.id)
        .where(api_keys.c.project_id == project_id, api_keys.c.id == key_id)
        .with_for_update(skip_locked=True)
    )
    await tx.execute(
        update(api_keys)
        .where(api_keys.c.project_id == project_id, api_keys.c.id.in_(free))
        .values(last_used_at=func.clock_timestamp(), secret_hmac=digest)
    )


async def add_project(tx: Tx, name: str) -> Project:
    made = insert(projects).values(id=mint(), name=name).returning(projects)
    row = (await tx.execute(made)).one()
    return _PROJECT.read(row)


async def ensure_default_project(tx: Tx) -> None:
    made = upsert(projects).values(id=DEFAULT_PROJECT, name="default")
    await tx.execute(made.on_conflict_do_nothing())


async def get_project(tx: Tx, project_id: UUID) -> Project | None:
    row = (await tx.execute(select(projects).where(projects.c.id == project_id))).one_or_none()
    return None if row is None else _PROJECT.read(row)


async def list_projects(
    tx: Tx, *, after: UUID | None, limit: int, descending: bool
) -> list[Project]:
    query = select(projects)
    rows = await tx.execute(
        select_page(query, projects.c.id, after=after, limit=limit, descending=descending)
    )
    return [_PROJECT.read(row) for row in rows]


async def add_key(
    tx: Tx,
    vault: Vault,
    project_id: UUID,
    *,
    name: str,
    scopes: tuple[str, ...],
    secret: str,
    expires_at: datetime | None = None,
) -> Key:
    made = insert(api_keys).values(
        project_id=project_id,
        id=mint(),
        name=name,
        secret_hmac=vault.key_digests(secret)[0],
        scopes=list(scopes),
        expires_at=expires_at,
    )
    row = (await tx.execute(made.returning(api_keys))).one()
    return _KEY.read(row)


async def ensure_bootstrap_key(tx: Tx, vault: Vault, *, name: str, secret: str) -> Key | None:
    """Create the bootstrap key in the project `default`, with all scopes. Returns None if it
    exists. A digest under a previous data key is replaced: otherwise, a revoked key would be
    created again after that data key is removed."""
    await ensure_default_project(tx)
    digests = vault.key_digests(secret)
    existing = api_keys.c.secret_hmac.in_(digests)
    if (await tx.execute(select(api_keys.c.id).where(existing).with_for_update())).first():
        outdated = existing & (api_keys.c.secret_hmac != digests[0])
        await tx.execute(update(api_keys).where(outdated).values(secret_hmac=digests[0]))
        return None
    made = upsert(api_keys).values(
        project_id=DEFAULT_PROJECT,
        id=mint(),
        name=name,
        secret_hmac=digests[0],
        scopes=[str(scope) for scope in Scope],
    )
    created = made.on_conflict_do_nothing(index_elements=[api_keys.c.secret_hmac])
    row = (await tx.execute(created.returning(api_keys))).one_or_none()
    return None if row is None else _KEY.read(row)


async def find_invalid_key(tx: Tx, digests: Sequence[bytes]) -> Principal | None:
    """Return the principal of a key that is revoked or expired, and lock the key until the
    transaction ends. `digests`: those of its text under each data key."""
    query = select(api_keys).where(api_keys.c.secret_hmac.in_(digests), ~IS_VALID)
    locked = limits.add_limits(query).with_for_update(of=api_keys)
    row = (await tx.execute(locked)).one_or_none()
    return None if row is None else principal_from_row(row)


async def list_keys(
    tx: Tx, project_id: UUID, *, after: UUID | None, limit: int, descending: bool
) -> list[Key]:
    query = select(api_keys).where(api_keys.c.project_id == project_id)
    return [
        _KEY.read(row)
        for row in await tx.execute(
            select_page(query, api_keys.c.id, after=after, limit=limit, descending=descending)
        )
    ]


async def get_key(tx: Tx, project_id: UUID, key_id: UUID, *, lock: bool = False) -> Key | None:
    """Return the key, or None if it does not exist. `lock`: until the transaction ends."""
    query = select(api_keys).where(api_keys.c.project_id == project_id, api_keys.c.id == key_id)
    row = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if row is None else _KEY.read(row)


async def find_keys(tx: Tx, project_id: UUID, key_ids: Iterable[UUID]) -> set[UUID]:
    """Return the keys of the project among these, also revoked ones."""
    query = select(api_keys.c.id).where(
        api_keys.c.project_id == project_id, api_keys.c.id.in_(list(key_ids))
    )
    return set((await tx.execute(query)).scalars())


async def revoke_key(tx: Tx, project_id: UUID, key_id: UUID) -> Key | None:
    """Revoke the key, and return it. Revoking a key again has no effect. Returns None if the key
    does not exist."""
    revoked = (
        update(api_keys)
        .where(api_keys.c.project_id == project_id, api_keys.c.id == key_id)
        .values(revoked_at=func.coalesce(api_keys.c.revoked_at, func.clock_timestamp()))
        .returning(api_keys)
    )
    row = (await tx.execute(revoked)).one_or_none()
    return None if row is None else _KEY.read(row)


def starter_columns(table: FromClause) -> tuple[ColumnElement[Any], ...]:
    """Return the columns of a run in `table` that `starter_from_row` reads."""
    name = select(api_keys.c.name).where(
        api_keys.c.project_id == table.c.project_id, api_keys.c.id == table.c.created_by
    )
    return table.c.created_by, name.correlate(table).scalar_subquery().label("created_by_name")


def starter_from_row(row: Any) -> ActingKey | None:
    if row.created_by is None or row.created_by_name is None:
        return None
    return ActingKey(row.created_by, row.created_by_name)


class Authenticator:
    """Authenticates API keys, with a cache. Only the HMAC of a token is cached. Unknown tokens are
    not cached, so each of them costs a query."""

    def __init__(
        self,
        pool: AsyncEngine,
        digests: Callable[[str], tuple[bytes, ...]],
        find: Callable[[Tx, tuple[bytes, ...]], Awaitable[Principal | None]],
    ) -> None:
        self._pool = pool
        self._digests = digests
        self._find = find
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def __call__(self, token: str) -> Principal | None:
        """Return the principal of a token. Returns None if the token is unknown or no longer
        valid."""
        digests = self._digests(token)
        digest = digests[0]
        known = self._known.get(digest)
        now = time.monotonic()
        if known is not None and now - known[0] < CACHE_SECONDS:
            return known[1]
        with all_projects():
            async with self._pool.begin() as tx:
                principal = await self._find(tx, digests)
        if principal is None:
            self._known.pop(digest, None)
            return None
        self._known[digest] = (now, principal)
        self._known.move_to_end(digest)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        return principal

    def forget(self, token: str) -> None:
        """Remove the token from the cache, so that its next use reads the database."""
        self._known.pop(self._digests(token)[0], None)
