"""The tool server as a process of its own, so that nothing a test does to itself or to the service
can touch its log."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from tests.support.serving import HOLD_SECONDS
from tests.support.tools import hits
from tests.support.tools.hits import Hit
from tests.support.tools.server import Behaviour

ROOT = Path(__file__).parents[3]
STOP_SECONDS = 10.0


class ToolProcess:
    """The part of `ToolServer` that works across processes."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._http = httpx2.Client(timeout=HOLD_SECONDS, trust_env=False)
        self.url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.tools.server", "--log", str(self._log)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self.url = json.loads(self._process.stdout.readline())["url"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()
        assert self._process is not None
        self._process.kill()
        self._process.communicate(timeout=STOP_SECONDS)

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
