"""A person's login to an MCP server: the authorization code grant with PKCE (RFC 6749, RFC 7636),
with dynamic registration of the client (RFC 7591) or a client ID metadata document.

`begin` and `finish` can run in different processes. `PendingLogin` connects them. Both functions
load the SDK.
"""

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, ValidationError

from runward.domain.errors import McpUnreachableError
from runward.domain.json import JsonObject, clean_text
from runward.domain.registry.mcp_auth import (
    AuthMethod,
    Login,
    LoginClient,
    OAuthClient,
    PendingLogin,
)
from runward.egress.client import Egress
from runward.tools.mcp import sdk
from runward.tools.mcp.http import NotAuthorizedError

if TYPE_CHECKING:
    from runward.tools.mcp.discovery import AuthorizationClient, AuthorizationServer

CALLBACK_PATH: Final = "/mcp/oauth/callback"
CLIENT_PATH: Final = "/mcp/oauth/client.json"
LOGIN_SECONDS: Final = 900.0
"""How long a person can take to log in."""
CLIENT_NAME: Final = "Runward"
_METHOD: Final = "client_secret_basic"
"""The default method of a client with a secret (RFC 7591, section 2)."""
_OFFLINE: Final = "offline_access"
_PROBE: Final[JsonObject] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
_PROBE_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}


@dataclass(frozen=True, slots=True)
class LoginStart:
    """A login that has begun. `url`: the page that a person opens."""

    url: str
    pending: PendingLogin


@dataclass(frozen=True, slots=True)
class LoginReturn:
    """The parameters with which the authorization server redirects the person's browser."""

    code: str
    issuer: str | None


class RegisteredClient(BaseModel):
    """The fields of RFC 7591, section 3.2.1, that Runward uses."""

    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None


