"""Processes: no task ends without the process saying so, and signals work without a log."""

import asyncio
import errno
import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from itertools import product
from typing import TextIO

import pytest
import structlog
import typer
from pydantic import ValidationError

from runward.operating.environment import configure_logging, run_command
from runward.serve import (
    STOP_SIGNALS,
    TaskEndedError,
    describe_settings,
    describe_start,
    handle_stop_signals,
    supervise,
)
from runward.settings import Settings
from runward.store.postgres.connection_errors import DatabaseUnreachableError
from runward.store.readiness import list_revisions
from runward.version import VERSION

SLOW_MODULES = (
    *("alembic", "anthropic", "botocore", "google.genai", "jsonschema", "mcp", "openai"),
    *("genai_prices", "mako", "pydantic_ai", "sqlalchemy.orm"),
)
"""Modules that take a tenth of a second or several MiB, and that a service may never need."""
MOST_MODULES = 1_480
"""Importing them takes a second of CPU."""


@pytest.mark.processes
def test_a_service_starts_without_modules_that_it_may_never_need() -> None:
    code = (
        "import sys, runward.__main__, runward.operating.environment, runward.quickstart.main, "
        f"runward.serve; print([one for one in {SLOW_MODULES} if one in sys.modules]); "
        "print(len(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, count = done.stdout.splitlines()
    assert found == "[]"
    assert int(count) < MOST_MODULES


class Supervised:
    """A part that drains once the process stops, and a background task."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.told = 0
        self.drained = False
        self.cancelled = False

    async def run(self, background: Awaitable[None]) -> None:
        async def wait() -> None:
            await background

        await supervise(
            {asyncio.create_task(self._part(), name="worker")},
            {asyncio.create_task(wait(), name="listener")},
            self.stop,
            self._tell,
        )

    async def _part(self) -> None:
        await self.stop.wait()
        await asyncio.sleep(0)
        self.drained = True

    def _tell(self) -> None:
        self.told += 1


async def for_ever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise RuntimeError("the connection is in a strange state")


async def end() -> None:
    await asyncio.sleep(0)


async def cancel_itself() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("background", "error", "reason"),
    [
        (fail, RuntimeError, "strange state"),
        (end, TaskEndedError, "'listener' ended unexpectedly"),
        (cancel_itself, TaskEndedError, "'listener' was cancelled"),
    ],
)
async def test_a_task_that_ends_stops_the_process_with_the_reason(
    background: Callable[[], Awaitable[None]], error: type[Exception], reason: str
) -> None:
    supervised = Supervised()
    with pytest.raises(error, match=reason):
        await supervised.run(background())
    assert supervised.drained
    assert supervised.told == 1


async def test_a_process_that_was_asked_to_stop_ends_without_an_error() -> None:
    supervised = Supervised()
    supervised.stop.set()
    await supervised.run(for_ever())
    assert supervised.drained
    assert supervised.told == 1


async def test_a_task_that_fails_while_the_process_stops_is_reported() -> None:
    supervised = Supervised()

    async def fail_late() -> None:
        await supervised.stop.wait()
        await fail()

    supervised.stop.set()
    with pytest.raises(RuntimeError, match="strange state"):
        await supervised.run(fail_late())
    assert supervised.drained


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "a file: No space left on device."),
        (OSError(errno.EROFS, "Read-only file system", "/x/y"), 1, "/x/y: Read-only file system."),
        (TaskEndedError("The task 'relay' ended unexpectedly."), 1, "The task 'relay' ended"),
        (DatabaseUnreachableError("It refuses connections."), 3, "It refuses connections."),
    ],
)
def test_a_process_that_cannot_go_on_says_why_and_exits_with_the_documented_code(
    error: Exception, code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        run_command(work())
    assert ended.value.exit_code == code
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said


def test_the_line_at_the_start_names_the_settings_and_no_secret() -> None:
    secret = "hunter2" * 6
    settings = Settings.model_validate(
        {
            "secret_key": secret,
            "worker_concurrency": 8,
            "openai_api_key": secret,
            "openai_base_url": "https://models.example/v1",
            "aws_access_key_id": secret,
        }
    )
    about = describe_start(settings, f"postgresql://me:{secret}@db.example/runward")
    assert about["version"] == VERSION
    assert about["schema"] == list_revisions()[-1]
    assert about["database"] == "PostgreSQL at db.example, port 5432, database runward"
    given = about["settings"]
    assert isinstance(given, dict)
    assert given["worker_concurrency"] == 8
    assert given["secret_key"] == given["openai_base_url"] == "(set)"
    assert "worker_threads" not in given
    assert "hunter2" not in repr(about)


def test_no_setting_shows_a_secret() -> None:
    """The line at the start and the bundle of `doctor` contain the settings. All of them that can
    contain a secret are hidden, and the others that accept any text are listed here."""
    planted = (
        "hunter2" * 6,
        "https://models.example/hunter2",
        "https://me:hunter2@collector.example/?token=hunter2",
        "postgresql://me:hunter2@db.example/runward",
    )
    shown: set[str] = set()
    for name, text in product(Settings.model_fields, planted):
        try:
            settings = Settings.model_validate({name: text})
        except ValidationError:
            continue
        if "hunter2" in repr(describe_settings(settings)):
            shown.add(name)
    assert shown == {"data_dir", "host", "allowed_hosts", "plugins", "mcp_commands", "aws_region"}


# Signals and the log.


@pytest.fixture
def gone() -> Iterator[TextIO]:
    """A pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    out = os.fdopen(writing, "w", buffering=1)
    yield out
    out.close()  # as when Python ends


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_log_that_nobody_reads_raises_nothing(
    gone: TextIO, monkeypatch: pytest.MonkeyPatch, log_format: str
) -> None:
    monkeypatch.setattr("sys.stderr", gone)
    configure_logging(Settings(log_format=log_format))  # pyright: ignore[reportCallIssue]
    try:
        for _ in range(10):
            structlog.get_logger().info("an event", detail="x" * 10_000)
    finally:
        structlog.reset_defaults()


def test_a_process_without_standard_error_logs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    configure_logging(Settings())  # pyright: ignore[reportCallIssue]
    try:
        structlog.get_logger().info("an event")
    finally:
        structlog.reset_defaults()


def test_what_libraries_log_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setattr(logging, "lastResort", None)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure_logging(Settings(log_format="json"))  # pyright: ignore[reportCallIssue]
    try:
        logging.getLogger("uvicorn.error").warning("Invalid %s received.", "request")
        try:
            raise ValueError("wrong")
        except ValueError:
            logging.getLogger("asyncio").exception("A task has failed.")
    finally:
        structlog.reset_defaults()
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["level"] == "warning"
    assert (first["logger"], first["message"]) == ("uvicorn.error", "Invalid request received.")
    assert second["level"] == "error"
    assert second["exception"][0]["exc_value"] == "wrong"


@pytest.mark.parametrize("number", STOP_SIGNALS)
async def test_each_signal_stops_the_process_and_a_later_one_does_not_end_it(
    number: signal.Signals,
) -> None:
    former = {one: signal.getsignal(one) for one in STOP_SIGNALS}
    try:
        async with handle_stop_signals() as stop:
            os.kill(os.getpid(), number)
            await stop.wait()
        for one in STOP_SIGNALS:
            os.kill(os.getpid(), one)
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)


@pytest.mark.processes
def test_a_process_that_fails_ends_and_says_why_although_a_thread_is_busy() -> None:
    code = """
import asyncio, threading
from runward.operating.environment import run_command

async def fail():
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    raise RuntimeError("nobody expected this")

run_command(fail())
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert done.stderr.count("RuntimeError: nobody expected this") == 1
