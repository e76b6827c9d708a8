"""The process of an MCP server that is started by a command, as a transport for the SDK's client.

The SDK's own transport appends to an unfinished line by copying it, which takes quadratic time, and
does not limit its length. This one reads each byte once and ends the session if a line is too long.
It starts and stops the process as the SDK does. Standard error is copied to the service's own, and
its last line is kept for error messages.
"""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from runward.domain.json import clean_text, holds_too_many_values
from runward.tools.mcp.http import MAX_MESSAGE_BYTES, TOO_MANY_VALUES

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

log = structlog.get_logger()

STOP_SECONDS: Final = 2.0
"""Seconds for a process to end after its input was closed, and again after SIGTERM."""
_FLUSH_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.01
_READ_BYTES: Final = 65_536


class LongLineError(ValueError):
    """A line of standard output is longer than the largest message, or holds too many values."""


class Lines:
    """Splits bytes that were cut at any place into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Generator[bytes]:
        """Yield each line that ends in the chunk. Raises LongLineError."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._append(end)
            yield bytes(self._rest)
            self._rest.clear()
        self._append(rest)

    def _append(self, piece: bytes) -> None:
        if len(self._rest) + len(piece) > MAX_MESSAGE_BYTES:
            raise LongLineError(
                f"the server wrote a line of more than {MAX_MESSAGE_BYTES} bytes to its standard "
                "output."
            )
        self._rest += piece


@asynccontextmanager
async def process_streams(
    command: str, args: Sequence[str], env: dict[str, str], errors: TextIO
) -> "AsyncGenerator[tuple[Any, Any]]":
    """Start the process, and yield the streams of messages from it and to it.

    The process has ended when the block is left. A LongLineError is the last item of the stream
    from it. Raises OSError or ValueError if it cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=_READ_BYTES, loop=loop),
        *(command, *args),
        stdin=PIPE,
        stdout=PIPE,
        stderr=errors,
        env=env,
        start_new_session=True,
    )
    process = Process(transport, protocol, loop)
    to_session, from_process = anyio.create_memory_object_stream[Any](0)
    to_process, from_session = anyio.create_memory_object_stream[Any](0)
    written = asyncio.Event()
    refused = asyncio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, to_session, refused.set)
        tasks.start_soon(_write, process, from_session, to_session, written.set)
        try:
            yield from_process, to_process
        finally:
            with anyio.CancelScope(shield=True):
                # A process that waits to write cannot read: without a session, its output is read
                # and dropped, so that it gets the last messages.
                from_process.close()
                to_process.close()
                with anyio.move_on_after(_FLUSH_SECONDS):
                    await written.wait()
                await _stop(process, 0 if refused.is_set() else STOP_SECONDS)
                with suppress(PermissionError):  # the process changed its user
                    transport.close()
                to_session.close()
                from_session.close()
            tasks.cancel_scope.cancel()


async def _read(
    process: Process, to_session: MemoryObjectSendStream[Any], refused: Callable[[], None]
) -> None:
    assert process.stdout is not None
    lines = Lines()
    with suppress(OSError):
        with to_session, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            try:
                while chunk := await process.stdout.read(_READ_BYTES):
                    for line in lines.feed(chunk):
                        await to_session.send(_message(line))
            except LongLineError as error:
                refused()
                await to_session.send(error)
                return
        while await process.stdout.read(_READ_BYTES):
            pass


async def _write(
    process: Process,
    from_session: MemoryObjectReceiveStream[Any],
    to_session: MemoryObjectSendStream[Any],
    written: Callable[[], None],
) -> None:
    assert process.stdin is not None
    try:
        with from_session:
            async for item in from_session:
                message = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(f"{message}\n".encode(errors="replace"))
                await process.stdin.drain()
    except OSError:
        to_session.close()  # the process may continue to run, and a request would wait forever
    finally:
        written()


def _message(line: bytes) -> "SessionMessage | Exception":
    """Return the message, or the error, which the session ignores. An invalid byte is replaced.
    Raises LongLineError."""
    from mcp.shared.message import SessionMessage  # noqa: PLC0415
    from mcp.types import jsonrpc_message_adapter  # noqa: PLC0415

    if holds_too_many_values(line):
        raise LongLineError(f"the server wrote {TOO_MANY_VALUES} to its standard output.")
    try:
        text = line.decode(errors="replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        log.warning("mcp_line_ignored", size=len(line))
        return error


async def _stop(process: Process, seconds: float) -> None:
    """Close the process's input, and end its group if it is still alive after `seconds`."""
    assert process.stdin is not None
    process.stdin.close()
    if await _wait_until(lambda: process.returncode is not None, seconds):
        return
    _signal(process, signal.SIGTERM)
    if await _wait_until(lambda: _is_gone(process), STOP_SECONDS):
        return
    _signal(process, signal.SIGKILL)
    if not await _wait_until(lambda: process.returncode is not None, STOP_SECONDS):
        log.warning("mcp_process_not_ended", pid=process.pid)


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _is_gone(process: Process) -> bool:
    """Return whether all processes of the group have ended, and the exit status of the first was
    read."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return process.returncode is not None
    except PermissionError:
        pass
    return False


async def _wait_until(happened: Callable[[], bool], seconds: float) -> bool:
    # Process.wait() would also wait until no child of it holds its pipes.
    for _ in range(round(seconds / _POLL_SECONDS)):
        if happened():
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return happened()


MAX_LINE: Final = 300
"""Characters of the last line."""
_LINE_BYTES: Final = 4096
"""Bytes of a line's beginning. The end alone could be a credential without its name."""
_HIDDEN: Final = "…"
_CREDENTIALS: Final = re.compile(
    r"""(?ix)
    (?P<name> (?<![\w-])
        (?= [\w-]*?
            (?: api[_-]?key | token | secret | passw(?:or)?d | authorization | credential ) )
        [\w-]++ ["']? \s*+ [=:] \s*+ ) (?: (?:bearer|basic) \s+ )? [^\s,;]+
    | (?P<scheme> \b (?:bearer|basic) \s+ ) \S+
    | (?P<user> :// ) [^\s/@]+ @
    | \b (?: sk | pk | rw | ghp | gho | github_pat | glpat | xox[a-z] | eyJ ) [-_.]? [\w.-]{16,}
    """
)


