"""The checks of the egress for SDKs with their own HTTP client: a transport for httpx2 that
connects only to checked addresses. Clients that use it must follow no redirects and keep no
cookies."""

import asyncio
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, cast

import httpcore2
import httpx2

from runward.egress.addresses import AddressPolicy
from runward.egress.connections import RefusedAddressError, Resolver

CONNECT_SECONDS: Final = 10.0
KEEP_ALIVE_SECONDS: Final = 1.5
MAX_CONNECTIONS: Final = 128
"""Connections of one transport, which belongs to one server."""


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """A backend that resolves a name, checks all its addresses, and connects to one of them."""

    def __init__(self, policy: AddressPolicy, threads: ThreadPoolExecutor) -> None:
        self._resolver = Resolver(policy, threads)
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
            raise httpcore2.ConnectTimeout("the name was not resolved in time") from error
        except OSError as error:
            raise httpcore2.ConnectError(f"the name was not resolved: {error}") from error
        failure: Exception = httpcore2.ConnectError("the name has no address")
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
    """Return the seconds for the next of several addresses, so that a silent one leaves time for
    the others."""
    return None if ends is None else max(0.0, ends - asyncio.get_running_loop().time()) / addresses


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """A transport without a proxy or retries, for HTTP/1.1."""

    def __init__(
        self, policy: AddressPolicy, threads: ThreadPoolExecutor, tls: ssl.SSLContext
    ) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
            network_backend=CheckedBackend(policy, threads),
        )
