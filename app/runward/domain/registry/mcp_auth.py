"""Credentials for an MCP server, and the project's secrets that they refer to. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Final, Literal, Protocol, TypeAlias
from uuid import UUID

from pydantic import Field

from runward.domain.audit import ActorType
from runward.domain.errors import FieldError
from runward.domain.registry.tools import Frozen, SecretReference

_PRINTABLE: Final = r"^[\x20-\x7e]+$"
"""The characters of OAuth IDs, secrets and tokens (RFC 6749, appendix A)."""
SCOPE_PATTERN: Final = r"^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$"

Grant: TypeAlias = Literal["client_credentials", "refresh_token", "authorization_code"]
AuthMethod: TypeAlias = Literal["client_secret_basic", "client_secret_post"]
LoginStatus: TypeAlias = Literal["required", "pending", "logged_in", "expired"]


OAuthSecret: TypeAlias = (
    Annotated[str, Field(min_length=1, max_length=16_384, pattern=_PRINTABLE)] | SecretReference
)


class OAuth(Frozen):
    """OAuth 2.1 credentials that Runward uses to fetch access tokens for an MCP server."""

    grant_type: Grant | None = None
    """How Runward gets access tokens. `authorization_code`: a person logs in with a browser. Null:
    `refresh_token` if a refresh token is set, and `client_credentials` otherwise."""
    client_id: Annotated[str, Field(min_length=1, max_length=2048, pattern=_PRINTABLE)] | None = (
        None
    )
    """Client ID of Runward at the authorization server. Required unless `grant_type` is
    `authorization_code`. Null: Runward registers itself when a person logs in."""
    client_secret: OAuthSecret | None = None
    """Client secret, or a reference to a secret of the project. Required for the grant
    `client_credentials` unless `private_key` is set."""
    private_key: Annotated[str, Field(min_length=1, max_length=16_384)] | SecretReference | None = (
        None
    )
    """Private key in PEM format, or a reference to a secret of the project. Runward signs a JWT
    with it to authenticate at the token endpoint (`private_key_jwt`)."""
    refresh_token: OAuthSecret | None = None
    """Refresh token, or a reference to a secret of the project. Null: Runward uses the grant
    `client_credentials`."""
    token_url: Annotated[str, Field(max_length=2048)] | None = None
    """URL of the token endpoint. Null: Runward discovers it from the MCP server's metadata."""
    issuer: Annotated[str, Field(max_length=2048)] | None = None
    """Issuer of the only authorization server that may receive the credentials. Not allowed with
    `token_url`. Null: the authorization server that the MCP server names."""
    scope: Annotated[str, Field(max_length=4096, pattern=SCOPE_PATTERN)] | None = None
    """Scopes to request, separated by spaces. Null: the scopes that the MCP server names."""
    token_endpoint_auth_method: AuthMethod | None = None
    """How Runward sends the client secret to the token endpoint. Null: Runward chooses a method
    that the authorization server supports."""


class LoginClient(Frozen):
    """The client of a login, and the authorization server that it belongs to."""

    client_id: str
    client_secret: str | None = None
    auth_method: AuthMethod | None = None
    """How the client secret is sent. None: there is no client secret."""
    token_url: str
    issuer: str | None = None
    """None: the authorization server publishes no metadata."""
    requires_issuer: bool = False
    """Whether the redirect must contain `iss` (RFC 9207)."""
    resource: str
    scope: str | None = None


class PendingLogin(LoginClient):
    """A login that a person has not completed yet. `nonce` is a part of its `state`."""

    nonce: str
    verifier: str
    """The code verifier (RFC 7636)."""
    redirect_uri: str
    expires_at: float
    """Seconds since the epoch."""
    return_to_console: bool = False
    """Whether the browser shows the server in the console after the login."""
    started_by: ActorType | None = None
    """Whether an API key or a console session started the login. None: unknown, as are the ID and
    the name of the key."""
    key_id: UUID | None = None
    key_name: str | None = None


class Login(LoginClient):
    """The tokens of a completed login."""

    access_token: str
    expires_at: float | None = None
    """When the access token expires, in seconds since the epoch. None: unknown."""
    refresh_token: str | None = None
    logged_in_at: datetime


