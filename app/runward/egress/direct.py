"""Connections to servers that the operator chose. Their addresses need no checks. As in other HTTP
clients, `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` can name a proxy."""

import asyncio
import base64
import re
import socket
import ssl
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from runward.egress.connections import open_connection
from runward.egress.exchange import HttpConnection
from runward.egress.pool import Origin

CONNECT_SECONDS: Final = 10.0
MAX_HEAD_BYTES: Final = 16_384
"""Maximum size of a proxy's response to CONNECT."""
_SUCCESS: Final = re.compile(rb"HTTP/1\.[01] 2[0-9][0-9][ \r]")


@dataclass(frozen=True, slots=True)
class Proxy:
    """`authorization`: the value of the header `Proxy-Authorization`, or None."""

    origin: Origin
    authorization: str | None

    @property
    def headers(self) -> dict[str, str]:
        return {"proxy-authorization": self.authorization} if self.authorization else {}


def find_proxy(origin: Origin) -> Proxy | None:
    """Return the proxy that the environment names for requests to `origin`. Raises ValueError."""
    named = getproxies()
    url = named.get("https" if origin.tls else "http") or named.get("all")
    if not url or proxy_bypass(f"{origin.host}:{origin.port}"):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the proxy must be an HTTP proxy")
    tls = parts.scheme == "https"
    authorization = None
    if parts.username:
        authorization = basic_authorization(unquote(parts.username), unquote(parts.password or ""))
    return Proxy(Origin(tls, parts.hostname, parts.port or (443 if tls else 80)), authorization)


def basic_authorization(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class DirectConnector:
    """Opens connections. `tunnel`: the proxy that forwards connections to servers with TLS."""

    tls: ssl.SSLContext
    tunnel: Proxy | None = None

    async def connect(self, origin: Origin) -> HttpConnection:
        """Raises OSError."""
        async with asyncio.timeout(CONNECT_SECONDS):
            if self.tunnel is None or not origin.tls:
                return await self._open(origin)
            return await self._open_through(self.tunnel, origin)

    async def _open(self, origin: Origin) -> HttpConnection:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
        return await open_connection(origin, found, self.tls)

    async def _open_through(self, proxy: Proxy, origin: Origin) -> HttpConnection:
        connection = await self._open(proxy.origin)
        transport = connection.transport
        assert transport is not None
        try:
            tunnel = _Tunnel()
            transport.set_protocol(tunnel)
            place = origin.authority if origin.port != 443 else f"{origin.authority}:443"
            fields = "".join(f"{name}: {value}\r\n" for name, value in proxy.headers.items())
            transport.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{fields}\r\n".encode())
            await tunnel.opened
            secured = await asyncio.get_running_loop().start_tls(
                transport, connection, self.tls, server_hostname=origin.host.removesuffix(".")
            )
        except BaseException:
            transport.abort()
            raise
        connection.connection_made(cast(asyncio.Transport, secured))
        return connection


class _Tunnel(asyncio.Protocol):
    """Waits for the response of a proxy to CONNECT."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" in self._head and _SUCCESS.match(self._head):
            self._finish(None)
        elif b"\r\n\r\n" in self._head or len(self._head) > MAX_HEAD_BYTES:
            self._finish(ConnectionError("the proxy refused the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(ConnectionError("the proxy closed the connection"))

    def _finish(self, error: ConnectionError | None) -> None:
        if self.opened.done():
            return
        if error is None:
            self.opened.set_result(None)
        else:
            self.opened.set_exception(error)
