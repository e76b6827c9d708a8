"""The program that runs a command and ends everything that the command started.

Its first line of standard input is JSON: {"command": [...], "stdin": text, "limits": {name: n}},
the limits by the names of the module `resource` without RLIMIT_. The command has the environment,
the folder and the outputs of this process, and a session of its own. When it ends, or when this
standard input ends because the caller is gone, all its remaining processes are killed, also those
that have left its session, because the kernel makes this process the parent of every
orphan (PR_SET_CHILD_SUBREAPER, prctl(2), Linux only). Elsewhere, only the command's process group
is killed. The exit code is that of the command, 128 plus the signal's number, or 127 if the command
could not be started.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"


def main() -> int:
    source = sys.stdin.buffer
    order = json.loads(source.readline())
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        child = start(order)
    except OSError as error:
        print(f"{order['command'][0]}: {error.strerror}", file=sys.stderr)
        return 127
    threading.Thread(target=end_with, args=(source, child), daemon=True).start()
    code = child.wait()
    kill_all(child)
    return code if code >= 0 else 128 - code


def start(order: Any) -> "subprocess.Popen[bytes]":
    def limit() -> None:
        for name, value in order["limits"].items():
            kind = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(kind)[1]
            allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (allowed, allowed))

    with tempfile.TemporaryFile() as told:
        told.write(order["stdin"].encode())
        told.seek(0)
        return subprocess.Popen(
            order["command"],
            stdin=told,
            start_new_session=True,
            preexec_fn=limit,  # noqa: PLW1509  # there is no other thread yet
        )


def end_with(source: IO[bytes], child: "subprocess.Popen[bytes]") -> None:
    source.read()
    kill_all(child)


def kill_all(child: "subprocess.Popen[bytes]") -> None:
    """Kill descendants until none is left, because new ones can start in the meantime."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    while LINUX and (living := descendants(os.getpid())):
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(ancestor: int) -> list[int]:
    """Return the descendants that are not zombies."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended in the meantime
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                children.setdefault(int(parent), []).append((int(entry.name), state))
    found, todo = list[int](), [ancestor]
    while todo:
        for pid, state in children.get(todo.pop(), []):
            todo.append(pid)
            if state not in "ZX":
                found.append(pid)
    return found


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # a thread still reads standard input
