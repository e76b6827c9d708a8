"""The parts between the server and a route: the table of routes, and socket writes."""

import asyncio
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from runward.api.http.route_table import RouteTable
from runward.api.http.write_buffer import MAX_BYTES, BufferedTransport
from runward.api.routers import ROUTERS

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, Route)]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def list_paths() -> list[str]:
    """The paths of all routes with different parameters, and similar paths that have no route."""
    paths = {
        route.path_format.format(**dict.fromkeys(route.param_convertors, value))
        for route in ROUTES
        for value in ("a", "runs", "result", "a/b", "", "a b")
    }
    return sorted(
        paths | {f"{path}/" for path in paths} | {f"/{path}" for path in paths} | {"", "/"}
    )


def search(path: str, method: str) -> tuple[Route | None, dict[str, str], set[str]]:
    """The first route whose pattern matches, its parameters, and the methods of all others."""
    methods = set[str]()
    for route in ROUTES:
        match, inner = route.matches({"type": "http", "path": path, "method": method})
        if match is Match.FULL:
            return route, inner["path_params"], set()
        if match is Match.PARTIAL:
            methods |= cast("set[str]", route.methods)
    return None, {}, methods


def test_the_table_finds_the_same_routes_as_a_search_through_all_patterns() -> None:
    table = RouteTable(ROUTES)
    for path in list_paths():
        for method in METHODS:
            route, parameters, methods = search(path, method)
            if route is not None:
                assert table.find(path, method) == (route, parameters)
                continue
            with pytest.raises(HTTPException) as raised:
                table.find(path, method)
            assert raised.value.status_code == (405 if methods else 404)
            if methods:
                extra = {"OPTIONS", "HEAD"} if "GET" in methods else {"OPTIONS"}
                assert raised.value.headers == {"Allow": ", ".join(sorted(methods | extra))}


class Socket(asyncio.Transport):
    """Records writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


async def test_what_is_written_in_one_turn_of_the_loop_is_one_write() -> None:
    socket = Socket()
    transport = BufferedTransport(socket, asyncio.get_running_loop())
    for part in (b"head", b"body", b"end"):
        transport.write(part)
    assert socket.writes == []
    await asyncio.sleep(0)
    assert socket.writes == [b"headbodyend"]
    transport.write(b"x" * MAX_BYTES)
    assert len(socket.writes) == 2
    transport.write(b"last")
    transport.close()
    transport.write(b"late")
    await asyncio.sleep(0)
    assert socket.writes[2:] == [b"last"]
    assert socket.is_closed
