"""A process that has imported the service once, and forks one for each command.

Starting the service from nothing takes about a second of CPU time, nearly all of it for imports; a
fork takes some milliseconds. Each fork becomes the real command: its own environment, arguments,
standard streams, signals, exit code, and the interpreter's own end.

It reads JSON lines on standard input, `{"name", "command", "env", "output"}`, and writes them on
standard output: `{"ready": true}`, `{"name", "pid"}`, and `{"pid", "code"}` at the end of each.
When its standard input ends, it kills all of them and ends.
"""

import ctypes
import gc
import json
import os
import runpy
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import uuid_utils

from tests.chaos import stalling

PRELOADED: Final = (
    *(
        "runward.__main__",
        "runward.serve",
        "runward.operating.environment",
        "uvloop",
        "uvicorn.server",
    ),
    *("uvicorn.loops.uvloop", "uvicorn.protocols.http.httptools_impl", "openai", "asyncpg"),
    *("openai.resources.chat", "openai.resources.responses", "mcp"),
    "sqlalchemy.dialects.postgresql.asyncpg",
)


DIE_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal sends them to the stage as well, which then stops its processes in its own order."""


def main() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _preload()
    order = _tend()
    if order is not None:
        _become(order)


def _preload() -> None:
    """Import everything, before any thread or event loop exists."""
    gc.set_threshold(100_000)
    for name in PRELOADED:
        with suppress(ImportError):
            __import__(name)
    del sys.modules["runward.__main__"]  # each child runs it
    gc.collect()
    gc.freeze()
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"an import has started threads, which forks lack: {threads}"


def _tend() -> dict[str, Any] | None:
    """Fork a child for each order. Return its order in a child, and None at the input's end."""
    children: dict[int, int] = {}  # its pidfd, and its pid
    orders, poll = _Orders(), select.poll()
    poll.register(0, select.POLLIN)
    _say({"ready": True})
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != 0:
                poll.unregister(descriptor)
                _reap(descriptor, children)
                continue
            read = orders.read()
            if read is None:
                _kill(children)
                return None
            for order in read:
                pid = os.fork()
                if pid == 0:
                    return order
                opened = os.pidfd_open(pid)
                children[opened] = pid
                poll.register(opened, select.POLLIN)
                _say({"name": order["name"], "pid": pid})


class _Orders:
    def __init__(self) -> None:
        self._rest = b""

    def read(self) -> list[dict[str, Any]] | None:
        data = os.read(0, 65_536)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def _say(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def _reap(descriptor: int, children: dict[int, int]) -> None:
    os.close(descriptor)
    pid, status = os.waitpid(children.pop(descriptor), 0)
    _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _kill(children: dict[int, int]) -> None:
    for descriptor, pid in children.items():
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become(order: dict[str, Any]) -> None:
    """Run the command, as `python -m runward COMMAND` would."""
    os.setsid()
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, target)
    os.closerange(3, 1024)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(Path(__file__).parents[2])
    uuid_utils.reseed_rng()
    stalling.obey(order["name"], Path(order["output"]))
    gc.enable()
    sys.argv = ["runward", order["command"]]
    runpy.run_module("runward", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
