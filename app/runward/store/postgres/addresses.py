"""Database URLs, parsed like libpq does (PostgreSQL's documentation, 32.1.1). No message contains a
URL, or a part of it that may belong to the password."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from runward.domain.errors import OperatorError

CONNECT_SECONDS: Final = 10.0
EXAMPLE_URL: Final = "postgresql://user:password@host:5432/runward"
_DRIVER: Final = (
    *("host", "port", "dbname", "database", "user", "password", "passfile", "service"),
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version"),
    *("target_session_attrs", "krbsrvname", "gsslib"),
)
"""Parameters that the driver supports."""
_SERVER: Final = ("application_name", "options")
"""Parameters that are sent to the server."""
_OPTIONAL: Final = {"channel_binding": ("disable", "prefer"), "gssencmode": ("disable", "prefer")}
"""Features that the driver lacks, and the values of their parameters that do not require them."""


class DatabaseUrlError(OperatorError):
    """A database URL that cannot be used."""


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The address of a database. `dsn` is for asyncpg. `location` names the server and the database
    without credentials."""

    dsn: str
    location: str
    user: str
    seconds: float = CONNECT_SECONDS
    """Maximum number of seconds to establish a connection."""
    server_settings: dict[str, str] = field(default_factory=dict[str, str])


def read_url(url: str, name: str = "DATABASE_URL") -> DatabaseAddress:
    """Return the address in a database URL. Raises DatabaseUrlError, whose message begins with
    `name`: the variable that contains the URL."""
    try:
        parts = _split(url)
        query = _parse_query(parts)
        settings = {key: query.pop(key) for key in _SERVER if key in query}
        seconds = _parse_timeout(query.pop("connect_timeout", "0"))
        for problem in _find_unsupported(query):
            raise DatabaseUrlError(problem)
    except DatabaseUrlError as error:
        raise DatabaseUrlError(f"{name} {error}") from None
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    user = unquote(user)
    before = f"{quote(user, safe='')}{colon}{quote(unquote(password), safe='')}@"
    return DatabaseAddress(
        dsn=parts._replace(
            netloc=(before if credentials else "") + hosts, query=urlencode(query)
        ).geturl(),
        location=_describe_location(hosts, unquote(parts.path.lstrip("/")) or user, query),
        user=user or query.get("user", ""),
        seconds=seconds,
        server_settings=settings,
    )


def _describe_location(hosts: str, database: str, query: dict[str, str]) -> str:
    host, port = query.get("host") or hosts or "localhost", query.get("port", "5432")
    if "," not in host and host.rpartition("]")[2].count(":") == 1:
        host, _, port = host.rpartition(":")
    return f"PostgreSQL at {host}, port {port}, database {query.get('dbname') or database}"


def _split(url: str) -> SplitResult:
    scheme, separator, rest = url.partition("://")
    kind = scheme.partition("+")[0].lower()
    if not separator or not kind:
        _refuse("is not a URL")
    if kind not in ("postgres", "postgresql"):
        shown = f"with {kind}://" if kind.isalnum() else "otherwise"
        _refuse(f"begins {shown}, but Runward needs PostgreSQL 15 or newer")
    try:
        parts = urlsplit(f"postgresql://{rest}")
    except ValueError:
        _refuse("is not a URL")
    if parts.fragment:
        _refuse("contains a '#', which must be written as %23")
    return parts


def _parse_query(parts: SplitResult) -> dict[str, str]:
    try:
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        _refuse("is not a URL")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    ports = [host.rpartition("]")[2].rpartition(":")[2] for host in hosts if ":" in host]
    if not all(_is_port(one) for one in [*ports, *query.get("port", "1").split(",")]):
        _refuse(
            "has a port that is not a number from 1 to 65535 (in a password, write "
            "/ as %2F, ? as %3F, # as %23 and @ as %40)"
        )
    if "@" in parts.path:  # A password with a slash: its beginning looks like a port.
        _refuse("has an '@' after a '/' (in a password, write / as %2F and @ as %40)")
    if "ssl" in query:
        query["sslmode"] = query.pop("ssl")
    if query.get("sslrootcert") == "system":
        query["sslrootcert"] = ssl.get_default_verify_paths().cafile or "system"
    return query


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536


def _parse_timeout(text: str) -> float:
    """Return `connect_timeout` in seconds. 0 means the default, because every wait has a limit."""
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise DatabaseUrlError("has a connect_timeout that is not a number of seconds.")
    return float(text) or CONNECT_SECONDS


def _find_unsupported(query: dict[str, str]) -> Iterator[str]:
    """Yield the problems of unsupported parameters, and remove optional parameters from `query`."""
    for key, harmless in _OPTIONAL.items():
        if key in query and (value := query.pop(key)) not in harmless:
            yield (
                f"has {key}={value}, which is not supported. Remove this parameter. "
                "To verify the server, set sslmode=verify-full."
            )
    for key, value in query.items():
        if key not in _DRIVER:
            yield f"has the parameter {key}, which is not supported. Remove this parameter."
        if key in ("sslrootcert", "sslcert", "sslkey", "sslcrl") and not Path(value).is_file():
            yield f"has {key}={value}, but this file does not exist."


def _refuse(problem: str) -> NoReturn:
    raise DatabaseUrlError(f"{problem}. Write the address as {EXAMPLE_URL}")
