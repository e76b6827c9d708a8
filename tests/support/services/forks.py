"""Processes of the service that start in milliseconds: one process imports everything once, and
each process of the service is a fork of it.

    python -m tests.support.services.forks

reads one JSON line for each process to start on standard input and writes one for everything that
happens to it on standard output. When its input ends, it kills what it started. It has neither
threads nor an event loop when it forks.
"""

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import httpx2

from tests.support.services.client import Client
from tests.support.services.service import BOOTSTRAP_KEY, INHERITED, ROOT, SECRET_KEY, free_port

Report: TypeAlias = dict[str, Any]
Prepare: TypeAlias = Callable[[Callable[[Report], None]], None]
"""What a child does before it runs the command. It is given a function that reports to the test."""

PRELOADED = (
    "runward.__main__",
    "runward.serve",
    "runward.operating.environment",
    "mcp.client.streamable_http",
    "jsonschema",
    "openai",
    "openai.resources.chat",
)
WAIT_SECONDS = 180.0
POLL_SECONDS = 0.02
SHOWN_CHARS = 20_000
PR_SET_PDEATHSIG = 1


class Forked:
    """A process of the service. Its output goes to a file that is part of every failure."""

    def __init__(self, forks: "Forks", command: str, pid: int, port: int, output: Path) -> None:
        self.command = command
        self.pid = pid
        self.port = port
        self.exit_code: int | None = None
        self.reports: list[Report] = []
        self._forks = forks
        self._output = output
        self._stopped = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    def client(self, key: str = BOOTSTRAP_KEY) -> Client:
        return Client(self.url, key)

    def output(self) -> str:
        if not self._output.exists():
            return ""
        return self._output.read_text(errors="replace")[-SHOWN_CHARS:]

    def wait_ready(self) -> bool:
        """Until it answers GET /readyz with 200. False: it ended, since its port was taken."""
        end = time.monotonic() + WAIT_SECONDS
        with httpx2.Client(timeout=5, trust_env=False) as http:
            while self.alive and time.monotonic() < end:
                try:
                    if http.get(f"{self.url}/readyz").status_code == 200:
                        return True
                except httpx2.TransportError:
                    pass
                time.sleep(POLL_SECONDS)  # there is nothing to wait on before it listens
        if not self.alive and "address already in use" in self.output().lower():
            return False
        raise AssertionError(f"{self.command} is not ready:\n{self.output()}")

    def wait_for_output(self, words: str) -> None:
        """Until it has printed them. Raises AssertionError."""
        end = time.monotonic() + WAIT_SECONDS
        while words not in self.output():
            assert self.alive and time.monotonic() < end, self.output()
            time.sleep(POLL_SECONDS)  # a file tells nobody that it has grown

    def pause(self) -> None:
        """SIGSTOP; returns when it has stopped."""
        self._stopped = False
        self._signal(signal.SIGSTOP)
        self.wait(lambda: self._stopped or not self.alive)

    def resume(self) -> None:
        self._stopped = False
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; returns when it has ended."""
        self._signal(signal.SIGKILL)
        self.wait(lambda: not self.alive)

    def terminate(self) -> int:
        """SIGTERM; returns its exit code."""
        self._signal(signal.SIGTERM)
        self.wait(lambda: not self.alive)
        assert self.exit_code is not None
        return self.exit_code

    def _signal(self, number: int) -> None:
        """Send it. A process that has just ended is gone before its end is reported."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        """Until `condition`, which is looked at whenever some process reports. Raises
        TimeoutError."""
        if not self._forks.wait(condition, seconds):
            raise TimeoutError(f"not in {seconds} s; {self.command}:\n{self.output()}")

    def wait_stopped(self) -> None:
        self.wait(lambda: self._stopped or not self.alive)

    def take(self, report: Report) -> None:
        if "ended" in report:
            self.exit_code = report["ended"]
        elif report.get("stopped"):
            self._stopped = True
        else:
            self.reports.append(report)


class Forks:
    """Between `start` and `close`. `preload`: more modules to import once. `prepare`:
    `module:function`, called in each child before its command runs."""

    def __init__(self, *, preload: tuple[str, ...] = (), prepare: str | None = None) -> None:
        self._options = {"preload": [*PRELOADED, *preload], "prepare": prepare}
        self._folder = tempfile.TemporaryDirectory(prefix="runward-forks-")
        self._changed = threading.Condition()
        self._by_pid: dict[int, Forked] = {}
        self._waiting: dict[int, Report] = {}
        self._number = 0

    def __enter__(self) -> Self:
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.services.forks", json.dumps(self._options)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True, name="forks")
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        self._process.stdout.close()
        self._folder.cleanup()

    def start(
        self,
        command: str,
        database_url: str,
        *,
        openai_base_url: str = "http://127.0.0.1:9/v1",
        lease_seconds: float = 1,
        env: dict[str, str] | None = None,
    ) -> Forked:
        """`runward COMMAND`. An API process is not ready when this returns."""
        port = free_port()
        variables = {name: os.environ[name] for name in INHERITED if name in os.environ} | {
            "DATABASE_URL": database_url,
            "RUNWARD_HOST": "127.0.0.1",
            "RUNWARD_PORT": str(port),
            "RUNWARD_BOOTSTRAP_KEY": BOOTSTRAP_KEY,
            "RUNWARD_SECRET_KEY": SECRET_KEY,
            "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
            "RUNWARD_LEASE_SECONDS": f"{lease_seconds:g}",
            "OPENAI_BASE_URL": openai_base_url,
            "OPENAI_API_KEY": "sk-test",
        }
        with self._changed:
            self._number += 1
            number = self._number
            output = Path(self._folder.name) / f"{number}-{command}.log"
            wanted = {
                "number": number,
                "command": command,
                "env": variables | (env or {}),
                "output": str(output),
            }
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
            self._process.stdin.flush()
            if not self._changed.wait_for(lambda: number in self._waiting, WAIT_SECONDS):
                raise TimeoutError(f"{command} was not started")
            pid = self._waiting.pop(number)["pid"]
            forked = self._by_pid[pid] = Forked(self, command, pid, port, output)
            for early in self._waiting.pop(-pid, {}).get("reports", []):
                forked.take(early)
        return forked

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether `condition` came true; it is looked at whenever some process reports."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            report: Report = json.loads(line)
            with self._changed:
                self._take(report)
                self._changed.notify_all()

    def _take(self, report: Report) -> None:
        if "number" in report:
            self._waiting[report["number"]] = report
        elif report["pid"] in self._by_pid:
            self._by_pid[report["pid"]].take(report)
        else:  # it reported before its start was taken note of
            self._waiting.setdefault(-report["pid"], {"reports": []})["reports"].append(report)


# -- the process that forks -----------------------------------------------------------------------


def report(line: Report) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def serve(options: Report) -> None:
    for module in options["preload"]:
        importlib.import_module(module)
    prepare = _found(options["prepare"])
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, "no thread may be running when a process forks"
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, _wake)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    children: set[int] = set()
    for line in _lines(woken, children):
        children.add(_fork(json.loads(line), prepare))
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)


def _wake(_signal: int, _frame: object) -> None:
    """The byte in the pipe wakes the loop."""


def _lines(woken: int, children: set[int]) -> Iterator[bytes]:
    """What is asked for; meanwhile children that end are reaped."""
    left = b""
    while True:
        readable, _, _ = select.select([0, woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            _reap(children)
        if 0 in readable:
            data = os.read(0, 65_536)
            if not data:
                return
            *lines, left = (left + data).split(b"\n")
            yield from lines


def _found(name: str | None) -> Prepare | None:
    if name is None:
        return None
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _reap(children: set[int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            report({"pid": pid, "stopped": True})
        else:
            children.discard(pid)
            report({"pid": pid, "ended": os.waitstatus_to_exitcode(status)})


def _fork(wanted: Report, prepare: Prepare | None) -> int:
    pid = os.fork()
    if pid:
        report({"number": wanted["number"], "pid": pid})
        return pid
    code = 70
    try:
        code = _run(wanted, prepare)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(wanted: Report, prepare: Prepare | None) -> int:
    """In the child: the command, with an environment and an output of its own."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reports = os.dup(1)
    output = os.open(wanted["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(wanted["env"])
    if prepare is not None:
        pid = os.getpid()
        prepare(lambda line: _report_to(reports, {"pid": pid, **line}))
    from runward.__main__ import app  # noqa: PLC0415 - it is loaded, and the test does not need it

    try:
        app([wanted["command"]])
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 0


def _report_to(descriptor: int, line: Report) -> None:
    os.write(descriptor, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
