"""The real service as a process: started, watched, killed, never imported."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

import httpx2

from tests.support.services.client import NO_TLS, Client
from tests.support.services.forks import (
    ROOT,
    ForkedProcess,
    Forks,
    inherited_environment,
    shared_forks,
)

READY_SECONDS = 60.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.05
PORT_ATTEMPTS = 3
SHOWN_CHARS = 20_000
BOOTSTRAP_KEY = "rw_test_bootstrap_key_0123456789abcdef0123456789"
SECRET_KEY = "test-secret-key-0123456789abcdef0123456789abcdef"

READ_AT_START = ("PYTHON", "LD_", "COVERAGE_")
Command: TypeAlias = Literal["serve", "api", "worker", "migrate"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """`python -m runward COMMAND`, forked from a nursery: that of the test process, if no other is
    given. `start` returns when it is ready: `serve` and `api` answer GET /readyz with 200, `worker`
    runs, `migrate` has ended. What it prints goes to a file and is part of every failure's
    message."""

    def __init__(
        self,
        command: Command,
        database_url: str,
        *,
        openai_base_url: str = "http://127.0.0.1:9/v1",
        lease_seconds: float | None = None,
        env: dict[str, str] | None = None,
        folder: Path = ROOT,
        forks: Forks | None = None,
        forked: bool = True,
        site: Path | None = None,
    ) -> None:
        """`folder` holds the package `runward` that runs, `site` packages with plugins. Without
        `forked`, with another folder, and with variables that Python or the linker reads at its
        start, the process is started from nothing."""
        self._command = command
        self._folder = folder
        self._env = inherited_environment() | {
            "DATABASE_URL": database_url,
            "RUNWARD_HOST": "127.0.0.1",
            "RUNWARD_BOOTSTRAP_KEY": BOOTSTRAP_KEY,
            "RUNWARD_SECRET_KEY": SECRET_KEY,
            "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
            "OPENAI_BASE_URL": openai_base_url,
            "OPENAI_API_KEY": "sk-test",
        }
        if lease_seconds is not None:
            self._env["RUNWARD_LEASE_SECONDS"] = f"{lease_seconds:g}"
        self._env |= env or {}
        at_start = any(name.startswith(READ_AT_START) for name in self._env)
        self._forked = forked and folder == ROOT and not at_start
        if site is not None:
            self._env["PYTHONPATH"] = str(site)
        self._forks = forks
        self._port = 0
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._output = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - `close` closes it

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def database_url(self) -> str:
        return self._env["DATABASE_URL"]

    @property
    def key(self) -> str:
        """The operator's."""
        return self._env["RUNWARD_BOOTSTRAP_KEY"]

    @property
    def secret_key(self) -> str:
        return self._env["RUNWARD_SECRET_KEY"]

    @property
    def process(self) -> subprocess.Popen[bytes] | ForkedProcess:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def title(self) -> str:
        code = self._process.poll() if self._process is not None else None
        state = "running" if code is None else f"exit code {code}"
        return f"output of `runward {self._command}` ({state})"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def client(self, key: str = BOOTSTRAP_KEY) -> Client:
        return Client(self.url, key)

    def output(self, last: int = SHOWN_CHARS) -> str:
        """Return what it printed, of a long text only so many of its last bytes."""
        self._output.flush()
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - last))
        shown = self._output.read().decode(errors="replace")
        self._output.seek(0, os.SEEK_END)
        return shown

    def start(self) -> Self:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self._spawn()
            if self._command == "migrate":
                self._expect(self.process.wait(READY_SECONDS) == 0, "migrate failed")
                return self
            if self._command == "worker" or self.wait_ready():
                return self
            taken = "address already in use" in self.output().lower()
            self._expect(taken and attempt < PORT_ATTEMPTS, "it ended before it was ready")
        raise AssertionError("unreachable")

    def start_again(self) -> Self:
        """After it has ended: at the same address."""
        self._spawn(self._port)
        self._expect(self.wait_ready(), "it ended before it was ready again")
        return self

    def wait_for_output(self, words: str) -> None:
        """Return when it has printed them."""
        end = time.monotonic() + READY_SECONDS
        while words not in self.output():
            self._expect(self.alive and time.monotonic() < end, f"it did not print {words}")
            time.sleep(POLL_SECONDS)  # a file tells nobody that it has grown

    def pause(self) -> None:
        """SIGSTOP: a process that is frozen, not dead."""
        if isinstance(self.process, ForkedProcess):
            self.process.pause(STOP_SECONDS)
        else:
            self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if isinstance(self.process, ForkedProcess):
            self.process.resume()
        else:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and gone when it returns. Nothing is asked of the process."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            self.process.wait(STOP_SECONDS)

    def ask_to_stop(self) -> None:
        """SIGTERM, without waiting."""
        os.kill(self.pid, signal.SIGTERM)

    def terminate(self, timeout: float = STOP_SECONDS) -> int:
        """SIGTERM; its exit code. Fails if it has not ended within `timeout` seconds."""
        if self.alive:
            self.ask_to_stop()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(self._report(f"still there {timeout} s after SIGTERM")) from None

    def close(self) -> None:
        self.kill()
        self._output.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(self._report("at the end"))
        self.close()

    def _spawn(self, port: int | None = None) -> None:
        self._port = port or free_port()
        env = self._env | {"RUNWARD_PORT": str(self._port)}
        if self._forked:
            forks = self._forks or shared_forks()
            output = self._output.fileno()
            self._process = forks.start("runward", self._command, env=env, output=output)
            return
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runward", self._command],
            cwd=self._folder,
            env=env | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def wait_ready(self) -> bool:
        """Wait until it answers GET /readyz with 200. False: the process ended."""
        end = time.monotonic() + READY_SECONDS
        with httpx2.Client(timeout=5, trust_env=False, verify=NO_TLS) as http:
            while self.alive:
                self._expect(time.monotonic() < end, f"not ready after {READY_SECONDS} s")
                try:
                    if http.get(f"{self.url}/readyz").status_code == 200:
                        return True
                except httpx2.TransportError:
                    pass
                time.sleep(POLL_SECONDS)  # there is nothing to wait on before it listens
        return False

    def _expect(self, fine: bool, problem: str) -> None:  # noqa: FBT001
        if not fine:
            report = self._report(problem)
            self.close()
            raise AssertionError(report)

    def _report(self, title: str) -> str:
        return f"{title}; {self.title}:\n{self.output()}"
