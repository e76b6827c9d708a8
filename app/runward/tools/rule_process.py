"""The program that compiles and evaluates rules, one request at a time.

Each line of standard input is a request in JSON. Standard output carries one line for each rule:
true, false, or the reason why there is no result. A last line is the CPU time in seconds. If a
request needs too much CPU time, the kernel ends the process. The program is started by its path and
not as a module, so that it imports only the rules and starts within 50 ms.
"""

import json
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from runward.domain.registry.rules import Rule, RuleError, RuleFailure, compile_rule

CPU_SECONDS: Final = 0.25
"""Limit of CPU time in seconds for the rules of one request."""
MEMORY_BYTES: Final = 268_435_456
"""Limit of memory in bytes for one request."""
KEPT_BYTES: Final = 134_217_728
"""Limit of memory in bytes for the cache of compiled rules, in addition to MEMORY_BYTES."""
RULE_BYTES: Final = 100_000
CHARACTER_BYTES: Final = 340
"""The size of a compiled rule, and the largest size of each of its characters (measured with nested
macros)."""


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its input ends after the service
    _limit_memory()
    out = sys.stdout.buffer
    kept: dict[str, Rule | str] = {}
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        begun = time.process_time()
        for answer in _answers(line, kept):
            out.write(json.dumps(answer).encode() + b"\n")
            out.flush()  # keeps this result if the next rule ends the process
        signal.setitimer(signal.ITIMER_PROF, 0)
        out.write(json.dumps(time.process_time() - begun).encode() + b"\n")
        out.flush()


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # the file exists on Linux only
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY_BYTES + KEPT_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _answers(line: bytes, kept: dict[str, Rule | str]) -> Iterator[bool | str]:
    try:
        request: Any = json.loads(line)
    except (ValueError, RecursionError, MemoryError):  # for example integers of thousands of digits
        sys.exit(1)
    for text, values in request["rules"]:
        compiled = _compiled(text, kept)
        if isinstance(compiled, str):
            yield compiled
        elif values is None:  # only to be compiled
            yield True
        else:
            answer = compiled.evaluate({**request["shared"], **values})
            yield answer.reason if isinstance(answer, RuleFailure) else answer


def _compiled(text: str, kept: dict[str, Rule | str]) -> Rule | str:
    """Return the compiled rule, or the reason why there is none. `cache` holds the least recently
    used rule first."""
    rule = kept.pop(text, None)
    if rule is None:
        size = sum(map(_bytes_of, kept)) + _bytes_of(text)
        while kept and size > KEPT_BYTES:
            oldest = next(iter(kept))
            size -= _bytes_of(oldest)
            del kept[oldest]
        try:
            rule = compile_rule(text)
        except RuleError as error:
            rule = str(error)
    kept[text] = rule
    return rule


def _bytes_of(text: str) -> int:
    return RULE_BYTES + CHARACTER_BYTES * len(text)


if __name__ == "__main__":
    main()
