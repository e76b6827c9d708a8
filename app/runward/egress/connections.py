"""Connections of the egress. They lead only to checked addresses. Each attempt uses one connection,
which the server has not closed."""

import asyncio
import select
import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Final, cast
from weakref import WeakSet

import aiohttp
import httpcore2
import httpx2
from aiohttp import ClientPayloadError
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from runward.egress.addresses import AddressRules, parse_address

_set_exception: Final = ResponseHandler.set_exception


def _tell_the_reader(self: ResponseHandler, exc: BaseException, *cause: Any) -> None:
    _set_exception(self, exc, *cause)
    body = self._payload  # pyright: ignore[reportPrivateUsage]
    if body is not None and body.exception() is None and not body.is_eof():
        body.set_exception(
            ClientPayloadError(f"the response body is broken ({type(exc).__name__})")
        )


def repair_set_exception() -> None:
    """Patch aiohttp 3.14 for all of its connections, also those of the SDKs for models. Idempotent.

    If the framing of a body breaks after the headers were read, aiohttp closes the connection
    without an error for the reader of the body. The reader would wait until the request times out.
    """
    ResponseHandler.set_exception = _tell_the_reader  # pyright: ignore[reportAttributeAccessIssue]


repair_set_exception()


class RefusedAddressError(OSError):
    """Raised if a host name resolves to an address that is not allowed."""


class Attempt:
    """One attempt of a request. `sent`: whether the attempt got a connection, so that bytes may
    have been sent."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False


current_attempt: Final[ContextVar[Attempt]] = ContextVar("egress_attempt")


def guarded_socket(rules: AddressRules, info: Any) -> socket.socket:
    """Return a socket for an address, after checking the address itself once more. Raises
    RefusedAddressError."""
    family, kind, protocol, _, where = info
    _ensure_allowed(rules, str(where[0]), int(where[1]))
    return socket.socket(family, kind, protocol)


def _ensure_allowed(rules: AddressRules, host: str, port: int) -> None:
    """Raise RefusedAddressError if the address must not be reached."""
    address = parse_address(host)
    refusal = rules.refusal(address, port) if address else "not an address"
    if refusal is not None:
        raise RefusedAddressError(refusal)


class Resolver(AbstractResolver):
    """Resolves a name to all its addresses. Raises RefusedAddressError if one of them is not
    allowed. Concurrent requests for the same name share one look-up, so that a name with slow DNS
    servers blocks only one thread."""

    def __init__(self, rules: AddressRules, threads: ThreadPoolExecutor) -> None:
        self._rules = rules
        self._threads = threads
        self._lookups: dict[tuple[str, int, int], asyncio.Future[Any]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await asyncio.shield(self._lookup(host, port, family))
        results: list[ResolveResult] = []
        for kind, _, protocol, _, where in found:
            shown = str(where[0])
            _ensure_allowed(self._rules, shown, port)
            results.append(
                ResolveResult(
                    hostname=host,
                    host=shown,
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return results

    async def close(self) -> None:
        pass

    def _lookup(self, host: str, port: int, family: socket.AddressFamily) -> "asyncio.Future[Any]":
        key = host, port, int(family)
        if (known := self._lookups.get(key)) is not None:
            return known

        def ended(lookup: "asyncio.Future[Any]") -> None:
            del self._lookups[key]
            if not lookup.cancelled():
                lookup.exception()  # Retrieve the exception, because no caller may be waiting.

        lookup = asyncio.get_running_loop().run_in_executor(
            self._threads, socket.getaddrinfo, host, port, family, socket.SOCK_STREAM
        )
        self._lookups[key] = lookup
        lookup.add_done_callback(ended)
        return lookup


class Connector(aiohttp.TCPConnector):
    """Provides one connection for each attempt. It marks the attempt as sent, because bytes may be
    sent from then on. A pooled connection is dropped if the server closed it or wrote to it,
    because a request could be lost or get a wrong response."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109, the name is the library's
    ) -> Connection:
        if current_attempt.get().sent:
            raise aiohttp.ClientConnectionError("Runward does not send a request a second time")
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None
            if protocol in self._used and _is_closed(protocol):
                connection.close()
                continue
            self._used.add(protocol)
            current_attempt.get().sent = True
            return connection


def _is_closed(protocol: ResponseHandler) -> bool:
    if protocol.should_close or protocol.transport is None:
        return True
    idle = protocol.transport.get_extra_info("socket")
    poll = select.poll()
    poll.register(idle.fileno(), select.POLLIN | select.POLLRDHUP)
    return bool(poll.poll(0))


CONNECT_SECONDS: Final = 10.0
KEEP_ALIVE_SECONDS: Final = 1.5
MAX_CONNECTIONS: Final = 128
"""Maximum number of connections of one transport. Each transport connects to one server."""


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """A backend that resolves a name, checks all its addresses, and connects to one of them."""

    def __init__(self, rules: AddressRules, threads: ThreadPoolExecutor) -> None:
        self._resolver = Resolver(rules, threads)
        self._inner = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109, the name is the library's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a checked address. Raises RefusedAddressError, or httpcore2's errors."""
        try:
            async with asyncio.timeout(timeout):
                found = await self._resolver.resolve(host, port)
        except RefusedAddressError:
            raise
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("the host name was not resolved in time") from error
        except OSError as error:
            raise httpcore2.ConnectError(f"the host name was not resolved: {error}") from error
        failure: Exception = httpcore2.ConnectError("the host name has no address")
        ends = None if timeout is None else asyncio.get_running_loop().time() + timeout
        for tried, one in enumerate(found):
            try:
                return await self._inner.connect_tcp(
                    one["host"],
                    port,
                    _address_timeout(ends, len(found) - tried),
                    local_address,
                    socket_options,
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _address_timeout(ends: float | None, addresses: int) -> float | None:
    """Return the timeout in seconds for the next address, or None if there is no limit. An address
    that does not respond leaves time for the others."""
    return None if ends is None else max(0.0, ends - asyncio.get_running_loop().time()) / addresses


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """A transport without a proxy or retries, for HTTP/1.1."""

    def __init__(
        self, rules: AddressRules, threads: ThreadPoolExecutor, tls: ssl.SSLContext
    ) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
            network_backend=CheckedBackend(rules, threads),
        )
