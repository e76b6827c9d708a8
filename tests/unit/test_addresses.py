"""Database URLs: what is read from them, what is refused by name, and errors as sentences."""

import socket
import ssl

import pytest
from asyncpg import exceptions as driver  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy.exc import DBAPIError

from runward.domain.errors import OperatorError
from runward.store.postgres.addresses import (
    CONNECT_SECONDS,
    DatabaseAddress,
    DatabaseUrlError,
    read_url,
)
from runward.store.postgres.connection_errors import (
    DatabaseRefusedError,
    DatabaseUnreachableError,
    explain_connection_errors,
)
from runward.store.postgres.db import log_fields

ADDRESS = DatabaseAddress("postgresql://me@host/db", "PostgreSQL at host, database db", "me")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
def test_an_address_may_be_written_as_for_other_programs(scheme: str) -> None:
    address = read_url(f"{scheme}://me:p%40ss@host:6432/db?sslmode=require")
    assert address.dsn == "postgresql://me:p%40ss@host:6432/db?sslmode=require"
    assert address.location == "PostgreSQL at host, port 6432, database db"
    assert read_url(f"{scheme}://me:p@ss@host/db").dsn == "postgresql://me:p%40ss@host/db"
    assert read_url(f"{scheme}://host/db?ssl=disable").dsn == "postgresql://host/db?sslmode=disable"


def test_the_parameters_of_libpq_are_read() -> None:
    address = read_url(
        "postgresql://me@a:5432,b:5433/db?target_session_attrs=read-write&application_name=shop"
        "&options=-c%20search_path%3Dx&connect_timeout=3&channel_binding=prefer&gssencmode=disable"
    )
    assert address.dsn == "postgresql://me@a:5432,b:5433/db?target_session_attrs=read-write"
    assert address.seconds == 3
    assert address.server_settings == {
        "application_name": "shop",
        "options": "-c search_path=x",
    }
    assert read_url("postgresql://host/db?connect_timeout=0").seconds == CONNECT_SECONDS


def test_a_socket_is_an_address() -> None:
    url = "postgresql+asyncpg://me@/db?host=/run/pg&port=5433"
    assert read_url(url).location == "PostgreSQL at /run/pg, port 5433, database db"
    assert read_url("postgresql://me@[::1]:5432/db").location == (
        "PostgreSQL at [::1], port 5432, database db"
    )


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (SECRET, "is not a URL"),
        (f"://{SECRET}", "is not a URL"),
        (f"mysql://me:{SECRET}@host/db", "begins with mysql://"),
        (f"postgresql://me:{SECRET}@host:port/db", "has a port"),
        (f"postgresql://me:{SECRET}@host:65536/db", "has a port"),
        (f"postgresql://me:{SECRET}@host:0/db", "has a port"),
        (f"postgresql://me:{SECRET}@a:5432,b:x/db", "has a port"),
        (f"postgresql://me:{SECRET}@host/db?port=x", "has a port"),
        (f"postgresql://me:{SECRET}#{SECRET}@host/db", "contains a '#'"),
        (f"postgresql://me:{SECRET}/{SECRET}@host/db", "has a port"),
        (f"postgresql://me:12/{SECRET}@host/db", "has an '@' after a '/'"),
        (f"postgresql://me:{SECRET}@[host/db", "is not a URL"),
        (f"postgresql://me:{SECRET}@host/db?sslmode", "is not a URL"),
        (f"postgresql://me:{SECRET}@host/db?connect_timeout=soon", "connect_timeout"),
        (f"postgresql://me:{SECRET}@host/db?sslrootcert=/none/ca.pem", "/none/ca.pem"),
        (f"postgresql://me:{SECRET}@host/db?channel_binding=require", "channel_binding=require"),
        (f"postgresql://me:{SECRET}@host/db?keepalives=1", "the parameter keepalives"),
        (f"postgresql://me:{SECRET}@host/db?pgbouncer=true", "the parameter pgbouncer"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(DatabaseUrlError) as refused:
        read_url(url, "RUNWARD_LISTEN_URL")
    assert problem in str(refused.value)
    assert str(refused.value).startswith("RUNWARD_LISTEN_URL")
    assert SECRET not in str(refused.value)


def untrusted(code: int, reason: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_code, error.verify_message = code, reason
    return error


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (socket.gaierror(-2, "Name or service not known"), DatabaseUnreachableError, "be found"),
        (TimeoutError(), DatabaseUnreachableError, "does not answer within 10 seconds"),
        (ConnectionRefusedError(111, "x"), DatabaseUnreachableError, "refuses connections"),
        (FileNotFoundError(2, "x"), DatabaseUnreachableError, "refuses connections"),
        (OSError(113, "No route to host"), DatabaseUnreachableError, "No route to host"),
        (
            driver.CannotConnectNowError("starting"),
            DatabaseUnreachableError,
            "does not accept connect",
        ),
        (
            driver.InvalidPasswordError("failed"),
            DatabaseRefusedError,
            "the user name or the password",
        ),
        (driver.InvalidCatalogNameError("none"), DatabaseRefusedError, "database db does not ex"),
        (driver.InsufficientPrivilegeError("no"), DatabaseRefusedError, "GRANT CREATE ON SCHEMA"),
        (
            driver.ProtocolViolationError("unsupported startup parameter: jit"),
            DatabaseRefusedError,
            "Set RUNWARD_PGBOUNCER=true",
        ),
        (
            untrusted(18, "self-signed certificate"),
            DatabaseRefusedError,
            "self-signed certificate. Set sslrootcert in DATABASE_URL to a file",
        ),
        (
            untrusted(62, "not valid for 'db'."),
            DatabaseRefusedError,
            "not valid for 'db'. Correct the host in DATABASE_URL.",
        ),
        (
            driver.ClientConfigurationError("no such file\nHINT:  Make one."),
            DatabaseUrlError,
            "no such file HINT: Make one.",
        ),
        (
            ConnectionError('PostgreSQL server at "host:1" rejected SSL upgrade'),
            DatabaseRefusedError,
            "does not support TLS",
        ),
        (driver.ClientConfigurationError("`sslmode` must be"), DatabaseUrlError, "`sslmode`"),
    ],
)
def test_an_error_of_the_connection_is_a_sentence(
    error: Exception, kind: type[OperatorError], sentence: str
) -> None:
    with pytest.raises(kind) as told, explain_connection_errors(ADDRESS):
        raise error
    assert sentence in str(told.value)


@pytest.mark.parametrize("error", [ValueError("x"), OSError(28, "No space left on device")])
def test_another_error_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as same, explain_connection_errors(ADDRESS):
        raise error
    assert same.value is error


def test_a_log_line_names_the_sqlstate_and_the_reason_and_no_values() -> None:
    cause = driver.UndefinedTableError('relation "runs" does not exist\nDETAIL: (a secret)')
    error = DBAPIError("SELECT 'a secret'", {"a": "secret"}, cause)
    assert log_fields(error) == {
        "error": "DBAPIError",
        "sqlstate": "42P01",
        "reason": 'relation "runs" does not exist',
    }
    assert log_fields(TimeoutError("late")) == {"error": "TimeoutError", "reason": "late"}
