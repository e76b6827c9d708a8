"""Connections of the egress. They lead only to checked addresses."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias, cast

import httpcore2
import httpx2
from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]

from runward.egress.addresses import Address, AddressRules, parse_address
from runward.egress.exchange import HttpConnection
from runward.egress.pool import Origin

AddressInfo: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
"""An address as `socket.getaddrinfo` returns it."""
NEXT_ADDRESS_SECONDS: Final = 0.25
"""Seconds after which the next address of a name is tried, if the former one has not answered."""


class RefusedAddressError(OSError):
    """Raised if a host name resolves to an address that is not allowed."""


def guarded_socket(rules: AddressRules, info: AddressInfo) -> socket.socket:
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


class Resolver:
    """Resolves a name to all its addresses. Concurrent requests for the same name share one
    look-up, so that a name with slow DNS servers blocks only one thread."""

    def __init__(self, rules: AddressRules, threads: ThreadPoolExecutor) -> None:
        self._rules = rules
        self._threads = threads
        self._lookups: dict[tuple[str, int], asyncio.Future[list[AddressInfo]]] = {}

    async def resolve(self, host: str, port: int) -> list[AddressInfo]:
        """Return all addresses of a name, or the address itself. Raises RefusedAddressError if one
        of them is not allowed."""
        address = parse_address(host)
        found = (
            [_address_info(address, port)]
            if address is not None
            else await asyncio.shield(self._lookup(host, port))
        )
        for *_, where in found:
            _ensure_allowed(self._rules, str(where[0]), port)
        return found

    def _lookup(self, host: str, port: int) -> "asyncio.Future[list[AddressInfo]]":
        key = host, port
        if (known := self._lookups.get(key)) is not None:
            return known

        def ended(lookup: "asyncio.Future[list[AddressInfo]]") -> None:
            del self._lookups[key]
            if not lookup.cancelled():
                lookup.exception()  # Retrieve the exception, because no caller may be waiting.

        lookup = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
        self._lookups[key] = lookup
        lookup.add_done_callback(ended)
        return lookup


def _look_up(host: str, port: int) -> list[AddressInfo]:
    return list(socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM))


def _address_info(address: Address, port: int) -> AddressInfo:
    if address.version == 4:
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port)
    place = str(address), port, 0, 0
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place


async def open_connection(
    origin: Origin,
    addresses: Sequence[AddressInfo],
    tls: ssl.SSLContext,
    make_socket: Callable[[AddressInfo], socket.socket] | None = None,
) -> HttpConnection:
    """Connect to one of the addresses (RFC 8305). Raises OSError and ssl.CertificateError."""
    connected = await start_connection(
        addresses, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS, socket_factory=make_socket
    )
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        HttpConnection,
        sock=connected,
        ssl=tls if origin.tls else None,
        server_hostname=origin.host.removesuffix(".") if origin.tls else None,
    )
    return connection


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
                    str(one[4][0]),
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
