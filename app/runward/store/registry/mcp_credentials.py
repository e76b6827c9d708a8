"""The credentials of MCP servers. They are encrypted, and may refer to the project's secrets.
Authorization servers may replace their refresh tokens."""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from pydantic import TypeAdapter
from pydantic_core import from_json
from sqlalchemy import func, or_, update

from runward.domain.errors import McpUnreachableError, UnavailableError
from runward.domain.ids import ProjectId
from runward.domain.json import compact
from runward.domain.registry.mcp_auth import (
    Credentials,
    RefreshClaim,
    ResolvedCredentials,
    StoredOAuth,
)
from runward.domain.registry.tools import SecretReference
from runward.store.access.secrets import read_secrets
from runward.store.access.vault import Vault
from runward.store.postgres.db import DATABASE_ERRORS, Tx, is_outage, retry_on_outage
from runward.store.postgres.engine import AsyncEngine
from runward.store.postgres.tables import mcp_servers

HEADERS_COLUMN: Final = "mcp_servers.secret_headers"
OAUTH_COLUMN: Final = "mcp_servers.oauth"
REFRESH_COLUMN: Final = "mcp_servers.refresh_token"
CLAIM_DURATION: Final = timedelta(seconds=20)
"""Duration of a claim. It exceeds the timeout of a request to an authorization server."""

_HEADERS: Final = TypeAdapter[dict[str, str | SecretReference]](dict[str, str | SecretReference])
_REPLACED: Final = TypeAdapter[dict[str, str]](dict[str, str])


@dataclass(frozen=True, slots=True)
class SealedCredentials:
    """Encrypted credentials that are bound to the server's project and name."""

    headers: bytes | None = None
    oauth: bytes | None = None

    def open(self, vault: Vault, project_id: ProjectId, name: str) -> Credentials:
        headers: dict[str, str | SecretReference] = {}
        oauth: StoredOAuth | None = None
        if self.headers is not None:
            text = vault.open(self.headers, column=HEADERS_COLUMN, project_id=project_id, row=name)
            headers = _HEADERS.validate_json(text, strict=False)
        if self.oauth is not None:
            text = vault.open(self.oauth, column=OAUTH_COLUMN, project_id=project_id, row=name)
            oauth = StoredOAuth.model_validate_json(text, strict=False)
        return Credentials(headers, oauth)


def seal_credentials(
    vault: Vault, project_id: ProjectId, name: str, credentials: Credentials
) -> SealedCredentials:
    headers = oauth = None
    if credentials.headers:
        text = compact(_HEADERS.dump_python(dict(credentials.headers), exclude_defaults=True))
        headers = vault.seal(text, column=HEADERS_COLUMN, project_id=project_id, row=name)
    if credentials.oauth is not None:
        text = compact(credentials.oauth.model_dump(mode="json", exclude_defaults=True))
        oauth = vault.seal(text, column=OAUTH_COLUMN, project_id=project_id, row=name)
    return SealedCredentials(headers, oauth)


def seal_refresh(
    vault: Vault, project_id: ProjectId, name: str, given: str, replaced_by: str
) -> bytes:
    """Return an encrypted refresh token that replaced the configured token. It is valid until the
    configured token, or its secret, changes."""
    text = compact({"of": _digest(given), "token": replaced_by})
    return vault.seal(text, column=REFRESH_COLUMN, project_id=project_id, row=name)


async def fill_secrets(
    tx: Tx, vault: Vault, project_id: ProjectId, name: str, credentials: Credentials
) -> ResolvedCredentials:
    """Return the credentials with the current secrets. Raises McpUnreachableError, which names a
    secret that does not exist."""
    wanted = {secret for _, secret in credentials.references()}
    found = await read_secrets(tx, vault, project_id, wanted)
    if missing := sorted(wanted - found.keys()):
        raise McpUnreachableError(
            f"The secret '{missing[0]}' of MCP server '{name}' no longer exists. "
            f"Create it again with PUT /v1/secrets/{missing[0]}."
        )
    return credentials.resolve(found)


class StoredRefreshTokens:
    """The refresh tokens of one registered server. Only one process at a time can claim a token.
    Many authorization servers accept a refresh token only once, and treat a second use as theft
    (RFC 9700, section 4.14.2)."""

    def __init__(
        self, pool: AsyncEngine, vault: Vault, project_id: ProjectId, name: str, id_: UUID
    ) -> None:
        self._pool = pool
        self._vault = vault
        self._project_id = project_id
        self._name = name
        self._id = id_

    async def claim(self, initial_token: str) -> RefreshClaim | None:
        """Claim the refresh token. Returns None if another process holds the claim. Raises
        UnavailableError."""
        try:
            async with self._pool.begin() as tx:
                row = await _claim_row(tx, self._project_id, self._id)
        except DATABASE_ERRORS as error:
            if not is_outage(error):
                raise
            raise UnavailableError("The database cannot be reached.") from error
        if row is None:
            return None
        token = initial_token
        if row.refresh_token is not None:
            text = self._vault.open(
                row.refresh_token,
                column=REFRESH_COLUMN,
                project_id=self._project_id,
                row=self._name,
            )
            replaced = _REPLACED.validate_python(from_json(text))
            token = replaced["token"] if replaced["of"] == _digest(initial_token) else initial_token
        return RefreshClaim(row.refreshes, token)

    async def replace(self, claim: RefreshClaim, initial_token: str, token: str) -> None:
        """Store the new token, unless another process has stored a newer one."""
        sealed = seal_refresh(self._vault, self._project_id, self._name, initial_token, token)
        await self._end(claim, refresh_token=sealed, refreshes=claim.version + 1)

    async def release(self, claim: RefreshClaim) -> None:
        """Release the claim without replacing the token."""
        await self._end(claim)

    async def _end(self, claim: RefreshClaim, **values: Any) -> None:
        async def write() -> None:
            async with self._pool.begin() as tx:
                await _end_claim(tx, self._project_id, self._id, claim.version, **values)

        await retry_on_outage(write)  # A repeated write has the same result.


async def _claim_row(tx: Tx, project_id: ProjectId, id_: UUID) -> Any:
    until = mcp_servers.c.refresh_claimed_until
    claimed = await tx.execute(
        update(mcp_servers)
        .where(mcp_servers.c.project_id == project_id, mcp_servers.c.id == id_)
        .where(or_(until.is_(None), until < func.clock_timestamp()))
        .values(refresh_claimed_until=func.clock_timestamp() + CLAIM_DURATION)
        .returning(mcp_servers.c.refresh_token, mcp_servers.c.refreshes)
    )
    return claimed.one_or_none()


async def _end_claim(tx: Tx, project_id: ProjectId, id_: UUID, version: int, **values: Any) -> None:
    await tx.execute(
        update(mcp_servers)
        .where(mcp_servers.c.project_id == project_id, mcp_servers.c.id == id_)
        .where(mcp_servers.c.refreshes == version)
        .values(refresh_claimed_until=None, **values)
    )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
