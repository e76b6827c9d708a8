"""Sessions of the console. A browser stores a session token instead of the API key.

A session has at most the rights of its key: the key's current scopes apply, and the session ends
when the key is revoked or expires. Only the HMAC of the token is stored.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, func, insert, select

from runward.domain.registry.scopes import Principal
from runward.store.access import limits
from runward.store.access.keys import IS_VALID, principal_from_row
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import api_keys, console_sessions, projects

LIFETIME: Final = timedelta(hours=12)
MAX_PER_KEY: Final = 100
"""Maximum number of sessions of one key. If one more is opened, the oldest one ends."""

_session, _key = console_sessions.c, api_keys.c


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    principal: Principal
    key_name: str
    project_name: str
    expires_at: datetime


def make_token() -> str:
    """Return a new token: 256 random bits."""
    return secrets.token_urlsafe(32)


async def open_session(tx: Tx, principal: Principal, digest: bytes) -> None:
    """Create a session. Delete the project's expired sessions, and the oldest sessions of the key
    if it has too many."""
    surplus = (
        select(_session.token_hmac)
        .where(_session.project_id == principal.project_id, _session.key_id == principal.key_id)
        .order_by(_session.created_at.desc())
        .offset(MAX_PER_KEY - 1)
    )
    await tx.execute(
        delete(console_sessions).where(
            _session.project_id == principal.project_id,
            (_session.expires_at <= func.clock_timestamp()) | _session.token_hmac.in_(surplus),
        )
    )
    await tx.execute(
        insert(console_sessions).values(
            project_id=principal.project_id,
            token_hmac=digest,
            key_id=principal.key_id,
            expires_at=func.clock_timestamp() + LIFETIME,
        )
    )


async def get_session(tx: Tx, digests: Sequence[bytes]) -> ConsoleSession | None:
    """Return the session. Returns None if it is unknown or expired, or if its key is no longer
    valid. `digests`: of the token under each data key."""
    query = (
        select(
            _key.project_id,
            _key.id,
            _key.scopes,
            _key.name,
            _session.token_hmac,
            projects.c.name.label("project_name"),
            _session.expires_at.label("session_ends"),
            _key.expires_at.label("key_ends"),
        )
        .join_from(console_sessions, api_keys)
        .join(projects, projects.c.id == _key.project_id)
        .where(_session.token_hmac.in_(digests), _session.expires_at > func.clock_timestamp())
        .where(IS_VALID)
    )
    row = (await tx.execute(limits.add_limits(query))).one_or_none()
    if row is None:
        return None
    principal = principal_from_row(row, session=row.token_hmac)
    ends = [row.session_ends] if row.key_ends is None else [row.session_ends, row.key_ends]
    return ConsoleSession(principal, row.name, row.project_name, min(ends))


async def authenticate(tx: Tx, digests: Sequence[bytes]) -> Principal | None:
    session = await get_session(tx, digests)
    return None if session is None else session.principal


async def close_session(tx: Tx, digests: Sequence[bytes]) -> None:
    await tx.execute(delete(console_sessions).where(_session.token_hmac.in_(digests)))
