"""Sessions of the console: what a person's browser holds instead of the API key.

A session is never more than its key: the key's scopes count as they are now, and a key that is
revoked or expires ends its sessions. Of the token only the HMAC is stored.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, func, insert, select

from runward.domain.registry.scopes import Principal
from runward.store.access.keys import IS_VALID, principal_from_row
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import api_keys, console_sessions, projects

LIFETIME: Final = timedelta(hours=12)
MAX_PER_KEY: Final = 100
"""A key's oldest session ends when one more is opened."""

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
    """Create a session, and delete the expired ones of its project and the surplus ones of its
    key."""
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


async def get_session(tx: Tx, digest: bytes) -> ConsoleSession | None:
    """Return the session. None: it is unknown or expired, or its key is no longer valid."""
    query = (
        select(
            _key.project_id,
            _key.id,
            _key.scopes,
            _key.name,
            projects.c.name.label("project_name"),
            _session.expires_at.label("session_ends"),
            _key.expires_at.label("key_ends"),
        )
        .join_from(console_sessions, api_keys)
        .join(projects, projects.c.id == _key.project_id)
        .where(_session.token_hmac == digest, _session.expires_at > func.clock_timestamp())
        .where(IS_VALID)
    )
    row = (await tx.execute(query)).one_or_none()
    if row is None:
        return None
    principal = principal_from_row(row, session=digest)
    ends = [row.session_ends] if row.key_ends is None else [row.session_ends, row.key_ends]
    return ConsoleSession(principal, row.name, row.project_name, min(ends))


async def authenticate(tx: Tx, digest: bytes) -> Principal | None:
    session = await get_session(tx, digest)
    return None if session is None else session.principal


async def close_session(tx: Tx, digest: bytes) -> None:
    await tx.execute(delete(console_sessions).where(_session.token_hmac == digest))
