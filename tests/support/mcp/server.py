"""`tests.support.mcp.process`, a real MCP server over streamable HTTP: started, watched, killed."""

from types import TracebackType
from typing import Self

import httpx2

from tests.support.services.client import NO_TLS, Json
from tests.support.services.forks import ForkedServer
from tests.support.services.service import free_port

PATIENCE_SECONDS = 30.0


class McpServer:
    """Between `start` and `close`; the same port after `restart`. `legacy`: it knows the handshake
    of 2025 alone. `without`: tools that it does not have. `changes`: what has changed in its list,
    as the tool `change` would. `module`: another program of that kind, without any of these."""

    def __init__(
        self,
        *,
        legacy: bool = False,
        without: str = "",
        module: str = "tests.support.mcp.process",
    ) -> None:
        self.legacy = legacy
        self._port = free_port()
        self._options = ["legacy"] * legacy + [without] * bool(without)
        self._module = module
        self._process: ForkedServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    def start(self, without: str | None = None, changes: str = "") -> Self:
        options = self._options if without is None else [without]
        options = [*options, f"change:{changes}"] if changes else options
        self._process = ForkedServer(self._module, str(self._port), *options)
        assert self._process.first_line == "listening\n"
        return self

    def kill(self) -> None:
        """It may be gone already."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def restart(self, without: str | None = None, changes: str = "") -> None:
        self.kill()
        self.start(without, changes)

    def seen(self) -> list[Json]:
        with httpx2.Client(trust_env=False, verify=NO_TLS, timeout=10) as http:
            return http.get(self.url.replace("/mcp", "/seen")).json()

    def wait_for(self, what: str, count: int = 1) -> list[Json]:
        """What it has seen, as soon as that has happened so often. Raises TimeoutError."""
        asked = {"what": what, "count": count}
        try:
            with httpx2.Client(trust_env=False, verify=NO_TLS, timeout=PATIENCE_SECONDS) as http:
                return http.get(self.url.replace("/mcp", "/seen"), params=asked).json()
        except httpx2.ReadTimeout:
            raise TimeoutError(f"no {what} within {PATIENCE_SECONDS} s: {self.seen()}") from None

    def release(self) -> None:
        with httpx2.Client(trust_env=False, verify=NO_TLS, timeout=10) as http:
            http.post(self.url.replace("/mcp", "/release"))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
