"""SQLAlchemy's asynchronous engine without the ORM.

The package `sqlalchemy.ext.asyncio` also imports the ORM, which Runward does not use, and which
takes 7 MiB of memory. Therefore, this module imports only the package's module `engine`. If other
code needs more of the package, such as `AsyncSession`, the package is imported at that time."""

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

_PACKAGE: Final = "sqlalchemy.ext.asyncio"


class _LazyPackage(ModuleType):
    """A package whose own code runs when a name is missing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


if _PACKAGE not in sys.modules:
    _spec = find_spec(_PACKAGE)
    assert _spec is not None
    _package = sys.modules[_PACKAGE] = module_from_spec(_spec)
else:
    _package = None

from sqlalchemy.ext.asyncio.engine import (  # noqa: E402
    AsyncConnection,
    AsyncEngine,
    create_async_engine,
)

if _package is not None:
    _package.__class__ = _LazyPackage

__all__ = ["AsyncConnection", "AsyncEngine", "create_async_engine"]
