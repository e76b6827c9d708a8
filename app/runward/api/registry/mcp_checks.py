"""Checks of an MCP server before it is stored: its fields, the secrets that it names, and a
connection to the server."""

from typing import Any
from urllib.parse import urlsplit

from runward.api.registry.mcp_server_models import UpdateMcpServer
from runward.api.registry.tool_checks import find_missing_secrets
from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId
from runward.domain.registry.mcp_auth import (
    Credentials,
    RefreshTokens,
    ResolvedCredentials,
    UnstoredRefreshTokens,
)
from runward.domain.registry.mcp_servers import ListedTool, McpServerSpec
from runward.domain.registry.tools import CelRule
from runward.egress.addresses import TargetError
from runward.services import Registry, Storage
from runward.store.access.secrets import read_secrets
from runward.store.postgres.db import mint
from runward.store.registry import mcp_credentials
from runward.store.registry.mcp_credentials import StoredRefreshTokens
from runward.store.registry.mcp_servers import RegisteredServer
from runward.tools.mcp.session import (
    ConnectableServer,
    credential_problems,
    ensure_valid_credentials,
)


def apply_patch(
    storage: Storage, before: RegisteredServer, patch: UpdateMcpServer
) -> tuple[McpServerSpec, Credentials]:
    """Return the registration after the update. If the origin changes, it loses the secrets that
    were given as values. References to secrets stay, because the client that changes the URL can
    read the registration. Raises InvalidRequestError."""
    nullable = {"url", "command", "prefix", "approval", "timeout_seconds", "oauth"}
    nulls = {name for name in patch.model_fields_set if getattr(patch, name) is None} - nullable
    if nulls:
        raise e.InvalidRequestError(
            errors=[FieldError(name, "must not be null") for name in sorted(nulls)]
        )
    spec = patch.apply_to(before.spec)
    former = before.credentials(storage.vault)
    given: dict[str, Any] = {"headers": former.headers, "oauth": former.oauth}
    again = {name: getattr(patch, name) for name in given.keys() & patch.model_fields_set}
    if _parse_origin(spec.url) != _parse_origin(before.spec.url):
        kept = former.literal_fields() - again.keys()
        if kept:
            message = "must be set again (or set to {} or null) if the origin of `url` changes"
            raise e.InvalidRequestError(errors=[FieldError(at, message) for at in sorted(kept)])
    return spec, Credentials(**(given | again))


async def check_server(
    storage: Storage,
    registry: Registry,
    project_id: ProjectId,
    spec: McpServerSpec,
    credentials: Credentials,
) -> ResolvedCredentials:
    """Check a server, and return its credentials. Raises InvalidRequestError that names every
    invalid path."""
    if "mcp" not in registry.executors:
        raise e.InvalidRequestError(
            errors=[
                FieldError(
                    "name",
                    "MCP support is not installed; the operator must install the extra "
                    "`runward[mcp]`",
                )
            ]
        )
    filled = await _resolve_credentials(storage, project_id, credentials)
    errors: list[FieldError] = []
    if (spec.url is None) == (spec.command is None):
        errors.append(
            FieldError("url", "is required unless `command` is set; set exactly one of them")
        )
    elif spec.url is not None:
        errors += await _check_http(registry, spec, spec.url, filled)
    else:
        errors += _check_command(registry, spec, credentials)
    if isinstance(spec.approval, CelRule):
        problem = await registry.find_rule_problem(project_id, spec.approval.when)
        if problem is not None:
            errors.append(FieldError("approval.when", problem))
    if errors:
        raise e.InvalidRequestError(errors=errors)
    return filled


async def read_credentials(storage: Storage, server: RegisteredServer) -> ResolvedCredentials:
    """Return the credentials of a registered server. Raises McpUnreachableError if a secret is
    missing or cannot be sent. The error names the secret."""
    return await fill_credentials(storage, server, server.credentials(storage.vault))


async def fill_credentials(
    storage: Storage, server: RegisteredServer, given: Credentials
) -> ResolvedCredentials:
    """Return the credentials with the values of secrets. Raises McpUnreachableError."""
    async with storage.connect() as tx:
        filled = await mcp_credentials.fill_secrets(
            tx, storage.vault, server.project_id, server.spec.name, given
        )
    ensure_valid_credentials(server.spec, filled)
    return filled


