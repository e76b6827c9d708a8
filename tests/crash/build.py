"""Run the service with the crash points in it: `python -m tests.crash.build worker`.

It wraps the functions that the points name, and fails if one of them no longer exists. Then it runs
`python -m runward`. A point does nothing until the test arms it, in a file that both map into
memory (CRASH_ARMS). Then it reports that it was reached. Once, it kills or freezes its own
process, or cuts its connections to PostgreSQL.
"""

import functools
import importlib
import inspect
import json
import mmap
import os
import signal
import socket
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.crash.mistakes import plant
from tests.crash.points import POINTS, Point
from tests.support.services.nursery import Order, Report

SIZE = 4096


class Arms:
    """What is armed: an empty text, or `POINT FAULT`."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SIZE)

    def set(self, point: str, fault: str) -> None:
        text = f"{point} {fault}".encode()
        self._memory[: len(text) + 1] = text + b"\0"

    def clear(self) -> None:
        self._memory[0] = 0

    def get(self) -> str:
        if not self._memory[0]:
            return ""
        return self._memory[: self._memory.find(b"\0")].decode()


class Build:
    """`report` tells the test which point was reached."""

    def __init__(self, arms: Arms, report: Callable[[Report], None]) -> None:
        self._arms = arms
        self._report = report

    def wrap_all(self) -> None:
        by_target: dict[str, list[Point]] = defaultdict(list)
        for point in POINTS:
            by_target[point.target].append(point)
        for target, points in by_target.items():
            owner, name = found(target)
            original = inspect.getattr_static(owner, name)
            setattr(owner, name, self._wrapped(original, points))

    def _wrapped(self, original: Callable[..., Any], points: list[Point]) -> Callable[..., Any]:
        before = [point for point in points if point.moment == "before"]
        after = [point for point in points if point.moment == "after"]

        @functools.wraps(original)
        async def wrapped_async(*args: Any, **kwargs: Any) -> Any:
            self._reach(before, args, None)
            result = await original(*args, **kwargs)
            self._reach(after, args, result)
            return result

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._reach(before, args, None)
            result = original(*args, **kwargs)
            self._reach(after, args, result)
            return result

        return wrapped_async if inspect.iscoroutinefunction(original) else wrapped

    def _reach(self, points: list[Point], values: tuple[Any, ...], result: Any) -> None:
        armed, _, fault = self._arms.get().partition(" ")
        for point in points:
            if point.name == armed and _is_now(point, values, result):
                self._arms.clear()
                self._report({"reached": point.name, "fault": fault})
                self._strike(point, fault)

    def _strike(self, point: Point, fault: str) -> None:
        match fault:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "freeze":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "cut":
                cut_connections(os.environ["DATABASE_URL"])
                if point.answered:
                    raise ConnectionResetError("The answer was lost with the connection.")
            case _:
                raise ValueError(fault)


def _is_now(point: Point, values: tuple[Any, ...], result: Any) -> bool:
    """Whether this is the moment that the point means. A point that no longer understands the
    values of its function ends the process, and its cell fails."""
    try:
        return point.when(values, result)
    except Exception:
        traceback.print_exc()
        os._exit(1)


def found(target: str) -> tuple[Any, str]:
    """The module or class, and the name in it. Fails if there is none of that name any more."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part, None)
    if owner is None or not callable(getattr(owner, name, None)):
        sys.exit(f"The crash point at {target} is gone: change tests/crash/points.py.")
    return owner, name


def cut_connections(database_url: str) -> None:
    """End every connection of this process to PostgreSQL, as a network does: both ends see it."""
    port = urlsplit(database_url.replace("+asyncpg", "")).port or 5432
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it is no socket, is not connected, or is closed by now
            _cut(os.dup(int(descriptor.name)), port)


def _cut(copy: int, port: int) -> None:
    """Shut down the connection if it leads to PostgreSQL. Close `copy` in every case: as long as a
    copy of a pipe is open, the reader of the pipe, such as a `subprocess`, waits."""
    try:
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with connection:
        peer = connection.getpeername()
        if ".s.PGSQL" in str(peer) or (isinstance(peer, tuple) and peer[1] == port):
            connection.shutdown(socket.SHUT_RDWR)


def prepare(_order: Order, report: Callable[[Report], None]) -> None:
    """For `Forks`."""
    plant()
    if path := os.environ.get("CRASH_ARMS"):
        Build(Arms(Path(path)), report).wrap_all()


def main() -> None:
    prepare({}, lambda line: print(json.dumps(line), flush=True))
    from runward.__main__ import app  # noqa: PLC0415 - what it runs is wrapped by now

    app()


if __name__ == "__main__":
    main()
