"""What the API needs of the rest of Runward, as a handler's parameter."""

from typing import Annotated, cast

from fastapi import Depends, Request

from runward.api.http.dependencies import RouteDependency
from runward.wiring import Services


def get_services(request: Request) -> Services:
    return cast(Services, request.app.state.services)


class _ServicesDependency(RouteDependency):
    async def prepare(self, request: Request) -> None:
        """They are there from the start."""

    def value(self, request: Request) -> Services:
        return get_services(request)


ServicesDep = Annotated[Services, Depends(_ServicesDependency())]
"""A handler's parameter."""