class StoredOAuth(OAuth):
    """`OAuth` as it is stored, with the state of the login."""

    pending: PendingLogin | None = None
    login: Login | None = None
    login_error: str | None = None
    """The error of the last login. None: it succeeded, or it is not complete."""

    def find_login_status(self, now: float) -> LoginStatus:
        """Return the status of the login at `now`, in seconds since the epoch."""
        login = self.login
        if login is not None:
            over = login.expires_at is not None and login.expires_at <= now
            return "expired" if over and login.refresh_token is None else "logged_in"
        is_pending = self.pending is not None and now < self.pending.expires_at
        return "pending" if is_pending else "required"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """`expires_at` is in seconds since the epoch, or None if it is unknown."""

    value: str = field(repr=False)
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """`OAuth` with the values of its secrets. `access_token` and `resource` come from a login."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    token_url: str | None = None
    issuer: str | None = None
    scope: str | None = None
    auth_method: AuthMethod | None = None
    private_key: str | None = field(default=None, repr=False)
    grant_type: Grant | None = None
    access_token: AccessToken | None = None
    resource: str | None = None

    @property
    def needs_login(self) -> bool:
        """Whether a person must log in before the first connection."""
        return self.grant_type == "authorization_code" and self.resource is None

    @property
    def grant(self) -> Grant:
        """Return the grant of the next token request. After a login it is `refresh_token` if the
        login returned a refresh token."""
        if self.refresh_token is not None:
            return "refresh_token"
        return self.grant_type or "client_credentials"


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


OAUTH_SECRETS: Final = ("client_secret", "refresh_token", "private_key")


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
        held = {path.partition(".")[0] for path, one in self._secrets() if isinstance(one, str)}
        if isinstance(self.oauth, StoredOAuth) and self.oauth.login is not None:
            held.add("oauth")
        return held

    def resolve(self, secrets: Mapping[str, str]) -> ResolvedCredentials:
        """Return the credentials with the secrets' values. Raises KeyError for a missing secret."""
        oauth = self.oauth
        headers = {name: _resolve_value(one, secrets) for name, one in self.headers.items()}
        if oauth is None:
            return ResolvedCredentials(headers, None)
        login = oauth.login if isinstance(oauth, StoredOAuth) else None
        client = OAuthClient(
            oauth.client_id or "",
            _resolve_optional(oauth.client_secret, secrets),
            _resolve_optional(oauth.refresh_token, secrets),
            oauth.token_url,
            oauth.issuer,
            oauth.scope,
            oauth.token_endpoint_auth_method,
            _resolve_optional(oauth.private_key, secrets),
            oauth.grant_type,
        )
        if login is not None:
            client = _add_login(client, login)
        return ResolvedCredentials(headers, client)

    def _secrets(self) -> Iterator[tuple[str, str | SecretReference]]:
        for name, value in self.headers.items():
            yield f"headers.{name[:128]}", value
        if self.oauth is not None:
            for name in OAUTH_SECRETS:
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
    if client.grant_type == "authorization_code":
        return problems + _login_problems(client)
    if not client.client_id:
        problems.append(
            FieldError("oauth.client_id", "is required unless `grant_type` is authorization_code")
        )
    if client.grant_type == "client_credentials" and client.refresh_token is not None:
        problems.append(
            FieldError("oauth.refresh_token", "must be omitted for the grant client_credentials")
        )
    if client.grant_type == "refresh_token" and client.refresh_token is None:
        problems.append(FieldError("oauth.refresh_token", "is required for this grant"))
    if client.client_secret is None and client.private_key is None and client.refresh_token is None:
        problems.append(
            FieldError(
                "oauth.client_secret",
                "is required unless `refresh_token` or `private_key` is set, or a person logs in "
                "(`grant_type` is authorization_code)",
            )
        )
    if client.token_url is not None and client.issuer is not None:
        problems.append(FieldError("oauth.issuer", "must be omitted if `token_url` is set"))
    return problems


def _login_problems(client: OAuthClient) -> list[FieldError]:
    if client.resource is not None:  # The values come from a completed login.
        return []
    needless = {"refresh_token": client.refresh_token, "token_url": client.token_url}
    return [
        FieldError(f"oauth.{name}", "must be omitted, because a login sets it")
        for name, value in needless.items()
        if value is not None
    ]


def _add_login(client: OAuthClient, login: Login) -> OAuthClient:
    return replace(
        client,
        client_id=login.client_id,
        client_secret=login.client_secret,
        refresh_token=login.refresh_token,
        token_url=login.token_url,
        issuer=None,
        scope=login.scope,
        auth_method=login.auth_method,
        access_token=AccessToken(login.access_token, login.expires_at),
        resource=login.resource,
    )


def _resolve_optional(
    given: str | SecretReference | None, secrets: Mapping[str, str]
) -> str | None:
    return None if given is None else _resolve_value(given, secrets)


def _resolve_value(given: str | SecretReference, secrets: Mapping[str, str]) -> str:
    return given if isinstance(given, str) else given.resolve(secrets)
