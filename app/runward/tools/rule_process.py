"""The program that compiles and evaluates rules, one request at a time.

Each line of standard input is a request in JSON. Standard output carries one line for each rule: a
list with the result, or the reason why there is no result. A last line is the CPU time in seconds.
If a request needs too much CPU time, the kernel ends the process. The program is started by its
path and not as a module, so that it imports only the rules and starts within 50 ms.
"""

import hashlib
import json
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from runward.domain.registry.rules import (
    CONCURRENCY_KEY,
    DECISION,
    Rule,
    RuleError,
    RuleFailure,
    RuleValue,
    compile_rule,
)

Kept: TypeAlias = dict[tuple[str, frozenset[str]], Rule | str]
"""The compiled rules, or the reasons why there is none, by text and types of results."""

CPU_SECONDS: Final = 0.25
"""Limit of CPU time in seconds for the rules of one request."""
MEMORY_BYTES: Final = 268_435_456
"""Limit of memory in bytes for one request."""
KEPT_BYTES: Final = 134_217_728
"""Limit of memory in bytes for the cache of compiled rules, in addition to MEMORY_BYTES."""
MAX_TEXT: Final = 1_000
"""Maximum number of characters of a text that is returned unchanged."""
RULE_BYTES: Final = 100_000
CHARACTER_BYTES: Final = 340
"""The size of a compiled rule, and the largest size of each of its characters (measured with nested
macros)."""


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its input ends after the service
    _limit_memory()
    out = sys.stdout.buffer
    kept: Kept = {}
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


def _answers(line: bytes, kept: Kept) -> Iterator[list[RuleValue] | str]:
    try:
        request: Any = json.loads(line)
    except (ValueError, RecursionError, MemoryError):  # for example integers of thousands of digits
        sys.exit(1)
    kinds = CONCURRENCY_KEY if request["keys"] else DECISION
    for text, values in request["rules"]:
        compiled = _compiled(text, kinds, kept)
        if isinstance(compiled, str):
            yield compiled
        elif values is None:  # only to be compiled
            yield []
        else:
            answer = compiled.evaluate({**request["shared"], **values})
            yield answer.reason if isinstance(answer, RuleFailure) else [_shorten(answer)]


def _shorten(value: RuleValue) -> RuleValue:
    """Return the digest of a long text, because the service reads lines of limited size. The values
    of concurrency keys are only compared."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return hashlib.sha256(value.encode()).hexdigest()
    return value


def _compiled(text: str, kinds: frozenset[str], kept: Kept) -> Rule | str:
    """Return the compiled rule, or the reason why there is none. `cache` holds the least recently
    used rule first."""
    name = (text, kinds)
    rule = kept.pop(name, None)
    if rule is None:
        size = sum(_bytes_of(one) for one, _ in kept) + _bytes_of(text)
        while kept and size > KEPT_BYTES:
            oldest = next(iter(kept))
            size -= _bytes_of(oldest[0])
            del kept[oldest]
        try:
            rule = compile_rule(text, kinds)
        except RuleError as error:
            rule = str(error)
    kept[name] = rule
    return rule


def _bytes_of(text: str) -> int:
    return RULE_BYTES + CHARACTER_BYTES * len(text)


if __name__ == "__main__":
    main()
