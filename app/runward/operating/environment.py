"""The settings, the log, and the end of a command that runs on this machine."""

import asyncio
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from errno import EACCES, EDQUOT, ENOSPC, ENOTDIR, EPERM, EROFS
from typing import Any, Final, NoReturn, TextIO, cast

import structlog
import structlog.tracebacks
import typer
import uvloop
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from sqlalchemy.exc import DBAPIError

from runward.cli.exits import Exit, fail
from runward.domain.errors import OperatorError
from runward.settings import Settings, find_unknown_variables
from runward.store.postgres.connection_errors import DatabaseUnreachableError
from runward.store.postgres.db import is_outage
from runward.tools.plugin.errors import PluginError

_TIMEDELTA: Final = re.compile(r"datetime\.timedelta\((?:(\w+)=)?(\d+)\)")
DISK_ERRORS: Final = (EACCES, EPERM, EROFS, ENOSPC, EDQUOT, ENOTDIR)
THREAD_SECONDS: Final = 1.0
"""Seconds that threads have to end after the command has finished and closed all resources."""


def read_settings() -> Settings:
    """Read the settings from the environment. End the command if they are not valid."""
    try:
        if unknown := find_unknown_variables(os.environ):
            stop(
                "\n".join(
                    [
                        "These environment variables are not valid:",
                        *(f"  {line}" for line in unknown),
                    ]
                )
            )
        settings = Settings()  # pyright: ignore[reportCallIssue]  # from the environment
    except ValidationError as error:
        stop("These environment variables are not valid:\n" + "\n".join(list_problems(error)))
    configure_logging(settings)
    return settings


def list_problems(error: ValidationError) -> list[str]:
    """Return one line for each variable with an error."""
    return [
        f"  {_variable_name(str(one['loc'][0]))}: {_format_problem(one)}" for one in error.errors()
    ]


def _format_problem(problem: ErrorDetails) -> str:
    """Return Pydantic's message without Pydantic's terms."""
    message = problem["msg"].removeprefix("Value error, ").replace("Input should", "must")
    return _TIMEDELTA.sub(_format_seconds, message)


def _format_seconds(limit: re.Match[str]) -> str:
    return f"{timedelta(**{limit[1] or 'days': int(limit[2])}).total_seconds():g} seconds"


def _variable_name(field: str) -> str:
    return field if field.isupper() else f"RUNWARD_{field.upper()}"


def ensure_secret_key(settings: Settings) -> Settings:
    """Return the settings if they have a secret key. Otherwise end the command, because all
    processes that share a database must have the same secret key."""
    if settings.secret_key is None:
        stop(
            "RUNWARD_SECRET_KEY is missing. Set the same value of 32 characters or "
            "more for every process.\n"
            "To create a value, run: openssl rand -hex 32"
        )
    return settings


def read_database_url(settings: Settings) -> str:
    if settings.database_url is None:
        stop(
            "DATABASE_URL is missing. Set it to an address such as "
            "postgresql://user:password@host:5432/runward"
        )
    return settings.database_url.get_secret_value()


def read_migration_url(settings: Settings) -> str:
    """Return the direct address of the database. Migrations need a database session, which
    PgBouncer does not provide in transaction mode."""
    if not settings.pgbouncer:
        return read_database_url(settings)
    if settings.listen_url is None:
        stop(
            "Migrations need a database session, which PgBouncer does not provide "
            "in transaction mode. Set RUNWARD_LISTEN_URL to the direct address of "
            "the database."
        )
    return settings.listen_url.get_secret_value()


def stop(message: str) -> NoReturn:
    fail(message, Exit.FAILED)


def run_command(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a command on uvloop. Print a sentence instead of a traceback for expected failures.

    The process ends even if a thread does not, for example a thread that waits for a provider.
    """
    try:
        _run_on_loop(coroutine)
    except (typer.Exit, SystemExit) as end:
        code = end.exit_code if isinstance(end, typer.Exit) else end.code
        if isinstance(code, int):
            _end_with_threads(code)
        raise
    except Exception as error:
        _end_with_threads(Exit.FAILED, error)
        raise
    _end_with_threads(Exit.OK)


class _UnawaitedExecutor(ThreadPoolExecutor):
    """An executor for whose threads the event loop does not wait when it closes."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001
        super().shutdown(wait=False, cancel_futures=True)


def _end_with_threads(code: int, error: Exception | None = None) -> None:
    """Return if Python has no running thread to wait for. Otherwise print the traceback of an
    unexpected error, if any, and end the process."""
    ends = time.monotonic() + THREAD_SECONDS
    for thread in _list_blocking_threads():
        thread.join(max(0.0, ends - time.monotonic()))
    if left := [thread.name for thread in _list_blocking_threads()]:
        structlog.get_logger().warning("threads_left", threads=left)
        if error is not None:
            sys.excepthook(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _list_blocking_threads() -> list[threading.Thread]:
    own = threading.current_thread()
    return [one for one in threading.enumerate() if one is not own and not one.daemon]


def _run_on_loop(coroutine: Coroutine[Any, Any, None]) -> None:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.get_loop().set_default_executor(_UnawaitedExecutor())
            runner.run(coroutine)
    except DatabaseUnreachableError as error:
        fail(str(error), Exit.UNREACHABLE)
    except (OperatorError, PluginError) as error:
        stop(str(error))
    except DBAPIError as error:
        if not is_outage(error):
            raise
        fail(f"The database is not available: {error.orig}", Exit.UNREACHABLE)
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        stop(f"Cannot write {error.filename or 'a file'}: {error.strerror}.")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def configure_logging(settings: Settings) -> None:
    """Events with fields, to standard error: text on a terminal, JSON elsewhere."""
    levels = {"debug": 10, "info": 20, "warning": 30, "error": 40}
    level = levels[settings.log_level]
    text = settings.log_format == "text" or (
        settings.log_format == "auto" and sys.stderr is not None and sys.stderr.isatty()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_build_renderers(text=text),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", LogFile(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    logging.lastResort = LibraryLog(logging.WARNING)


class LibraryLog(logging.Handler):
    """Log the records of libraries, such as uvicorn's, in the format of all other events. Set as
    the handler of last resort, which prints them as plain text by default."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            about = {"logger": record.name, "message": record.getMessage()}
            structlog.get_logger().log(
                record.levelno, "library_log", **about, exc_info=record.exc_info
            )
        except Exception:  # like every handler: a record that cannot be logged must not raise
            self.handleError(record)


class LogFile:
    """Standard error that ignores write errors: a closed terminal, a broken pipe or a full disk
    loses only log lines. None: the process was started without standard error."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out

    def write(self, text: str) -> None:
        if self._out is not None:
            with self._ignore_failures(self._out):
                self._out.write(text)

    def flush(self) -> None:
        if self._out is not None:
            with self._ignore_failures(self._out):
                self._out.flush()

    @contextmanager
    def _ignore_failures(self, out: TextIO) -> Generator[None]:
        try:
            yield
        except BrokenPipeError:  # permanent: otherwise Python would write the rest at exit
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, out.fileno())
            os.close(null)
        except (OSError, ValueError):
            pass


def _build_renderers(*, text: bool) -> list[Any]:
    """Return the renderers of the log. Tracebacks omit local variables, because these can contain
    keys, prompts and arguments."""
    if text:
        plain = structlog.dev.plain_traceback
        return [
            structlog.dev.set_exc_info,
            structlog.dev.ConsoleRenderer(exception_formatter=plain),
        ]
    frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [structlog.processors.ExceptionRenderer(frames), structlog.processors.JSONRenderer()]