class StandardError:
    """The standard error of one process."""

    def __init__(self) -> None:
        self._line = self._rest = b""

    @property
    def last_line(self) -> str:
        """The last line that is not empty, without credentials. Empty if there is none."""
        last = (self._rest if self._rest.strip() else self._line).decode(errors="replace")
        printable = "".join(c if c.isprintable() else " " for c in clean_text(last))
        return without_credentials(" ".join(printable.split()))[:MAX_LINE]

    @contextmanager
    def open_file(self) -> Generator[TextIO]:
        """Yield the file that the process writes to. Everything written is read when the block
        ends."""
        loop = asyncio.get_running_loop()
        source, target = os.pipe()
        os.set_blocking(source, False)
        loop.add_reader(source, self._read, source)
        try:
            with os.fdopen(target, "w") as file:
                yield file
        finally:
            loop.remove_reader(source)
            self._read(source)
            os.close(source)

    def _read(self, source: int) -> None:
        try:
            data = os.read(source, _READ_BYTES)
        except BlockingIOError:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        self._line = next((one for one in reversed(lines) if one.strip()), self._line)[:_LINE_BYTES]
        self._rest = rest[:_LINE_BYTES]
        with suppress(OSError, ValueError):  # the service's own may be closed
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()


def without_credentials(text: str) -> str:
    """Return the text without anything that looks like a key, a token or a password."""
    return _CREDENTIALS.sub(
        lambda found: f"{found['name'] or found['scheme'] or found['user'] or ''}{_HIDDEN}", text
    )
