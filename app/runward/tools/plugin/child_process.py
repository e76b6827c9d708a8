"""The program that runs one call of a tool with `isolation="process"`.

The first line of standard input is the request. Standard output carries one line of JSON for each
progress report and each reported usage, one when the function starts, and one with the outcome. The
function's own output goes to standard error. If the input ends, the service has ended, and the
process group ends itself.
"""

import asyncio
import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any, Final

import structlog
from pydantic_core import from_json

from runward.domain.json import JsonObject, compact
from runward.domain.run.outcomes import Failed, FailureKind, Outcome, Waits
from runward.domain.run.response import ReportedUsage
from runward.tools.plugin.context import CallFacts, ToolContext
from runward.tools.plugin.function_call import (
    NOT_CANCELLED,
    BindArguments,
    call_directly,
    describe_error,
    run_function,
)
from runward.tools.plugin.tool import find_tool, load_functions

_OUT, _IN = 1, 0
_CRITICAL: Final = 50
"""The log level of this program. The service logs the outcome of the call."""


class _Lines:
    """Lines to the service. The function may report from several threads."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out: Final = out
        self._lock = threading.Lock()

    def send(self, line: Mapping[str, object]) -> None:
        with self._lock:
            self._out.write(compact(line).encode() + b"\n")
            self._out.flush()


def main() -> None:
    lines = _Lines(os.fdopen(os.dup(_OUT), "wb"))
    os.dup2(sys.stderr.fileno(), _OUT)
    source = os.fdopen(os.dup(_IN), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _IN)
    request: Any = from_json(source.readline())
    threading.Thread(target=_end_with, args=(source,), daemon=True).start()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))
    outcome = asyncio.run(_answer(request, lines))
    sys.stdout.flush()
    sys.stderr.flush()
    if isinstance(outcome, Waits):
        lines.send({"agents": outcome.agents})
    else:
        lines.send({"outcome": outcome})
    threading.Event().wait()  # the service ends the whole group


def _end_with(source: IO[bytes]) -> None:
    source.read()
    os.killpg(os.getpgrp(), signal.SIGKILL)


async def _answer(request: Any, lines: _Lines) -> Outcome:
    told: dict[str, Any] = request["facts"]
    facts = CallFacts(handoffs=tuple(told.pop("handoffs")), **told)

    def report(fraction: float | None, message: str | None) -> None:
        lines.send({"progress": [fraction, message]})

    def add_usage(usage: ReportedUsage) -> None:
        lines.send({"usage": usage})

    ctx = ToolContext(facts, secrets=request["secrets"], report=report, add_usage=add_usage)
    reference: str = request["reference"]
    try:
        importlib.import_module(reference.partition(":")[0])
        begin, on_error = load_functions(find_tool(reference))
    except Exception as error:  # the plugin's module can raise anything
        detail = f"{reference} cannot be imported: {describe_error(error)}"
        return Failed(FailureKind.NOT_SENT, detail, permanent=True)
    try:
        return await run_function(
            _serve_call(begin, lines),
            call_directly,
            ctx,
            request["arguments"],
            partial(_explain, on_error) if on_error and request["explains"] else None,
        )
    except asyncio.CancelledError:  # the service cancels a call by ending the process
        return Failed(FailureKind.ERROR, NOT_CANCELLED)


async def _explain(on_error: Callable[..., Any], error: Exception) -> Any:
    text = on_error(error)
    return await text if inspect.isawaitable(text) else text


def _serve_call(begin: BindArguments, lines: _Lines) -> BindArguments:
    def telling(ctx: ToolContext, arguments: JsonObject) -> Any:
        call = begin(ctx, arguments)

        def started() -> Any:
            lines.send({"started": True})
            return call()

        return started

    return telling


if __name__ == "__main__":
    main()
