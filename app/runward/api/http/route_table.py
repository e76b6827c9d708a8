"""Find the route of a request. The framework's router would match the path with the pattern of
each route in turn."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from runward.api.http.routes import StrictRoute

_OPEN: Final = ":path}"
"""Marks a path parameter that may contain slashes."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Paths of the same number of segments, with parameters at the same places."""

    places: tuple[int, ...]
    routes: dict[tuple[str, ...], list[Route]] = field(
        default_factory=dict[tuple[str, ...], list[Route]]
    )
    """The routes by the segments of their paths, without the parameters."""

    def find(self, segments: list[str]) -> tuple[list[Route], list[str]]:
        """Return the routes of a path, and the values of their parameters."""
        rest = [*segments]
        values = [rest.pop(place) for place in reversed(self.places)]
        return self.routes.get(tuple(rest), []) if all(values) else [], values[::-1]


class RouteTable:
    """The routes by their methods and the segments of their paths."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._patterns: dict[int, list[_Pattern]] = {}
        """By the number of segments. Patterns with fewer parameters are first."""
        self._open: list[Route] = []
        for route in routes:
            assert isinstance(route, StrictRoute) or type(route) is Route
            if _OPEN in route.path:
                self._open.append(route)
            else:
                self._add(route)

    def _add(self, route: Route) -> None:
        segments = route.path.split("/")
        places = tuple(n for n, segment in enumerate(segments) if segment.startswith("{"))
        fixed = tuple(segment for n, segment in enumerate(segments) if n not in places)
        patterns = self._patterns.setdefault(len(segments), [])
        pattern = next((one for one in patterns if one.places == places), None)
        if pattern is None:
            pattern = _Pattern(places)
            patterns.append(pattern)
            patterns.sort(key=lambda one: len(one.places))
        pattern.routes.setdefault(fixed, []).append(route)

    def find(self, path: str, method: str) -> tuple[Route, dict[str, str]]:
        """Return the route and its path parameters. Raises HTTPException."""
        allowed = set[str]()
        for route, parameters in self._find_all(path):
            methods = cast("set[str]", route.methods)
            if method in methods:
                return route, parameters
            allowed |= methods
        if not allowed:
            raise HTTPException(404)
        allowed |= {"OPTIONS", "HEAD"} if "GET" in allowed else {"OPTIONS"}
        raise HTTPException(405, headers={"Allow": ", ".join(sorted(allowed))})

    def _find_all(self, path: str) -> Iterator[tuple[Route, dict[str, str]]]:
        """Yield the routes of a path for all methods."""
        segments = path.split("/")
        for pattern in self._patterns.get(len(segments), ()):
            routes, values = pattern.find(segments)
            for route in routes:
                yield route, dict(zip(route.param_convertors, values, strict=True))
        for route in self._open:
            if (found := route.path_regex.match(path)) is not None:
                yield route, found.groupdict()
