"""The client for all requests that tools cause.

One request is one attempt. No request is sent twice, no redirect is followed, no cookie is stored,
and no proxy or netrc is used. Runward connects to exactly the address that it checked.
docs/decisions/http-client.md describes why Runward has its own client.
"""

import asyncio
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, partial
from typing import Final

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
    CheckedTransport,
    RefusedAddressError,
    Resolver,
    guarded_socket,
    open_connection,
)
from runward.egress.exchange import HeaderFields, HttpConnection, add_body, format_head, read_fields
from runward.egress.pool import Origin, Pool
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
MAX_PARSED_URLS: Final = 1024
"""Maximum number of parsed and checked URLs in the cache. The cache saves a fifth of a call's
time."""


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
        self._pool: Pool | None = None

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
        reader = _Response(max_response_bytes)
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                return await self._exchange(method, target, headers, body, reader)
        except (OSError, ValueError) as error:  # TimeoutError is one of them.
            if not timer.expired():
                return _no_answer(error, target, sent=reader.sent)
        when = "after the request was sent" if reader.sent else "before the request was sent"
        detail = (
            f"No complete response arrived within {seconds:g} seconds. The time ran out {when}."
        )
        return NoAnswer(MissingAnswer.TIMEOUT, detail, sent=reader.sent)

    async def connect(self, origin: Origin) -> HttpConnection:
        """Connect to an address that an operator did not choose. Raises OSError."""
        found = await self._resolver.resolve(origin.host, origin.port)
        return await open_connection(
            origin, found, self._trusted, partial(guarded_socket, self._rules)
        )

    async def aclose(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _exchange(
        self,
        method: str,
        target: Target,
        headers: Mapping[str, str],
        body: bytes,
        reader: "_Response",
    ) -> EgressResponse:
        pool = self._pool or self._open()
        host = str(target.address or target.host).lower()
        origin = Origin(target.tls, host, target.port)
        sent = {"Accept-Encoding": "identity", **headers}
        head = format_head(method, target.path, origin.authority, sent)
        try:
            await pool.exchange(origin, add_body(head, body), reader)
        except _TooLargeError:
            return reader.result(truncated=True)
        return reader.result(truncated=False)

    def _open(self) -> Pool:
        """Return the pool, which is created at the first request because it belongs to the running
        loop."""
        self._pool = Pool(
            self.connect,
            limit=MAX_CONNECTIONS,
            limit_per_host=MAX_CONNECTIONS_PER_HOST,
            idle_seconds=KEEP_ALIVE_SECONDS,
        )
        return self._pool


class _TooLargeError(Exception):
    """Raised to end a response after `max_bytes`."""


class _Response:
    """Reads a response of at most `max_bytes`."""

    done = False

    def __init__(self, max_bytes: int) -> None:
        self.sent = False
        self._max_bytes = max_bytes
        self._status = 0
        self._headers: dict[str, str] = {}
        self._chunks: list[bytes] = []
        self._size = 0

    def begin(self, status: int, fields: HeaderFields) -> None:
        self._status = status
        self._headers = read_fields(fields, READ_HEADERS)

    def feed(self, data: bytes) -> bool:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > self._max_bytes:
            raise _TooLargeError
        return False

    def result(self, *, truncated: bool) -> EgressResponse:
        body = b"".join(self._chunks)[: self._max_bytes]
        encoding = self._headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            return EgressResponse(self._status, self._headers, body, truncated)
        inflated = None if truncated else inflate(body, encoding, self._max_bytes)
        if inflated is None:
            return EgressResponse(self._status, self._headers, b"", truncated, encoding[:50])
        return EgressResponse(self._status, self._headers, *inflated)


def _no_answer(error: Exception, target: Target, *, sent: bool) -> NoAnswer:
    if isinstance(error, RefusedAddressError):
        detail = refused_target(target, str(error))
        return NoAnswer(MissingAnswer.NOT_SENT, detail, sent=False, permanent=True)
    if sent:
        return NoAnswer(
            MissingAnswer.INCOMPLETE,
            f"The connection ended before a complete response arrived: {describe_error(error)}",
            sent=True,
        )
    return NoAnswer(
        MissingAnswer.NOT_SENT, f"Runward could not connect: {describe_error(error)}", sent=False
    )
