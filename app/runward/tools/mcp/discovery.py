"""Discovery of an MCP server's authorization server, as in the MCP specification on authorization:
the server's 401 leads to its metadata (RFC 9728), these to the authorization server, and its
metadata (RFC 8414, OpenID Connect Discovery) to the token endpoint."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    handle_protected_resource_response,
    issuers_match,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import BaseModel, Field, ValidationError

from runward.domain.registry.mcp_auth import AuthMethod, OAuthClient
from runward.egress.addresses import TargetError
from runward.egress.client import Egress
from runward.egress.connections import RefusedAddressError
from runward.egress.responses import describe_error
from runward.tools.mcp.http import NotAuthorizedError

ANSWER_SECONDS: Final = 12.0
"""Seconds for one response, from DNS to its last byte."""
MAX_ANSWER_BYTES: Final = 262_144

_BASIC: Final[AuthMethod] = "client_secret_basic"
_METHODS: Final[tuple[AuthMethod, ...]] = (_BASIC, "client_secret_post")
_LOGIN_HINT: Final = (
    'Set `oauth.grant_type` to "authorization_code" to let a person log in, or set '
    "`oauth.refresh_token`."
)
_JWT: Final = "private_key_jwt"


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """An endpoint that issues tokens. `resource`: the server that the tokens are for (RFC 8707).
    `scope`: the scope that the server asks for. `audience`: the audience of signed assertions."""

    token_url: str
    resource: str
    scope: str | None
    auth_method: AuthMethod
    audience: str


class ServerMetadata(BaseModel):
    """The fields of RFC 8414, section 2, that Runward uses. The SDK's own model requires an
    `authorization_endpoint`, which a server without interactive login does not have."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    grant_types_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: Annotated[list[str], Field(min_length=1)] | None = None


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """The authorization server of an MCP server. `metadata`: None if it publishes none. `scope`:
    the scope that the MCP server asks for."""

    origin: str
    metadata: ServerMetadata | None
    resource: str
    scope: str | None


class AuthorizationClient:
    """A client for authorization servers that connects to checked addresses only. `secure`: allow
    only https."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._http = httpx2.AsyncClient(
            transport=egress.transport(),
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(ANSWER_SECONDS),
            trust_env=False,
            follow_redirects=False,
        )

    async def request(self, method: str, url: str, *, secure: bool, **sent: Any) -> httpx2.Response:
        """Return the whole response. Raises NotAuthorizedError."""
        host = ""
        try:
            host = urlsplit(url).netloc[:300]
            if secure and not url.lower().startswith("https://"):
                raise TargetError(
                    "The URL must begin with https://, because the URL of the MCP server does."
                )
            self._egress.check_url(url)
            async with asyncio.timeout(ANSWER_SECONDS):
                async with self._http.stream(method, url, **sent) as response:
                    return await _read_response(response)
        except (ValueError, httpx2.InvalidURL, RefusedAddressError) as error:
            detail = f"Runward must not request an access token from {host or url[:300]}: {error}"
            raise NotAuthorizedError(detail, permanent=True) from error
        except TimeoutError as error:
            detail = f"{host} did not answer within {ANSWER_SECONDS:g} seconds."
            raise NotAuthorizedError(detail) from error
        except (httpx2.TransportError, OSError) as error:
            detail = f"{host} did not answer: {describe_error(error)}"
            raise NotAuthorizedError(detail) from error

    async def get_metadata(self, url: str, *, secure: bool) -> httpx2.Response:
        """Return the response, which may be a refusal. Raises NotAuthorizedError."""
        response = await self.request("GET", url, secure=secure)
        if response.status_code == 429 or response.status_code >= 500:
            raise NotAuthorizedError(f"{url[:300]} answered HTTP {response.status_code}.")
        return response

    async def aclose(self) -> None:
        await self._http.aclose()


def known_endpoint(url: str, client: OAuthClient) -> TokenEndpoint | None:
    """Return the endpoint if the project configured its URL. `url` is the MCP server's."""
    if client.token_url is None:
        return None
    resource = client.resource or resource_url_from_server_url(url)
    method = client.auth_method or _BASIC
    return TokenEndpoint(client.token_url, resource, None, method, client.token_url)


async def discover_endpoint(
    url: str, response: httpx2.Response, client: OAuthClient, asking: AuthorizationClient
) -> TokenEndpoint:
    """Return the endpoint that the server's metadata names. `response` is the MCP server's 401.
    Raises NotAuthorizedError."""
    server = await discover_server(url, response, client, asking)
    metadata = server.metadata
    if metadata is None:
        raise NotAuthorizedError(
            "Runward found no token endpoint, because neither the MCP server nor its origin has "
            "valid OAuth metadata. Set `oauth.token_url`.",
            permanent=True,
        )
    _check_grant(metadata, client)
    method = _method(metadata, client)
    return TokenEndpoint(
        metadata.token_endpoint, server.resource, server.scope, method, metadata.issuer
    )


