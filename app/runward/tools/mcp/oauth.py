"""Access tokens for MCP servers (OAuth 2.1), and the transport that sends them.

The SDK's authorization provider holds a lock until each response arrives, so the calls of one
session would wait for each other. Runward uses its parts in `runward.tools.mcp.discovery` and
requests the tokens itself. Tokens are kept in memory for one session.

This module and `runward.tools.mcp.discovery` load the SDK. They are imported when a session needs
them.
"""

import asyncio
import base64
from time import monotonic, time
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import httpx2
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_scope_from_www_auth,
    union_scopes,
)
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError
from pydantic_core import from_json

from runward.domain.errors import AppError
from runward.domain.json import clean_text
from runward.domain.registry.mcp_auth import OAuthClient, RefreshClaim, RefreshTokens
from runward.domain.registry.redaction import without_secret
from runward.egress.client import Egress
from runward.tools.mcp.discovery import (
    ANSWER_SECONDS,
    AuthorizationClient,
    TokenEndpoint,
    discover_endpoint,
    known_endpoint,
)
from runward.tools.mcp.http import NotAuthorizedError

RENEW_SECONDS: Final = 30.0
"""A token is replaced this many seconds before it expires, or after half of its lifetime if that is
short."""
CLAIM_SECONDS: Final = 25.0
"""Maximum seconds for which another process can hold the refresh token."""
MAX_LIFETIME: Final = 365 * 86_400
"""The largest lifetime in seconds. `expires_in` may be a number that no float can hold."""
ASSERTION_SECONDS: Final = 60
"""The lifetime of a signed assertion."""
LOGIN_REQUIRED: Final = (
    "A person must log in to the MCP server. To get the address of the login page, call "
    "POST /v1/mcp_servers/{name}/login."
)
_SECRET_FIELDS: Final = ("refresh_token", "client_assertion", "code", "code_verifier")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_LOOK_AGAIN_SECONDS: Final = 0.2
_MAX_SAID: Final = 300


