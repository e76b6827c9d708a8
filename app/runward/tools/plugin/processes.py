"""Calls of tools with `isolation="process"`. Each call runs in a new process that ends with the
call.

The request and the answers are JSON. Arguments and results are never pickled.
"""

import asyncio
import os
import signal
import sys
from asyncio import SubprocessTransport, WriteTransport
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final, cast

import structlog
from pydantic import TypeAdapter

from runward.domain.json import MAX_DEPTH, JsonObject, compact, parse
from runward.domain.run.outcomes import AgentRequest, Done, Failed, FailureKind, Outcome, Waits
from runward.domain.run.response import ReportedUsage
from runward.tools.base import LEASE_LOST, AddUsage, Report
from runward.tools.environment import child_environment
from runward.tools.plugin.context import CallFacts

log = structlog.get_logger()

MAX_LINE: Final = 33_554_432
"""Maximum number of bytes of one line, including base64 data."""
MAX_FRAME_DEPTH: Final = MAX_DEPTH + 8
"""Maximum nesting of one line: the value, and the message that contains it."""
_OUTCOMES: Final = TypeAdapter[Outcome](Done | Failed)
_USAGE: Final = TypeAdapter(ReportedUsage)


class Processes:
    """Runs at most `limit` processes at once. More calls wait, within their own timeouts."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._running: set[Process] = set()

    async def run(
        self,
        reference: str,
        facts: CallFacts,
        arguments: JsonObject,
        *,
        explains: bool,
        secrets: Mapping[str, str],
        report: Report,
        add_usage: AddUsage,
        may_send: Callable[[], Awaitable[bool]],
    ) -> Outcome:
        """Run a call. `reference` is `package.module:name`. `explains`: whether to call the tool's
        `on_error` function. If the call is cancelled, the process and its
        children are killed."""
        async with self._slots:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "runward.tools.plugin.child_process"),
                stdin=PIPE,
                stdout=PIPE,
                env=child_environment(),
                limit=MAX_LINE,
                start_new_session=True,
            )
            self._running.add(process)
            try:
                request = {
                    "reference": reference,
                    "facts": asdict(facts),
                    "arguments": arguments,
                    "explains": explains,
                    "secrets": dict(secrets),
                }
                if not await may_send():
                    return LEASE_LOST
                return await _converse(process, request, report, add_usage)
            finally:
                _kill(process)
                self._running.discard(process)
                _close_pipes(process)
                await process.wait()

    def close(self) -> None:
        for process in self._running:
            _kill(process)


async def _converse(
    process: Process, request: Mapping[str, Any], report: Report, add_usage: AddUsage
) -> Outcome:
    assert process.stdin is not None
    assert process.stdout is not None
    started = False
    with suppress(ConnectionError):  # the process ended, which the read below reports
        process.stdin.write(compact(request).encode() + b"\n")
        await process.stdin.drain()
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:
            return Failed(
                FailureKind.INVALID_RESPONSE, f"The result is larger than {MAX_LINE} bytes."
            )
        if not line.endswith(b"\n"):
            code = await process.wait()
            detail = (
                f"The process of the tool ended with exit code {code} before it returned a result."
            )
            return Failed(FailureKind.UNKNOWN if started else FailureKind.NOT_SENT, detail)
        match cast(Any, parse(line.decode(), max_depth=MAX_FRAME_DEPTH)):
            case {"progress": _} | {"usage": _} as reported:
                _pass_on(reported, report, add_usage)
            case {"agents": requests}:
                return Waits(on="child", agents=tuple(AgentRequest(**one) for one in requests))
            case {"outcome": outcome}:
                ended = _OUTCOMES.validate_python(outcome)
                if isinstance(ended, Failed):
                    reason = str(ended.reason)
                    log.warning("plugin_process_failed", function=request["reference"], why=reason)
                return ended
            case _:
                started = True


def _pass_on(reported: Mapping[str, Any], report: Report, add_usage: AddUsage) -> None:
    if "usage" in reported:
        add_usage(_USAGE.validate_python(reported["usage"]))
    else:
        report(*reported["progress"])


def _close_pipes(process: Process) -> None:
    """Close the process's pipes. Another process may hold their other ends, and asyncio would wait
    until these are closed."""
    transport: SubprocessTransport = cast(Any, process)._transport
    for number in (0, 1):
        pipe = transport.get_pipe_transport(number)
        if isinstance(pipe, WriteTransport) and not pipe.is_closing():
            pipe.abort()
        elif pipe is not None and not pipe.is_closing():
            pipe.close()


def _kill(process: Process) -> None:
    """Kill the process and its group. The exit status was not read yet, so no other process can
    have the ID."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
