"""A process that has imported the service once, and forks a process for each order.

    python -m tests.support.services.nursery '{"preload": [], "prepare": null}'

Starting the service from nothing takes about two seconds of CPU time, nearly all of it for imports;
a fork takes some milliseconds. Each fork becomes the real program, as `python -m MODULE` would run
it: its own environment, arguments, standard streams, session, signals, exit code, and the
interpreter's own end.

It reads orders on standard input, one JSON object in each line, with `name`, `module`, `arguments`,
`env`, `folder`, `output` and `errors`. It writes reports on standard output, one in each line:
`{"name", "pid"}` for each order, `{"pid", "open": true}` when the streams of the process are open,
`{"pid", "stopped": true}`, and `{"pid", "code"}` at its end. When its standard input ends, it kills
all of its processes and ends.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import sys
import time
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, Final, TypeAlias, cast

import uuid_utils

Order: TypeAlias = dict[str, Any]
Report: TypeAlias = dict[str, Any]
Prepare: TypeAlias = Callable[[Order, Callable[[Report], None]], None]
"""What a fork does before it runs its program. The function that it is given adds a line to what
the nursery writes."""

PRELOADED: Final = (
    "runward.__main__",
    "runward.serve",
    "runward.quickstart",
    "runward.operating.environment",
    "asyncpg",
    "jsonschema",
    "mcp.client.streamable_http",
    "openai.resources.chat",
    "openai.resources.responses",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
ABSENT: Final = ("rfc3987_syntax",)
"""Only development tools install it, and `jsonschema` then takes a second more to import."""
DIE_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal sends them to the test as well, which then stops its processes in its own order."""
GARBAGE_THRESHOLDS: Final = (50_000, 20, 50)
"""For servers of the tests. The service sets its own."""
REPORTS: Final = 3
"""The descriptor of a fork's reports."""


def main() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    options = json.loads(sys.argv[1])
    _preload([*PRELOADED, *options["preload"]])
    prepare = _find(options["prepare"])
    order = _tend()
    if order is not None:
        _become(order, prepare)


def _preload(modules: list[str]) -> None:
    """Import everything, before any thread or event loop exists."""
    gc.disable()
    for name in ABSENT:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    for name in modules:
        importlib.import_module(name)
    del sys.modules["runward.__main__"]  # each fork runs it
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"an import has started threads, which forks lack: {threads}"


def _find(name: str | None) -> Prepare | None:
    if name is None:
        return None
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _tend() -> Order | None:
    """Fork a process for each order. Return its order in a fork, and None at the input's end."""
    children: set[int] = set()
    orders, wakes = _Orders(), _wakes_of_children()
    while True:
        readable, _, _ = select.select([0, wakes], [], [])
        if wakes in readable:
            os.read(wakes, 4096)
            _reap(children)
        if 0 not in readable:
            continue
        read = orders.read()
        if read is None:
            _kill(children)
            return None
        for order in read:
            pid = os.fork()
            if pid == 0:
                return order
            children.add(pid)
            _write({"name": order["name"], "pid": pid})


def _wakes_of_children() -> int:
    """Return a descriptor that can be read when a child has stopped or ended."""
    wakes, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    return wakes


def _ignore(_number: int, _frame: object) -> None:
    """The byte in the pipe is what counts."""


class _Orders:
    def __init__(self) -> None:
        self._rest = b""

    def read(self) -> list[Order] | None:
        data = os.read(0, 65_536)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def _write(line: Report, descriptor: int = 1) -> None:
    os.write(descriptor, json.dumps(line).encode() + b"\n")


def _reap(children: set[int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            _write({"pid": pid, "stopped": True})
        else:
            children.discard(pid)
            _write({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _kill(children: set[int]) -> None:
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)


def _become(order: Order, prepare: Prepare | None) -> None:
    """Run the program, as `python -m MODULE ARGUMENTS` would."""
    os.setsid()
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    _reset_signals()
    _open_streams(order)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    os.chdir(order["folder"])
    sys.path[:1] = [order["folder"], *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    uuid_utils.reseed_rng()
    gc.enable()
    pid = os.getpid()
    _write({"pid": pid, "open": True}, REPORTS)
    if prepare is not None:
        prepare(order, lambda line: _write({"pid": pid, **line}, REPORTS))
    sys.argv = [order["module"], *order["arguments"]]
    runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (*STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_streams(order: Order) -> None:
    """Standard input is empty. Output is written at once, as with PYTHONUNBUFFERED."""
    reports = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    appended = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    output = os.open(order["output"], appended, 0o644)
    errors = os.open(order["errors"], appended, 0o644)
    for target, source in ((0, nothing), (1, output), (2, errors)):
        os.dup2(source, target)
    os.dup2(reports, REPORTS, inheritable=False)
    os.closerange(REPORTS + 1, 1024)
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(write_through=True)


if __name__ == "__main__":
    main()
