"""The tool server as a process of its own, so that nothing a test does to itself or to the service
can touch its log."""

import json
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from tests.support.services.client import NO_TLS
from tests.support.services.forks import ForkedServer
from tests.support.serving import HOLD_SECONDS
from tests.support.tools import hits
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour


class ToolProcess:
    """The part of `ToolServer` that works across processes."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: ForkedServer | None = None
        self._http = httpx2.Client(timeout=HOLD_SECONDS, trust_env=False, verify=NO_TLS)
        self.url = ""

    def __enter__(self) -> Self:
        self._process = ForkedServer("tests.support.tools.server", "--log", str(self._log))
        self.url = json.loads(self._process.first_line)["url"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()
        assert self._process is not None
        self._process.close()

    def tool(self, key: str, *behaviours: Behaviour) -> str:
        return self._control(
            "PUT", f"tools/{key}", {"behaviours": [asdict(each) for each in behaviours]}
        )["url"]

    def secrets(self, key: str, *secrets: str) -> None:
        self._control("PUT", f"tools/{key}", {"secrets": secrets})

    def arrived(self, hold: str, count: int = 1) -> None:
        """Returns when `count` calls wait at that hold."""
        self._control("GET", f"holds/{hold}/{count}")

    def release(self, hold: str) -> None:
        self._control("DELETE", f"holds/{hold}")

    def all_hits(self) -> list[Hit]:
        return hits.read(self._log)

    def hits(self, key: str | None = None) -> list[Hit]:
        return [
            hit for hit in self.all_hits() if hit.type == "tool_call" and key in (None, hit.key)
        ]

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        response = self._http.request(method, f"{self.url}/control/{path}", json=body)
        response.raise_for_status()
        return response.json()