async def discover_server(
    url: str, response: httpx2.Response, client: OAuthClient, asking: AuthorizationClient
) -> AuthorizationServer:
    """Return the authorization server of the MCP server at `url`. `response` is the MCP server's
    401. Raises NotAuthorizedError."""
    secure = url.lower().startswith("https://")
    about = await _resource_metadata(url, response, asking, secure=secure)
    resource, scope, named = resource_url_from_server_url(url), None, None
    if about is not None:
        resource = str(about.resource)
        scope = " ".join(about.scopes_supported) if about.scopes_supported else None
        named = _choose_issuer([str(one) for one in about.authorization_servers], client)
    tried = build_oauth_authorization_server_metadata_discovery_urls(named, url)
    metadata = await _server_metadata(tried, asking, secure=secure)
    if metadata is not None:
        # Before June 2025, a server could itself publish the metadata of an issuer with a path.
        legacy = _origin(metadata.issuer) if named is None else metadata.issuer
        _check_issuer(metadata, legacy, named or _origin(url), client)
    elif named is not None:
        raise NotAuthorizedError(
            "Runward found no token endpoint, because there is no valid OAuth metadata at "
            f"{', '.join(tried)[:600]}. Set `oauth.token_url`.",
            permanent=True,
        )
    scope = extract_scope_from_www_auth(response) or scope
    return AuthorizationServer(_origin(url), metadata, resource, scope)


async def _resource_metadata(
    url: str, refused: httpx2.Response, asking: AuthorizationClient, *, secure: bool
) -> Any:
    """Return the server's metadata. Return None for a server of the specification before June 2025,
    which has no metadata."""
    named = extract_resource_metadata_from_www_auth(refused)
    for place in build_protected_resource_metadata_discovery_urls(named, url):
        answer = await asking.get_metadata(place, secure=secure)
        about = await handle_protected_resource_response(answer)
        if about is None:
            continue
        if not check_resource_allowed(resource_url_from_server_url(url), str(about.resource)):
            raise NotAuthorizedError(
                f"The metadata at {place[:300]} is for a different resource: "
                f"{str(about.resource)[:300]}.",
                permanent=True,
            )
        return about
    return None


async def _server_metadata(
    tried: list[str], asking: AuthorizationClient, *, secure: bool
) -> ServerMetadata | None:
    for place in tried:
        answer = await asking.get_metadata(place, secure=secure)
        if answer.status_code == 200:
            try:
                return ServerMetadata.model_validate_json(answer.content)
            except ValidationError:
                continue
    return None


def _choose_issuer(advertised: list[str], client: OAuthClient) -> str:
    """Return the first of the authorization servers, or the one that the project trusts."""
    for one in advertised:
        if client.issuer is None or issuers_match(one, client.issuer):
            return one
    raise NotAuthorizedError(
        "The issuer in `oauth.issuer` is not an authorization server of this MCP server. The "
        f"metadata of the MCP server names: {', '.join(advertised)[:600]}.",
        permanent=True,
    )


def _check_issuer(
    metadata: ServerMetadata, compared: str, expected: str, client: OAuthClient
) -> None:
    """Check that the metadata come from the expected issuer (RFC 8414, section 3.3), and from the
    one that the project trusts. `compared`: the issuer, or its origin. Raises
    NotAuthorizedError."""
    pairs = ((compared, expected), (metadata.issuer, client.issuer or metadata.issuer))
    for found, wanted in pairs:
        if not issuers_match(found, wanted):
            raise NotAuthorizedError(
                f"The authorization server's metadata has the issuer {metadata.issuer[:300]}, but "
                f"Runward expected the issuer {wanted[:300]}.",
                permanent=True,
            )


def _check_grant(metadata: ServerMetadata, client: OAuthClient) -> None:
    offered = metadata.grant_types_supported
    if client.grant == "client_credentials" and offered is not None and client.grant not in offered:
        raise NotAuthorizedError(
            f"The authorization server {metadata.issuer[:300]} does not support the grant type "
            f"client_credentials. It supports: {', '.join(offered)[:300]}. "
            f"{_LOGIN_HINT}",
            permanent=True,
        )


def _method(metadata: ServerMetadata, client: OAuthClient) -> AuthMethod:
    """Return how the client authenticates. RFC 8414: the default is client_secret_basic."""
    offered = metadata.token_endpoint_auth_methods_supported
    if client.private_key is not None and (offered is None or _JWT in offered):
        return _BASIC
    if client.auth_method is not None or client.client_secret is None or offered is None:
        return client.auth_method or _BASIC
    if (method := choose_method(offered)) is not None:
        return method
    raise NotAuthorizedError(
        f"The authorization server {metadata.issuer[:300]} accepts only these "
        f"client authentication methods: {', '.join(offered)[:300]}. Runward "
        f"supports {' and '.join(_METHODS)}.",
        permanent=True,
    )


def choose_method(offered: list[str]) -> AuthMethod | None:
    """Return the first of Runward's methods for client secrets that is among `offered`."""
    return next((method for method in _METHODS if method in offered), None)


async def _read_response(response: httpx2.Response) -> httpx2.Response:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError(
            "the response is compressed, although the request did not allow it"
        )
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise httpx2.ReadError(f"the response is larger than {MAX_ANSWER_BYTES} bytes")
        chunks.append(chunk)
    return httpx2.Response(response.status_code, headers=response.headers, content=b"".join(chunks))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
