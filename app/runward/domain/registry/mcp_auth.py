"""Credentials for an MCP server, and the project's secrets that they refer to. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Protocol, TypeAlias

from pydantic import Field

from runward.domain.errors import FieldError
from runward.domain.registry.tools import Frozen, SecretReference

_PRINTABLE: Final = r"^[\x20-\x7e]+$"
"""The characters of OAuth IDs, secrets and tokens (RFC 6749, appendix A)."""
_SCOPE: Final = r"^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$"

Grant: TypeAlias = Literal["client_credentials", "refresh_token"]
AuthMethod: TypeAlias = Literal["client_secret_basic", "client_secret_post"]


OAuthSecret: TypeAlias = (
    Annotated[str, Field(min_length=1, max_length=16_384, pattern=_PRINTABLE)] | SecretReference
)


class OAuth(Frozen):
    """OAuth 2.1 credentials that Runward uses to fetch access tokens for an MCP server. The grant
    type is `refresh_token` if a refresh token is set, and `client_credentials` otherwise."""

    client_id: Annotated[str, Field(min_length=1, max_length=2048, pattern=_PRINTABLE)]
    """Client ID of Runward at the authorization server."""
    client_secret: OAuthSecret | None = None
    """Client secret, or a reference to a secret of the project. Required if no refresh token is
    set."""
    refresh_token: OAuthSecret | None = None
    """Refresh token, or a reference to a secret of the project. Null: Runward uses the grant
    `client_credentials`."""
    token_url: Annotated[str, Field(max_length=2048)] | None = None
    """URL of the token endpoint. Null: Runward discovers it from the MCP server's metadata."""
    issuer: Annotated[str, Field(max_length=2048)] | None = None
    """Issuer of the only authorization server that may receive the credentials. Not allowed with
    `token_url`. Null: the authorization server that the MCP server names."""
    scope: Annotated[str, Field(max_length=4096, pattern=_SCOPE)] | None = None
    """Scopes to request, separated by spaces. Null: the scopes that the MCP server names."""
    token_endpoint_auth_method: AuthMethod | None = None
    """How Runward sends the client secret to the token endpoint. Null: Runward chooses a method
    that the authorization server supports."""


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """The client of `OAuth`, with the values of its secrets."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    token_url: str | None = None
    issuer: str | None = None
    scope: str | None = None
    auth_method: AuthMethod | None = None

    @property
    def grant(self) -> Grant:
        return "client_credentials" if self.refresh_token is None else "refresh_token"


@dataclass(frozen=True, slots=True)
class RefreshClaim:
    """The right to use the newest refresh token, which may be valid only once. `version` counts its
    replacements."""

    version: int
    token: str = field(repr=False)


class RefreshTokens(Protocol):
    """Stores the newest refresh token of a server. `initial_token` is the token that the project
    configured."""

    async def claim(self, initial_token: str) -> RefreshClaim | None:
        """Claim the newest token. Returns None if another process holds the claim. Raises
        AppError."""
        ...

    async def replace(self, claim: RefreshClaim, initial_token: str, token: str) -> None: ...

    async def release(self, claim: RefreshClaim) -> None: ...


class UnstoredRefreshTokens:
    """The refresh tokens of a server that is not stored yet. `newest` is the last token that
    replaced the configured one."""

    def __init__(self) -> None:
        self.newest: str | None = None

    async def claim(self, initial_token: str) -> RefreshClaim:
        return RefreshClaim(0, self.newest or initial_token)

    async def replace(self, claim: RefreshClaim, initial_token: str, token: str) -> None:
        self.newest = token

    async def release(self, claim: RefreshClaim) -> None:
        pass


@dataclass(frozen=True, slots=True)
class ResolvedCredentials:
    """The `Credentials` with the values of their secrets."""

    headers: dict[str, str] = field(repr=False)
    oauth: OAuthClient | None


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials in the form in which the project registered them: values, and references to its
    secrets."""

    headers: Mapping[str, str | SecretReference] = field(repr=False)
    oauth: OAuth | None = field(default=None, repr=False)

    def references(self) -> Iterator[tuple[str, str]]:
        """Yield the path of each reference, and the name of its secret."""
        for path, value in self._secrets():
            if isinstance(value, SecretReference):
                yield f"{path}.secret", value.secret

    def literal_fields(self) -> set[str]:
        """Return the fields with values instead of references. Such values belong to one server."""
        held = (path for path, value in self._secrets() if isinstance(value, str))
        return {path.partition(".")[0] for path in held}

    def resolve(self, secrets: Mapping[str, str]) -> ResolvedCredentials:
        """Return the credentials with the secrets' values. Raises KeyError for a missing secret."""
        oauth = self.oauth
        headers = {name: _resolve_value(one, secrets) for name, one in self.headers.items()}
        if oauth is None:
            return ResolvedCredentials(headers, None)
        client = OAuthClient(
            oauth.client_id,
            None if oauth.client_secret is None else _resolve_value(oauth.client_secret, secrets),
            None if oauth.refresh_token is None else _resolve_value(oauth.refresh_token, secrets),
            oauth.token_url,
            oauth.issuer,
            oauth.scope,
            oauth.token_endpoint_auth_method,
        )
        return ResolvedCredentials(headers, client)

    def _secrets(self) -> Iterator[tuple[str, str | SecretReference]]:
        for name, value in self.headers.items():
            yield f"headers.{name[:128]}", value
        if self.oauth is not None:
            for name in ("client_secret", "refresh_token"):
                if (given := getattr(self.oauth, name)) is not None:
                    yield f"oauth.{name}", given


def oauth_problems(client: OAuthClient) -> list[FieldError]:
    """Return the errors of the client that do not depend on the authorization server."""
    secrets = {
        "oauth.client_secret": client.client_secret,
        "oauth.refresh_token": client.refresh_token,
    }
    problems = [
        FieldError(path, "must be printable ASCII on one line")
        for path, value in secrets.items()
        if value is not None and not re.fullmatch(_PRINTABLE, value)
    ]
    if client.client_secret is None and client.refresh_token is None:
        problems.append(
            FieldError(
                "oauth.client_secret",
                "is required unless `refresh_token` is set; Runward does not "
                "support login with a browser",
            )
        )
    if client.token_url is not None and client.issuer is not None:
        problems.append(FieldError("oauth.issuer", "must be omitted if `token_url` is set"))
    return problems


def _resolve_value(given: str | SecretReference, secrets: Mapping[str, str]) -> str:
    return given if isinstance(given, str) else given.resolve(secrets)
