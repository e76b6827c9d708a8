"""Runward's API and its connections in this process, with a resolver of the test's own: no name
leaves the machine, and listeners that nobody may reach count who does."""

import select
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from random import sample
from typing import Any, Final

import httpx2
import pytest

from runward.api.app import create_app
from runward.api.routers import ROUTERS
from runward.egress.addresses import parse_address
from runward.services import Services
from runward.settings import Settings
from runward.store import readiness
from runward.store.access import keys
from runward.wiring import open_services
from tests.support.services.service import BOOTSTRAP_KEY, SECRET_KEY

OPENED: Final = "127.0.0.53"
"""The only private address that may be called."""


class Canaries:
    """Listeners on one port of 127.0.0.1, 127.0.0.2 and ::1."""

    def __init__(self, stack: ExitStack) -> None:
        first = stack.enter_context(_serve_on_unused_port())
        self.port: int = first.getsockname()[1]
        second = socket.create_server(("127.0.0.2", self.port), backlog=4096)
        self._listening = [first, stack.enter_context(second)]
        if socket.has_ipv6:
            third = socket.create_server(("::1", self.port), family=socket.AF_INET6)
            self._listening.append(stack.enter_context(third))

    @property
    def connections(self) -> int:
        """How many there were since this was last asked."""
        count = 0
        while ready := select.select(self._listening, [], [], 0)[0]:
            for listening in ready:
                listening.accept()[0].close()
                count += 1
        return count


def _serve_on_unused_port() -> socket.socket:
    """Listen on a port below those that the system assigns. An assigned port may have belonged to
    the server of another test a moment ago, and that server's clients may still connect to it."""
    for port in sample(range(20_000, 32_768), 100):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port), backlog=4096)
    raise AssertionError("100 ports are in use")


@contextmanager
def canaries() -> Generator[Canaries]:
    with ExitStack() as stack:
        yield Canaries(stack)


class Names:
    """DNS. `answers`: what a name resolves to, one list for each lookup and the last for all
    later ones; any other name leads to 127.0.0.1."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.lookups = 0
        self._real: Callable[..., Any] = socket.getaddrinfo
        patch.setattr(socket, "getaddrinfo", self._lookup)

    def _lookup(self, host: Any, port: Any, *options: Any, **more: Any) -> list[Any]:
        if host is None or parse_address(str(host)) is not None:
            return self._real(host, port, *options, **more)
        self.lookups += 1
        coming = self.answers.get(host, [["127.0.0.1"]])
        found = coming.pop(0) if len(coming) > 1 else coming[0]
        return [self._real(address, port, *options, **more)[0] for address in found]


@asynccontextmanager
async def api(database_url: str) -> AsyncGenerator[tuple[Services, httpx2.AsyncClient]]:
    """Without a worker. The client has the operator's key."""
    private = [f"{OPENED}/32"]
    settings = Settings.model_validate({"secret_key": SECRET_KEY, "allow_private_targets": private})
    async with open_services(settings, database_url) as services:
        async with services.storage.begin() as tx:
            await readiness.prepare_database(tx, services.storage.vault)
            await keys.ensure_bootstrap_key(
                tx, services.storage.vault, name="bootstrap", secret=BOOTSTRAP_KEY
            )
        transport = httpx2.ASGITransport(create_app(services, ROUTERS))
        async with httpx2.AsyncClient(
            transport=transport,
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {BOOTSTRAP_KEY}"},
        ) as client:
            yield services, client