async def list_tools(
    registry: Registry,
    project_id: ProjectId,
    spec: McpServerSpec,
    filled: ResolvedCredentials,
    tokens: RefreshTokens,
) -> tuple[ListedTool, ...]:
    """Return the tools that the server lists. Raises McpUnreachableError."""
    server = ConnectableServer(
        project_id, mint(), 0, spec, filled.headers, filled.oauth, refresh_tokens=tokens
    )
    return await registry.list_mcp_tools(server)


async def list_first_tools(
    registry: Registry,
    project_id: ProjectId,
    spec: McpServerSpec,
    filled: ResolvedCredentials,
    tokens: RefreshTokens,
) -> tuple[ListedTool, ...]:
    """Return the tools that the server lists, or none if a person must first log in. Raises
    McpUnreachableError."""
    if filled.oauth is not None and filled.oauth.needs_login:
        return ()
    return await list_tools(registry, project_id, spec, filled, tokens)


def make_token_store(storage: Storage, server: RegisteredServer) -> StoredRefreshTokens:
    database = storage.database
    return StoredRefreshTokens(
        database.pool, storage.vault, server.project_id, server.spec.name, server.id
    )


async def choose_token_store(
    storage: Storage, before: RegisteredServer, filled: ResolvedCredentials
) -> RefreshTokens:
    """Return the stored refresh tokens if the configured refresh token has not changed."""
    try:
        former = (await read_credentials(storage, before)).oauth
    except e.McpUnreachableError:  # A secret that the token refers to was deleted.
        former = None
    given = filled.oauth.refresh_token if filled.oauth else None
    if former is not None and former.refresh_token == given:
        return make_token_store(storage, before)
    return UnstoredRefreshTokens()


def seal_newest_token(
    storage: Storage,
    project_id: ProjectId,
    spec: McpServerSpec,
    filled: ResolvedCredentials,
    tokens: RefreshTokens,
) -> bytes | None:
    """Return the newest refresh token, sealed. None: listing the tools created no new token, or it
    is already stored."""
    given = filled.oauth.refresh_token if filled.oauth else None
    if given is None or not isinstance(tokens, UnstoredRefreshTokens) or tokens.newest is None:
        return None
    return mcp_credentials.seal_refresh(storage.vault, project_id, spec.name, given, tokens.newest)


async def _resolve_credentials(
    storage: Storage, project_id: ProjectId, credentials: Credentials
) -> ResolvedCredentials:
    """Replace references by the values of secrets. Raises InvalidRequestError."""
    references = dict(credentials.references())
    async with storage.connect() as tx:
        found = await read_secrets(tx, storage.vault, project_id, set(references.values()))
    missing = find_missing_secrets(references, found)
    if missing:
        raise e.InvalidRequestError(errors=missing)
    return credentials.resolve(found)


async def _check_http(
    registry: Registry, spec: McpServerSpec, url: str, filled: ResolvedCredentials
) -> list[FieldError]:
    errors: list[FieldError] = []
    targets = {"url": url}
    if filled.oauth is not None and filled.oauth.token_url is not None:
        targets["oauth.token_url"] = filled.oauth.token_url
    for path, target in targets.items():
        try:
            await registry.check_target(target)
        except TargetError as error:
            errors.append(FieldError(path, str(error)))
    if spec.args:
        errors.append(
            FieldError(
                "args", "must be omitted, because only a server with `command` has arguments"
            )
        )
    return errors + credential_problems(filled)


def _check_command(
    registry: Registry, spec: McpServerSpec, credentials: Credentials
) -> list[FieldError]:
    needless = {
        "headers": credentials.headers,
        "oauth": credentials.oauth,
    }
    errors = [
        FieldError(at, "must be omitted, because only a server with `url` can have this field")
        for at, value in needless.items()
        if value
    ]
    if (refusal := registry.find_command_problem(spec)) is not None:
        errors.append(FieldError("command", refusal))
    return errors


def _parse_origin(url: str | None) -> tuple[str, str] | None:
    parts = urlsplit(url or "")
    return (parts.scheme, parts.netloc) if url else None
