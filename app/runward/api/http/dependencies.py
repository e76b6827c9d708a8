"""Handler parameters that are parts of the services."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from runward.domain.retention import RetentionLimits
from runward.services import Access, Live, Registry, RequestLimits, RunQueue, Storage


@dataclass(frozen=True, slots=True)
class ServicePart:
    """Marks a parameter as a part of the services. `name`: the attribute of `Services`."""

    name: str

    def __call__(self) -> None:
        """FastAPI requires that a dependency can be called. `Arguments` reads the attribute."""
        raise NotImplementedError


AccessDep = Annotated[Access, Depends(ServicePart("access"))]
LiveDep = Annotated[Live, Depends(ServicePart("live"))]
RegistryDep = Annotated[Registry, Depends(ServicePart("registry"))]
RequestLimitsDep = Annotated[RequestLimits, Depends(ServicePart("limits"))]
RunQueueDep = Annotated[RunQueue, Depends(ServicePart("queue"))]
RetentionDep = Annotated[RetentionLimits, Depends(ServicePart("retention"))]
StorageDep = Annotated[Storage, Depends(ServicePart("storage"))]