class AccessTokens:
    """The access tokens of one session with the MCP server at `url`.

    Concurrent callers wait for the same request. It continues when they are cancelled, because a
    refresh token that was replaced must not be lost. Close it with `aclose`.
    """

    def __init__(
        self, url: str, client: OAuthClient, refresh_tokens: RefreshTokens, egress: Egress
    ) -> None:
        self._url = url
        self._client = client
        self._refresh_tokens = refresh_tokens
        self._asking = AuthorizationClient(egress)
        self._endpoint = known_endpoint(url, client)
        self._scope = client.scope
        given = client.access_token
        self._token = None if given is None else given.value
        self._renew_at: float | None = None
        if given is not None and given.expires_at is not None:
            self._renew_at = _renewal(given.expires_at - time())
        self._fetching: asyncio.Task[str] | None = None
        self._refusal: NotAuthorizedError | None = None

    async def current(self) -> str | None:
        """Return a valid token, or None if the token endpoint is not known because the server has
        not refused a request yet. Raises NotAuthorizedError."""
        if self._endpoint is None:
            return None
        if self._token is None or (self._renew_at is not None and monotonic() >= self._renew_at):
            return await self._shared_fetch(None)
        return self._token

    async def replace(self, token: str | None, response: httpx2.Response) -> str:
        """Return a token that replaces `token`, which got the 401 `response`. Raises
        NotAuthorizedError."""
        if self._token is not None and self._token != token:
            return self._token
        return await self._shared_fetch(response)

    async def step_up(self, token: str | None, response: httpx2.Response) -> str:
        """Return a token with the scope that `response` demands, a 403 with `insufficient_scope`
        (RFC 6750, section 3.1). Raises NotAuthorizedError, unless Runward can request the scope
        without a person."""
        wanted = union_scopes(self._scope, extract_scope_from_www_auth(response))
        if self._client.grant != "client_credentials" or wanted in (None, self._scope):
            raise NotAuthorizedError(
                f"HTTP 403: the access token has an insufficient scope. {_explain_scope(wanted)}",
                permanent=True,
            )
        self._scope = wanted
        return await self.replace(token, response)

    async def aclose(self) -> None:
        if self._fetching is not None:
            await asyncio.wait({self._fetching}, timeout=ANSWER_SECONDS)
        if self._fetching is not None:
            self._fetching.cancel()
        await self._asking.aclose()

    async def _shared_fetch(self, refused: httpx2.Response | None) -> str:
        if self._refusal is not None:
            raise self._refusal
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch(refused))
            self._fetching.add_done_callback(self._done)
        return await asyncio.shield(self._fetching)

    def _done(self, task: asyncio.Task[str]) -> None:
        self._fetching = None
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, NotAuthorizedError) and error.permanent:
            self._refusal = error

    async def _fetch(self, refused: httpx2.Response | None) -> str:
        if self._client.grant == "authorization_code":
            raise NotAuthorizedError(LOGIN_REQUIRED, permanent=True)
        if self._endpoint is None:
            assert refused is not None
            self._endpoint = await discover_endpoint(self._url, refused, self._client, self._asking)
        given = self._client.refresh_token
        if given is None:
            token = await self._request_token(self._endpoint, None)
        else:
            token = await self._refresh(self._endpoint, given)
        self._token = token.access_token
        self._renew_at = None if token.expires_in is None else _renewal(token.expires_in)
        return token.access_token

    async def _refresh(self, endpoint: TokenEndpoint, given: str) -> OAuthToken:
        claim = await self._claim(given)
        try:
            token = await self._request_token(endpoint, claim.token)
        except BaseException:
            await self._refresh_tokens.release(claim)
            raise
        if token.refresh_token and token.refresh_token != claim.token:
            await self._refresh_tokens.replace(claim, given, token.refresh_token)
        else:
            await self._refresh_tokens.release(claim)
        return token

    async def _claim(self, given: str) -> RefreshClaim:
        try:
            async with asyncio.timeout(CLAIM_SECONDS):
                while True:
                    if (claim := await self._refresh_tokens.claim(given)) is not None:
                        return claim
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        except TimeoutError as error:
            detail = "Another process is still using the refresh token."
            raise NotAuthorizedError(detail) from error
        except AppError as error:
            raise NotAuthorizedError(error.detail) from error

    async def _request_token(
        self, endpoint: TokenEndpoint, refresh_token: str | None
    ) -> OAuthToken:
        """Request a token (RFC 6749, sections 4.4 and 6; RFC 8707). Raises NotAuthorizedError."""
        client = self._client
        form = {"grant_type": client.grant, "resource": endpoint.resource}
        scope = self._scope or (endpoint.scope if refresh_token is None else None)
        if scope and client.resource is None:  # A refresh keeps the scope of a login.
            form["scope"] = scope
        if refresh_token is not None:
            form["refresh_token"] = refresh_token
        secure = client.token_url is None and self._url.lower().startswith("https://")
        return await request_token(self._asking, endpoint, client, form, secure=secure)


async def request_token(
    asking: AuthorizationClient,
    endpoint: TokenEndpoint,
    client: OAuthClient,
    form: dict[str, str],
    *,
    secure: bool,
) -> OAuthToken:
    """Authenticate as `client` and request a token. Raises NotAuthorizedError."""
    headers: dict[str, str] = {}
    if client.private_key is not None:
        form |= {
            "client_id": client.client_id,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": await _sign(client.client_id, client.private_key, endpoint),
        }
    elif client.client_secret is None:
        form["client_id"] = client.client_id
    elif endpoint.auth_method == "client_secret_post":
        form |= {"client_id": client.client_id, "client_secret": client.client_secret}
    else:
        headers["Authorization"] = _basic(client.client_id, client.client_secret)
    answer = await asking.request(
        "POST", endpoint.token_url, secure=secure, data=form, headers=headers
    )
    host = urlsplit(endpoint.token_url).netloc
    if answer.status_code not in (200, 201):
        hidden = [client.client_secret, *(form.get(name) for name in _SECRET_FIELDS)]
        raise _refusal(host, answer, hidden)
    try:
        token = OAuthToken.model_validate_json(answer.content)
    except ValidationError as error:
        detail = f"The response of {host} is not a bearer token (RFC 6749, section 5.1)."
        raise NotAuthorizedError(detail, permanent=True) from error
    if not token.access_token.isascii() or not token.access_token.isprintable():
        detail = f"{host} returned a token with characters that are not allowed in a header."
        raise NotAuthorizedError(detail, permanent=True)
    return token


