"""`python -m runward serve` as a person starts it: no database, no keys, an empty folder."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.postgres import scratch_folder
from tests.support.services.client import Client
from tests.support.services.service import STOP_SECONDS, Service

NOTHING_SET = (
    "DATABASE_URL",
    "RUNWARD_BOOTSTRAP_KEY",
    "RUNWARD_SECRET_KEY",
    "RUNWARD_ALLOW_PRIVATE_TARGETS",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)
"""An empty variable counts as none."""


class OwnMachine:
    """A data folder, and the services that are started on it one after the other. Afterwards
    nothing of it runs."""

    def __init__(self) -> None:
        self._scratch = scratch_folder()
        self.data_dir = self._scratch / "data"
        self.service: Service | None = None

    def start(self) -> Service:
        if self.service is not None:
            self.service.close()
        env = dict.fromkeys(NOTHING_SET, "") | {"RUNWARD_DATA_DIR": str(self.data_dir)}
        self.service = Service("serve", "", env=env)
        return self.service.start()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.service is not None
        return self.service.terminate()

    def hang_up(self) -> int:
        """SIGHUP, as when the terminal is closed; the exit code."""
        assert self.service is not None
        os.kill(self.service.pid, signal.SIGHUP)
        return self.service.process.wait(STOP_SECONDS)

    def stop_impatiently(self) -> int:
        """SIGTERM again and again until it has ended; the exit code."""
        assert self.service is not None
        process = self.service.process
        while True:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                return process.wait(0.01)

    @property
    def key(self) -> str:
        return (self.data_dir / "api-key").read_text().strip()

    def client(self) -> Client:
        assert self.service is not None
        return self.service.client(self.key)

    def postgres_is_gone(self) -> bool:
        return not self._pid_file.exists()

    @property
    def _pid_file(self) -> Path:
        return self.data_dir / "postgres" / "data" / "postmaster.pid"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.service is not None:
            if error is not None:
                error.add_note(f"{self.service.title}:\n{self.service.output()}")
            self.service.close()
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(self._pid_file.read_text().split("\n", 1)[0]), signal.SIGQUIT)
        shutil.rmtree(self._scratch, ignore_errors=True)


def needs(program: str, package: str) -> str:
    """Where it is. Missing: the test is skipped with the line that installs it, and in CI fails."""
    found = shutil.which(program)
    if found is not None:
        return found
    line = f"{program} is missing: apt install {package}"
    if os.environ.get("CI"):
        pytest.fail(line)
    pytest.skip(line)
