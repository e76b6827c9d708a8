"""Pools of connections. Only requests to the same origin share connections."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from runward.egress.exchange import HttpConnection, ResponseReader


class Origin(NamedTuple):
    """`host`: a name or an address, without brackets."""

    tls: bool
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


OpenConnection: TypeAlias = Callable[[Origin], Awaitable[HttpConnection]]


class _Host:
    """The connections to one origin."""

    __slots__ = ("idle", "slots", "users")

    def __init__(self, limit: int) -> None:
        self.slots = asyncio.Semaphore(limit)
        self.users = 0
        self.idle: deque[tuple[float, HttpConnection]] = deque()
        """With the time at which each connection became idle. The last one is used first."""


class Pool:
    """Sends requests over connections that `connect` opens. It sends no request twice. At most
    `limit` requests, and `limit_per_host` to one origin, are in progress, and others wait. An idle
    connection is closed after `idle_seconds`."""

    def __init__(
        self, connect: OpenConnection, *, limit: int, limit_per_host: int, idle_seconds: float
    ) -> None:
        self._connect = connect
        self._slots = asyncio.Semaphore(limit)
        self._limit_per_host = limit_per_host
        self._idle_seconds = idle_seconds
        self._hosts: dict[Origin, _Host] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def exchange(self, origin: Origin, request: bytes, reader: ResponseReader) -> None:
        """Send a request, and pass its response to `reader`. Raises OSError, and the exceptions of
        `reader`."""
        host = self._hosts.get(origin)
        if host is None:
            host = self._hosts[origin] = _Host(self._limit_per_host)
        host.users += 1
        try:
            async with host.slots, self._slots:
                connection = self._take(host) or await self._connect(origin)
                await connection.exchange(request, reader)
                self._keep(host, connection)
        finally:
            host.users -= 1
            self._forget_unused(origin, host)

    def close(self) -> None:
        """Close the idle connections now, and the others after their exchange."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for host in self._hosts.values():
            for _, connection in host.idle:
                connection.close()
        self._hosts.clear()

    def _take(self, host: _Host) -> HttpConnection | None:
        """Return an idle connection that can be used again."""
        while host.idle:
            since, connection = host.idle.pop()
            age = asyncio.get_running_loop().time() - since
            if age < self._idle_seconds and connection.can_be_reused():
                return connection
            connection.close()
        return None

    def _keep(self, host: _Host, connection: HttpConnection) -> None:
        if self._is_closed or not connection.keeps_alive or connection.is_closing:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        host.idle.append((loop.time(), connection))
        if self._sweep is None:
            self._sweep = loop.call_later(self._idle_seconds, self._close_expired)

    def _close_expired(self) -> None:
        """Close the connections that are idle for too long. One timer does this for all of them."""
        loop = asyncio.get_running_loop()
        self._sweep = None
        oldest = loop.time()
        expired = oldest - self._idle_seconds
        for origin, host in [*self._hosts.items()]:
            while host.idle and host.idle[0][0] <= expired:
                host.idle.popleft()[1].close()
            self._forget_unused(origin, host)
            if host.idle:
                oldest = min(oldest, host.idle[0][0])
        if any(host.idle for host in self._hosts.values()):
            self._sweep = loop.call_at(oldest + self._idle_seconds, self._close_expired)

    def _forget_unused(self, origin: Origin, host: _Host) -> None:
        if not host.users and not host.idle:
            self._hosts.pop(origin, None)