class AuthorizingTransport(httpx2.AsyncBaseTransport):
    """A transport that adds an access token to each request, and retries once with a new one after
    a 401."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, tokens: AccessTokens) -> None:
        self._inner = inner
        self._tokens = tokens

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request. Raises NotAuthorizedError, and the errors of the inner transport."""
        token = await self._tokens.current()
        response = await self._send(request, token)
        if response.status_code == 403 and _demands_scope(response):
            await response.aclose()
            return await self._send(request, await self._tokens.step_up(token, response))
        if response.status_code != 401:
            return response
        await response.aclose()
        fresh = await self._tokens.replace(token, response)
        response = await self._send(request, fresh)
        if response.status_code == 401:
            await response.aclose()
            raise NotAuthorizedError(
                "HTTP 401: the server rejected a new access token.",
                permanent=True,
            )
        return response

    async def _send(self, request: httpx2.Request, token: str | None) -> httpx2.Response:
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._tokens.aclose()
        await self._inner.aclose()


def _demands_scope(response: httpx2.Response) -> bool:
    return extract_field_from_www_auth(response, "error") == "insufficient_scope"


def _explain_scope(wanted: str | None) -> str:
    shown = clean_text(wanted or "")[:_MAX_SAID]
    return (
        f"The server requires the scope '{shown}'. Set `oauth.scope`, or log in again with this "
        "scope: POST /v1/mcp_servers/{name}/login."
    )


def _renewal(lifetime: float) -> float:
    """Return when a token that expires in `lifetime` seconds is replaced, in monotonic time."""
    lifetime = min(max(lifetime, 0), MAX_LIFETIME)
    return monotonic() + lifetime - min(RENEW_SECONDS, lifetime / 2)


async def _sign(client_id: str, key: str, endpoint: TokenEndpoint) -> str:
    """Return a signed assertion (RFC 7523, section 2.2). Raises NotAuthorizedError."""
    from mcp.client.auth.extensions.client_credentials import (  # noqa: PLC0415  # loads PyJWT
        SignedJWTParameters,
    )

    try:
        parameters = SignedJWTParameters(
            issuer=client_id,
            subject=client_id,
            signing_key=key,
            signing_algorithm=_find_algorithm(key),
            lifetime_seconds=ASSERTION_SECONDS,
        )
        return await parameters.create_assertion_provider()(endpoint.audience)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        detail = "`oauth.private_key` must be an RSA, P-256, P-384, P-521 or Ed25519 key as PEM."
        raise NotAuthorizedError(detail, permanent=True) from error


def _find_algorithm(key: str) -> str:
    """Return the JWS algorithm of a private key in PEM format. Raises ValueError, TypeError and
    UnsupportedAlgorithm."""
    match load_pem_private_key(key.encode(), password=None):
        case RSAPrivateKey():
            return "RS256"
        case EllipticCurvePrivateKey(curve=curve) if curve.name in _CURVES:
            return _CURVES[curve.name]
        case Ed25519PrivateKey():
            return "EdDSA"
        case _:
            raise ValueError("the key has another type")


def _basic(client_id: str, client_secret: str) -> str:
    """Return the header for client_secret_basic. Both values are form-encoded first (RFC 6749,
    section 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _refusal(host: str, answer: httpx2.Response, hidden: list[str | None]) -> NotAuthorizedError:
    """Return the error of a token endpoint (RFC 6749, section 5.2) without the secrets."""
    status = answer.status_code
    said = "Runward does not follow redirects" if 300 <= status < 400 else _error(answer.content)
    for secret in hidden:
        if secret:
            said = without_secret(said, secret, "…")
            said = without_secret(said, quote(secret, safe=""), "…")
    detail = f"{host} did not return an access token: HTTP {status}{said and f', {said}'}."
    return NotAuthorizedError(detail, permanent=status < 500 and status not in (408, 429))


def _error(body: bytes) -> str:
    try:
        parsed = from_json(body)
    except ValueError:
        return ""
    if not isinstance(parsed, dict):
        return ""
    about = cast(dict[str, Any], parsed)
    said = [one for key in ("error", "error_description") if isinstance(one := about.get(key), str)]
    return " ".join(clean_text(": ".join(said)).split())[:_MAX_SAID].rstrip(".")
