"""Make the clock of the host wrong, by the number of seconds in the file that WRONG_CLOCK names.
Python imports this module before all others. Monotonic clocks stay right, as on a host with a wrong
date.

libfaketime cannot do this: with it, `time.sleep` fails, and waits take as long as the clock jumps.
"""

import ctypes
import gc
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any

real_time = time.time
real_time_ns = time.time_ns
real_gmtime = time.gmtime
real_localtime = time.localtime


def wrong_by() -> int:
    with open(os.environ["WRONG_CLOCK"]) as file:
        return int(file.read())


def wrong_time() -> float:
    return real_time() + wrong_by()


def wrong_time_ns() -> int:
    return real_time_ns() + wrong_by() * 10**9


def at_wrong_time(
    real: Callable[[float], time.struct_time],
) -> Callable[[float | None], time.struct_time]:
    def convert(seconds: float | None = None) -> time.struct_time:
        return real(wrong_time() if seconds is None else seconds)

    return convert


def wrong_now(cls: type[datetime], tz: tzinfo | None = None) -> datetime:
    return cls.fromtimestamp(wrong_time(), tz)


def wrong_utcnow(cls: type[datetime]) -> datetime:
    return cls.fromtimestamp(wrong_time(), UTC).replace(tzinfo=None)


def install() -> None:
    time.time = wrong_time
    time.time_ns = wrong_time_ns
    time.gmtime = at_wrong_time(real_gmtime)  # pyright: ignore[reportAttributeAccessIssue]
    time.localtime = at_wrong_time(real_localtime)  # pyright: ignore[reportAttributeAccessIssue]
    # A class in C takes no new attributes, and a class in its place is not what libraries expect.
    [members] = gc.get_referents(datetime.__dict__)
    members.update(now=classmethod(wrong_now), utcnow=classmethod(wrong_utcnow))
    modified: Any = ctypes.pythonapi.PyType_Modified
    modified(ctypes.py_object(datetime))


if "WRONG_CLOCK" in os.environ:
    install()
