"""The program that compiles and evaluates rules, one request at a time.

Each line of standard input is a request in JSON; standard output carries one line for each rule:
true, false, or the reason why there is no answer. A last line is the CPU time in seconds.
The kernel ends the process if a request needs too much CPU time. It is started by its path, not
as a module, so that it imports nothing but the rules and starts within 50 ms.
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
"""For the rules of one request."""
MEMORY_BYTES: Final = 268_435_456
"""What one request may need."""
KEPT_BYTES: Final = 134_217_728
"""For the rules that are kept compiled, in addition to MEMORY_BYTES."""
RULE_BYTES: Final = 100_000
CHARACTER_BYTES: Final = 340
"""What a compiled rule takes, and each character of it at most (measured with nested macros)."""


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its input, after the service
    _limit_memory()
    out = sys.stdout.buffer
    kept: dict[str, Rule | str] = {}
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        begun = time.process_time()
        for answer in _answers(line, kept):
            out.write(json.dumps(answer).encode() + b"\n")
            out.flush()  # what is known stays known if the next rule ends the process
        signal.setitimer(signal.ITIMER_PROF, 0)
        out.write(json.dumps(time.process_time() - begun).encode() + b"\n")
        out.flush()


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # there is no such file but on Linux
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY_BYTES + KEPT_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _answers(line: bytes, kept: dict[str, Rule | str]) -> Iterator[bool | str]:
    try:
        request: Any = json.loads(line)
    except (ValueError, RecursionError, MemoryError):  # integers of thousands of digits, say
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
    """`kept`: the rules that were compiled, the least recently used one first."""
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
