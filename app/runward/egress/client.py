"""The client for all requests that tools cause.

One request is one attempt. No request is sent twice, no redirect is followed, no cookie is stored,
and no proxy or netrc is used. Runward connects to exactly the address that it checked.
docs/decisions/http-client.md describes why it uses aiohttp and what its connection pool may do.
"""

import asyncio
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, partial
from typing import Final

import aiohttp

from runward.egress.addresses import (
    DEFAULT_PORTS,
    AddressRules,
    Network,
    Target,
    TargetError,
    parse_ports,
    parse_target,
    refused_target,
)
from runward.egress.connections import (
    Attempt,
    CheckedTransport,
    Connector,
    RefusedAddressError,
    Resolver,
    current_attempt,
    guarded_socket,
)
from runward.egress.responses import (
    READ_HEADERS,
    EgressOutcome,
    EgressResponse,
    MissingAnswer,
    NoAnswer,
    describe_error,
    inflate,
)

KEEP_ALIVE_SECONDS: Final = 1.5
"""Number of seconds for which an idle connection is kept. It is lower than that of any known server
(gunicorn 2, Node 5), so a server rarely closes a connection while a request is on its way."""
MAX_CONNECTIONS: Final = 1024
MAX_CONNECTIONS_PER_HOST: Final = 256
DNS_THREADS: Final = 64
LOOKUP_SECONDS: Final = 3.0
"""Maximum number of seconds for the look-up at registration."""
MAX_HEADER_BYTES: Final = 8190
MAX_HEADERS: Final = 128
MAX_PARSED_URLS: Final = 1024
"""Maximum number of parsed and checked URLs in the cache. The cache saves a fifth of a call's
time."""

_SKIPPED: Final = ("Accept", "User-Agent", "Content-Type")


class Egress:
    """An HTTP client. Connections are pooled by host name, port and scheme. Each connection leads
    to an address that was checked for that name. Call `aclose` at the end."""

    def __init__(
        self,
        *,
        allow_private: tuple[Network, ...] = (),
        allowed_ports: str = DEFAULT_PORTS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Open a client. `tls`: the trusted certificates. If `tls` is None, the client trusts the
        system's certificates. Raises ValueError."""
        self._rules = AddressRules(allow_private, parse_ports(allowed_ports))
        self._parse = lru_cache(MAX_PARSED_URLS)(partial(parse_target, rules=self._rules))
        self._tls = tls
        self._threads = ThreadPoolExecutor(DNS_THREADS, thread_name_prefix="dns")
        self._resolver = Resolver(self._rules, self._threads)
        self._session: aiohttp.ClientSession | None = None

    def check_url(self, url: str) -> None:
        """Raise TargetError if `url` must not be registered. The check does no DNS look-up."""
        parse_target(url, self._rules)

    async def check_target(self, url: str) -> None:
        """Raise TargetError if `url` must not be registered, or if a current address of its host is
        not allowed. A name that does not resolve is accepted, because it may exist later. Its
        addresses are checked again for each call."""
        target = parse_target(url, self._rules)
        if target.address is not None:
            return
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                await self._resolver.resolve(target.host, target.port)
        except RefusedAddressError as error:
            raise TargetError(refused_target(target, str(error))) from None
        except OSError:  # TimeoutError is one of them.
            return

    def transport(self) -> CheckedTransport:
        """Return a transport for an SDK that has its own HTTP client. Close the transport before
        this client."""
        return CheckedTransport(self._rules, self._threads, self._trusted)

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        """Return the trusted certificates. All transports share them, because reading the system's
        certificates takes 30 ms."""
        return self._tls or ssl.create_default_context()

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        seconds: float,
        max_response_bytes: int,
    ) -> EgressOutcome:
        """Send one request, and return its outcome. It never raises errors of the network or of the
        server. `seconds`: maximum time from the DNS look-up to the last byte of the response."""
        try:
            target = self._parse(url)
        except TargetError as error:
            return NoAnswer(MissingAnswer.NOT_SENT, str(error), sent=False, permanent=True)
        attempt = Attempt()
        token = current_attempt.set(attempt)
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(method, target, headers, body, max_response_bytes)
        except TimeoutError:
            when = "after the request was sent" if attempt.sent else "before the request was sent"
            detail = (
                f"No complete response arrived within {seconds:g} seconds. The time ran out {when}."
            )
            return NoAnswer(MissingAnswer.TIMEOUT, detail, sent=attempt.sent)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _no_answer(error, target, attempt)
        finally:
            current_attempt.reset(token)

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _exchange(
        self, method: str, target: Target, headers: Mapping[str, str], body: bytes, limit: int
    ) -> EgressResponse:
        session = self._session or self._open()
        async with session.request(
            method, target.url, headers=headers, data=body, allow_redirects=False
        ) as response:
            kept = {
                name: value
                for name, value in ((n.lower(), v) for n, v in response.headers.items())
                if name in READ_HEADERS
            }
            raw, truncated = await _read(response, limit)
        encoding = kept.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            return EgressResponse(response.status, kept, raw, truncated)
        inflated = None if truncated else inflate(raw, encoding, limit)
        if inflated is None:
            return EgressResponse(response.status, kept, b"", truncated, encoding[:50])
        return EgressResponse(response.status, kept, *inflated)

    def _open(self) -> aiohttp.ClientSession:
        """Return the session, which is created at the first request because it belongs to the
        running loop."""
        connector = Connector(
            resolver=self._resolver,
            use_dns_cache=False,
            ssl=self._tls or True,
            limit=MAX_CONNECTIONS,
            limit_per_host=MAX_CONNECTIONS_PER_HOST,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            socket_factory=partial(guarded_socket, self._rules),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            skip_auto_headers=_SKIPPED,
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )
        return self._session


async def _read(response: aiohttp.ClientResponse, limit: int) -> tuple[bytes, bool]:
    """Return at most `limit` raw bytes, and whether there are more. If there are more, the
    connection is closed."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            response.close()
            return b"".join(chunks)[:limit], True
    return b"".join(chunks), False


def _no_answer(error: Exception, target: Target, attempt: Attempt) -> NoAnswer:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, RefusedAddressError):
        detail = refused_target(target, str(cause))
        return NoAnswer(MissingAnswer.NOT_SENT, detail, sent=False, permanent=True)
    if attempt.sent:
        return NoAnswer(
            MissingAnswer.INCOMPLETE,
            f"The connection ended before a complete response arrived: {describe_error(cause)}",
            sent=True,
        )
    return NoAnswer(
        MissingAnswer.NOT_SENT, f"Runward could not connect: {describe_error(cause)}", sent=False
    )
