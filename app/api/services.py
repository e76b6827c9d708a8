"""What the API needs of the rest of Runward."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Protocol

from fastapi import Depends, Request

from app.api.given import Given
from app.domain.scopes import Principal


class Services(Protocol):
    @property
    def authenticate(self) -> Callable[[str], Awaitable[Principal | None]]:
        """Who a bearer token stands for. None: nobody, or no longer."""
        ...

    @property
    def max_body_bytes(self) -> int: ...


def services_of(request: Request) -> Services:
    return request.app.state.services


class _Using(Given):
    async def prepare(self, request: Request) -> None:
        """They are there from the start."""

    def value(self, request: Request) -> Services:
        return services_of(request)


Using = Annotated[Services, Depends(_Using())]
"""A handler's parameter."""
