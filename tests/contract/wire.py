"""Requests with headers that clients do not send, and the contents of a database."""

import asyncio
import http.client
import json
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

import httpx2
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.support.services.client import Json

Headers: TypeAlias = Iterable[tuple[str, str | bytes]]
"""In their order; a name may stand twice."""

TIMEOUT_SECONDS = 20.0


class Wire:
    """One connection to the service, opened again once for a request if the server closed it."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._url = url
        self._http = http.client.HTTPConnection(
            str(address.hostname), address.port, timeout=TIMEOUT_SECONDS
        )
        self.requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def send(
        self, method: str, target: str, headers: Headers = (), body: Any = None
    ) -> httpx2.Response:
        """`body` goes as JSON; None: there is none."""
        raw, headers = b"" if body is None else json.dumps(body).encode(), list(headers)
        try:
            answer = self._answer(method, target, headers, raw)
        except ConnectionError:  # closed while it was idle, as RFC 9112, section 9.3.1, expects
            self._http.close()
            answer = self._answer(method, target, headers, raw)
        self.requests += 1
        request = httpx2.Request(method, self._url + target)
        content = answer.read()
        return httpx2.Response(
            answer.status, headers=answer.getheaders(), content=content, request=request
        )

    def _answer(
        self, method: str, target: str, headers: Headers, raw: bytes
    ) -> http.client.HTTPResponse:
        self._http.putrequest(method, target, skip_accept_encoding=True)
        if raw:
            self._http.putheader("Content-Type", "application/json")
        if raw or method != "GET":
            self._http.putheader("Content-Length", str(len(raw)))
        for name, value in headers:
            self._http.putheader(name, value)
        self._http.endheaders(raw or None)
        return self._http.getresponse()


_TABLES = """
SELECT tablename FROM pg_tables
WHERE schemaname = 'public' AND tablename NOT IN ('workers', 'webhook_cursors', 'retention_cursors')
"""


def rows_of(database_url: str) -> dict[str, Json]:
    """Table -> how many rows it has, and a digest of all of them. Workers write heartbeats and
    move the cursors of webhooks at any time, so these do not count."""
    return asyncio.run(_rows(database_url))


async def _rows(database_url: str) -> dict[str, Json]:
    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.connect() as tx:
        found = await tx.execute(text(_TABLES))
        tables = sorted(found.scalars())
        return {
            table: dict((await tx.execute(text(_digest(table)))).mappings().one())
            for table in tables
        }


def _digest(table: str) -> str:
    return (
        "SELECT count(*) AS rows, md5(string_agg(t::text, chr(10) ORDER BY t::text)) AS digest "
        f'FROM "{table}" t'
    )