def describe_client(public_url: str) -> dict[str, object]:
    """Return the client metadata of this deployment (RFC 7591, section 2)."""
    return {
        "client_name": CLIENT_NAME,
        "client_uri": public_url,
        "redirect_uris": [public_url + CALLBACK_PATH],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


async def begin(
    url: str,
    client: OAuthClient,
    egress: Egress,
    *,
    public_url: str,
    scope: str | None,
    make_state: Callable[[str], str],
) -> LoginStart:
    """Discover the authorization server of the MCP server at `url`, and return the login page.
    `scope`: scopes to request in addition. Raises McpUnreachableError."""
    await sdk.load()
    from mcp.client.auth.utils import union_scopes  # noqa: PLC0415

    from runward.tools.mcp.discovery import AuthorizationClient, discover_server  # noqa: PLC0415

    asking = AuthorizationClient(egress)
    secure = _is_secure(url)
    try:
        refused = await asking.request(
            "POST", url, secure=False, json=_PROBE, headers=_PROBE_HEADERS
        )
        server = await discover_server(url, refused, client, asking)
        wanted = union_scopes(client.scope or server.scope, scope)
        wanted = _add_offline_access(wanted, server)
        redirect_uri = public_url + CALLBACK_PATH
        made = await _choose_client(
            client, server, asking, public_url=public_url, scope=wanted, secure=secure
        )
    except NotAuthorizedError as error:
        raise McpUnreachableError(str(error), permanent=error.permanent) from error
    finally:
        await asking.aclose()
    nonce, verifier = secrets.token_urlsafe(16), secrets.token_urlsafe(48)
    pending = PendingLogin(
        **dict(made),
        nonce=nonce,
        verifier=verifier,
        redirect_uri=redirect_uri,
        expires_at=time() + LOGIN_SECONDS,
    )
    page = _authorization_url(server, secure=secure)
    return LoginStart(_with_query(page, _login_query(pending, make_state(nonce))), pending)


async def finish(
    pending: PendingLogin, returned: LoginReturn, private_key: str | None, egress: Egress
) -> Login:
    """Exchange the code for tokens. Raises McpUnreachableError."""
    await sdk.load()
    from runward.tools.mcp.discovery import AuthorizationClient, TokenEndpoint  # noqa: PLC0415
    from runward.tools.mcp.oauth import request_token  # noqa: PLC0415

    if returned.issuer != pending.issuer and (returned.issuer or pending.requires_issuer):
        raise McpUnreachableError(
            "The response of the authorization server has the wrong `iss` (RFC 9207).",
            permanent=True,
        )
    method: AuthMethod = pending.auth_method or "client_secret_basic"
    audience = pending.issuer or pending.token_url
    endpoint = TokenEndpoint(pending.token_url, pending.resource, None, method, audience)
    client = OAuthClient(pending.client_id, pending.client_secret, private_key=private_key)
    form = {
        "grant_type": "authorization_code",
        "code": returned.code,
        "redirect_uri": pending.redirect_uri,
        "code_verifier": pending.verifier,
        "resource": pending.resource,
    }
    asking = AuthorizationClient(egress)
    try:
        token = await request_token(
            asking, endpoint, client, form, secure=_is_secure(pending.resource)
        )
    except NotAuthorizedError as error:
        raise McpUnreachableError(str(error), permanent=error.permanent) from error
    finally:
        await asking.aclose()
    lifetime = token.expires_in
    kept = pending.model_dump(include=set(LoginClient.model_fields))
    return Login.model_validate(
        kept
        | {
            "scope": token.scope or pending.scope,
            "access_token": token.access_token,
            "expires_at": None if lifetime is None else time() + max(0, lifetime),
            "refresh_token": token.refresh_token,
            "logged_in_at": datetime.now(UTC),
        }
    )


def is_same_nonce(pending: PendingLogin, nonce: str) -> bool:
    """Return whether the login has this nonce and has not expired."""
    return hmac.compare_digest(pending.nonce.encode(), nonce.encode()) and (
        time() < pending.expires_at
    )


async def _choose_client(
    client: OAuthClient,
    server: "AuthorizationServer",
    asking: "AuthorizationClient",
    *,
    public_url: str,
    scope: str | None,
    secure: bool,
) -> LoginClient:
    """Return the configured client, the deployment's metadata document, or a client that Runward
    registers now, in this order. Raises NotAuthorizedError."""
    from runward.tools.mcp.discovery import choose_method  # noqa: PLC0415

    metadata = server.metadata
    token_url = metadata.token_endpoint if metadata else f"{server.origin}/token"
    offered = metadata.token_endpoint_auth_methods_supported if metadata else None
    if client.client_id:
        method = client.auth_method or choose_method(offered or ["client_secret_basic"])
        made = RegisteredClient(client_id=client.client_id, client_secret=client.client_secret)
    elif metadata and metadata.client_id_metadata_document_supported and _is_secure(public_url):
        method, made = None, RegisteredClient(client_id=public_url + CLIENT_PATH)
    else:
        wanted = "none" if offered and "none" in offered else choose_method(offered or []) or "none"
        place = metadata.registration_endpoint if metadata else f"{server.origin}/register"
        made = await _register(place, asking, public_url, wanted, scope, secure=secure)
        given = made.token_endpoint_auth_method or (
            wanted if wanted != "none" or made.client_secret is None else _METHOD
        )
        method = choose_method([given])
        if method is None:  # The client is public.
            made = made.model_copy(update={"client_secret": None})
    return LoginClient(
        client_id=made.client_id,
        client_secret=made.client_secret,
        auth_method=None if made.client_secret is None else method,
        token_url=token_url,
        issuer=metadata.issuer if metadata else None,
        requires_issuer=bool(metadata and metadata.authorization_response_iss_parameter_supported),
        resource=server.resource,
        scope=scope,
    )


async def _register(
    place: str | None,
    asking: "AuthorizationClient",
    public_url: str,
    method: str,
    scope: str | None,
    *,
    secure: bool,
) -> RegisteredClient:
    """Register Runward at the authorization server (RFC 7591). Raises NotAuthorizedError."""
    if place is None:
        raise NotAuthorizedError(
            "The authorization server does not let clients register themselves. Register Runward "
            f"there with the redirect URI {public_url}{CALLBACK_PATH}, and set `oauth.client_id`.",
            permanent=True,
        )
    about = describe_client(public_url) | {"token_endpoint_auth_method": method}
    if scope is not None:
        about["scope"] = scope
    answer = await asking.request("POST", place, secure=secure, json=about)
    host = urlsplit(place).netloc
    if answer.status_code not in (200, 201):
        detail = f"{host} did not register Runward as a client: HTTP {answer.status_code}."
        raise NotAuthorizedError(detail, permanent=answer.status_code < 500)
    try:
        return RegisteredClient.model_validate_json(answer.content)
    except ValidationError as error:
        detail = f"The response of {host} is not a registered client (RFC 7591, section 3.2.1)."
        raise NotAuthorizedError(detail, permanent=True) from error


def _add_offline_access(scope: str | None, server: "AuthorizationServer") -> str | None:
    """Add the scope for refresh tokens if the authorization server supports it."""
    supported = server.metadata.scopes_supported if server.metadata else None
    if scope is None or _OFFLINE not in (supported or ()) or _OFFLINE in scope.split():
        return scope
    return f"{scope} {_OFFLINE}"


def _authorization_url(server: "AuthorizationServer", *, secure: bool) -> str:
    """Return the authorization endpoint. Raises McpUnreachableError."""
    metadata = server.metadata
    url = metadata.authorization_endpoint if metadata else f"{server.origin}/authorize"
    if url is None:
        text = "The authorization server has no authorization endpoint, so nobody can log in."
        raise McpUnreachableError(text, permanent=True)
    methods = ["S256"] if metadata is None else metadata.code_challenge_methods_supported or []
    if "S256" not in methods:
        text = "The authorization server does not support PKCE with S256."
        raise McpUnreachableError(text, permanent=True)
    if not url.lower().startswith("https://" if secure else ("https://", "http://")):
        text = f"The authorization endpoint {clean_text(url)[:300]} does not begin with https://."
        raise McpUnreachableError(text, permanent=True)
    return url


def _login_query(pending: PendingLogin, state: str) -> dict[str, str]:
    challenge = urlsafe_b64encode(sha256(pending.verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": pending.client_id,
        "redirect_uri": pending.redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": pending.resource,
    }
    if pending.scope:
        query["scope"] = pending.scope
        if _OFFLINE in pending.scope.split():
            query["prompt"] = "consent"  # OpenID Connect Core, section 11
    return query


def _with_query(url: str, query: dict[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}"


def _is_secure(url: str) -> bool:
    return url.lower().startswith("https://")
