"""The headers that a webhook tool can add to its calls, and the secrets that they name."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeAlias

from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId
from runward.domain.registry.tools import HeaderValue, SecretReference
from runward.domain.run.outcomes import Failed, FailureKind
from runward.tools.base import Invocation

ReadSecrets: TypeAlias = Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]]
"""Reads the values of a project's secrets by name. Secrets that do not exist are omitted. Raises
UnavailableError."""
MAX_VALUE: Final = 4096
"""Maximum number of characters of one value."""
MAX_TOTAL: Final = 16_384
"""Maximum number of characters of all names and values."""

RESERVED: Final = frozenset(
    {
        # headers of the connection, not of the request
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
        *("host", "content-length", "content-encoding", "accept-encoding", "http2-settings"),
        # headers that Runward sets
        *("content-type", "user-agent", "idempotency-key", "traceparent", "tracestate"),
    }
)
_RESERVED_PREFIXES: Final = ("proxy-", "webhook-")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")


def secret_references(headers: Mapping[str, HeaderValue]) -> dict[str, str]:
    """Return the name of each referenced secret, by the path of the reference."""
    return {
        f"headers.{name[:128]}.secret": value.secret
        for name, value in headers.items()
        if isinstance(value, SecretReference)
    }


def resolve_headers(
    headers: Mapping[str, HeaderValue], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Return the values to send. A sealed value is empty. Raises KeyError if `secrets` does not
    contain a secret."""
    return {
        name: value.resolve(secrets)
        if isinstance(value, SecretReference)
        else value
        if isinstance(value, str)
        else ""
        for name, value in headers.items()
    }


def check_headers(headers: Mapping[str, str]) -> list[FieldError]:
    """Return the problems of the headers. The messages never contain a value, because it may be a
    credential."""
    problems: list[FieldError] = []
    seen: set[str] = set()
    for name, value in headers.items():
        if (problem := _problem(name, value, seen)) is not None:
            problems.append(FieldError(f"headers.{name[:128]}", problem))
        seen.add(name.lower())
    if sum(len(name) + len(value) for name, value in headers.items()) > MAX_TOTAL:
        problems.append(FieldError("headers", f"must have at most {MAX_TOTAL} characters in total"))
    return problems


def _problem(name: str, value: str, seen: set[str]) -> str | None:
    lower = name.lower()
    if not _NAME.fullmatch(name):
        return "is not a valid header name"
    if lower in RESERVED or lower.startswith(_RESERVED_PREFIXES):
        return "is set by Runward or by the connection, and cannot be set here"
    if lower in seen:
        return "must be unique; header names are not case-sensitive"
    if len(value) > MAX_VALUE:
        return f"must have at most {MAX_VALUE} characters"
    if not _VALUE.fullmatch(value) or value != value.strip():
        return "must be printable ASCII on one line, without spaces at the beginning or the end"
    return None


async def read_headers(call: Invocation, read_secrets: ReadSecrets) -> dict[str, str] | Failed:
    """Return the tool's headers with the current values of the project's secrets. Raises
    UnavailableError."""
    names = set(secret_references(call.tool.headers).values())
    found: Mapping[str, str] = {}
    if names:
        found = await read_secrets(call.project_id, names)
    if missing := sorted(names - found.keys()):
        detail = f"A header of the tool refers to the secret '{missing[0]}', which does not exist."
        return Failed(FailureKind.NOT_SENT, detail, permanent=True)
    headers = resolve_headers(call.tool.headers, found)
    read = {name for name, one in call.tool.headers.items() if isinstance(one, SecretReference)}
    if problems := check_headers({name: headers[name] for name in read}):
        detail = " ".join(problems[0])
        return Failed(FailureKind.NOT_SENT, detail, permanent=True)
    return headers
