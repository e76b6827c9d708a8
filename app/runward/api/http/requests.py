"""The request of a route, with everything that is read only once."""

from typing import cast

from fastapi import Request
from starlette.types import Receive, Scope

from runward.domain.registry.scopes import Principal
from runward.services import Services


class ApiRequest(Request):
    """A request whose first headers are in a dictionary. The framework's `headers` compares the
    name with each header of the request. A StrictRoute sets `principal` and `raw`."""

    principal: Principal
    raw: bytes = b""
    """The body."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self._first_headers = dict[bytes, bytes](reversed(scope["headers"]))

    @property
    def has_repeated_headers(self) -> bool:
        return len(self._first_headers) < len(self.scope["headers"])

    def get_header(self, name: bytes) -> str | None:
        """Return the first header of this name, which is in lower case."""
        value = self._first_headers.get(name)
        return None if value is None else value.decode("latin-1")


def get_services(request: Request) -> Services:
    return cast(Services, request.app.services)
