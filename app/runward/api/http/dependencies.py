"""Handler parameters that the route provides, such as the principal.

FastAPI takes 20 us to resolve a dependency, even one that only reads an attribute of the request. A
StrictRoute resolves these without that cost. Other routes treat them as ordinary dependencies.
"""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant

from runward.services import (
    Access,
    Live,
    Registry,
    RequestLimits,
    RunQueue,
    Services,
    Storage,
)

_REQUEST = "__request"


class RouteDependency:
    """A callable class whose value is available after `prepare` was awaited, before the body is
    read."""

    async def prepare(self, request: Request) -> None:
        raise NotImplementedError

    def value(self, request: Request) -> Any:
        raise NotImplementedError

    async def __call__(self, request: Request) -> Any:
        await self.prepare(request)
        return self.value(request)


def extract_dependencies(dependant: Dependant) -> tuple[RouteDependency, ...]:
    """Remove the RouteDependency parameters of a coroutine function from those that FastAPI
    resolves. Return the ones that the route must `prepare`."""
    given = {d.name: d.call for d in dependant.dependencies if isinstance(d.call, RouteDependency)}
    handler = dependant.call
    if given and handler is not None and iscoroutinefunction(handler):
        dependant.dependencies = [d for d in dependant.dependencies if d.name not in given]
        own = dependant.request_param_name
        dependant.request_param_name = own or _REQUEST
        dependant.call = _inject(handler, {k: v for k, v in given.items() if k}, own)
    return tuple(given.values())


def _inject(
    handler: Callable[..., Any], dependencies: dict[str, RouteDependency], request_name: str | None
) -> Callable[..., Any]:
    async def call(**values: Any) -> Any:
        request = values[request_name] if request_name else values.pop(_REQUEST)
        for name, parameter in dependencies.items():
            values[name] = parameter.value(request)
        return await handler(**values)

    return call


def get_services(request: Request) -> Services:
    return cast(Services, request.app.state.services)


class _PartDependency(RouteDependency):
    """A part of the services, identified by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def prepare(self, request: Request) -> None:
        """Do nothing, because the services exist from the start."""

    def value(self, request: Request) -> Any:
        return getattr(get_services(request), self._name)


AccessDep = Annotated[Access, Depends(_PartDependency("access"))]
LiveDep = Annotated[Live, Depends(_PartDependency("live"))]
RegistryDep = Annotated[Registry, Depends(_PartDependency("registry"))]
RequestLimitsDep = Annotated[RequestLimits, Depends(_PartDependency("limits"))]
RunQueueDep = Annotated[RunQueue, Depends(_PartDependency("queue"))]
StorageDep = Annotated[Storage, Depends(_PartDependency("storage"))]
