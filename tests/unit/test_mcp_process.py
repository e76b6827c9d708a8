"""The process of an MCP server that is a command: how it is read, and how it ends."""

import asyncio
import os
import sys
import time
from pathlib import Path

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification

from runward.tools.mcp import process
from runward.tools.mcp.process import (
    Lines,
    LongLineError,
    StandardError,
    process_streams,
    without_credentials,
)

pytestmark = pytest.mark.processes

STUBBORN = """if True:
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = os.fork()
    if child:
        print('{"jsonrpc": "2.0", "method": "ready"}', flush=True)
    time.sleep(60)
"""
LAST_WORDS = """if True:
    import sys
    print("x" * 1_000_000, flush=True)
    sys.stderr.write(sys.stdin.read())
"""


def lines_of(*chunks: bytes) -> list[bytes]:
    lines = Lines()
    return [line for chunk in chunks for line in lines.feed(chunk)]


def test_lines_are_found_wherever_the_chunks_were_cut() -> None:
    assert lines_of(b"a", b"b\nc\n\nd", b"\n", b"e") == [b"ab", b"c", b"", b"d"]


def test_a_line_may_be_as_long_as_a_message_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_MESSAGE_BYTES", 4)
    assert lines_of(b"ab", b"cd\n", b"efgh\n") == [b"abcd", b"efgh"]
    lines = Lines()
    found: list[bytes] = []
    with pytest.raises(LongLineError, match="more than 4 bytes"):
        found.extend(lines.feed(b"one\nabcde"))
    assert found == [b"one"]


async def test_a_line_of_too_many_values_is_not_parsed() -> None:
    program = "print('[' + '[],' * 500_000 + '1]')"
    async with process_streams(sys.executable, ("-S", "-c", program), {}, sys.stderr) as (read, _):
        [error] = [item async for item in read]
    assert isinstance(error, LongLineError)
    assert "500,000 values" in str(error)


@pytest.mark.parametrize("cancelled", [False, True], ids=["left", "cancelled"])
async def test_a_process_and_its_children_end_with_the_session(
    *, cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_SECONDS", 0.1)
    open_while_alive, theirs = os.pipe()
    ready = asyncio.Event()
    leave = asyncio.Event()

    async def session() -> None:
        args = ("-S", "-c", STUBBORN)
        with os.fdopen(theirs, "w") as errors:
            async with process_streams(sys.executable, args, {}, errors) as (messages, _):
                await messages.receive()
                ready.set()
                await leave.wait()

    task = asyncio.create_task(session())
    await ready.wait()
    if cancelled:
        task.cancel()
    leave.set()
    await asyncio.wait({task})
    assert task.cancelled() == cancelled
    async with asyncio.timeout(20):
        await anyio.wait_readable(open_while_alive)
    assert os.read(open_while_alive, 1) == b""
    os.close(open_while_alive)


async def test_a_process_that_still_writes_gets_the_last_message(tmp_path: Path) -> None:
    last = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="bye"))
    with (tmp_path / "heard").open("w") as heard:
        args = ("-S", "-c", LAST_WORDS)
        async with process_streams(sys.executable, args, {}, heard) as (_, messages):
            await messages.send(last)
    assert '"method":"bye"' in (tmp_path / "heard").read_text()


@pytest.mark.parametrize("line", ["token" * 400, "a" * 4096, "token-" * 400, "://" * 1300])
def test_no_line_of_standard_error_keeps_the_service_busy(line: str) -> None:
    began = time.process_time()
    without_credentials(line)
    assert time.process_time() - began < 1


async def test_the_value_of_a_long_line_of_standard_error_stays_hidden() -> None:
    errors = StandardError()
    with errors.open_file() as file:
        file.write("first\npassword=" + "hunter2" * 1000 + "\n \n")
    assert errors.last_line == "password=…"
    with errors.open_file() as file:
        file.write("it has ended")
    assert errors.last_line == "it has ended"
