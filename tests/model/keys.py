"""Keys of states: if two states have equal keys, all later decisions are the same."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, cast
from uuid import UUID

from runward.domain.events.kinds import STORED
from runward.domain.run.config import AgentConfig
from runward.domain.run.state import Call, RunState
from runward.domain.run.tools import CompiledTool
from runward.store.runs.gate import Step

_SKIPPED: Final[Mapping[type, frozenset[str]]] = {
    RunState: frozenset({"config", "team", "usage", "stored_bytes", "last_seq", "seconds_left"}),
    Call: frozenset({"arguments"}),  # the digest covers them
    Step: frozenset({"usage"}),
}
_FIELDS: dict[type, tuple[str, ...]] = {}
_NUMBERS: dict[Any, int] = {}
_KNOWN: dict[int, tuple[Any, Any]] = {}
_CACHED: Final = 400_000


def _number(key: Any) -> int:
    return _NUMBERS.setdefault(key, len(_NUMBERS))


def key_of(value: Any) -> Any:
    """A hashable that is equal for equal values."""
    kind = cast("type[Any]", type(value))
    if value is None or kind in (str, int, bool, float, UUID, type) or isinstance(value, Enum):
        return value
    known = _KNOWN.get(id(value))
    if known is not None and known[0] is value:
        return known[1]
    key = _new_key(value, kind)
    if getattr(kind, "__dataclass_params__", _Mutable).frozen:
        if len(_KNOWN) > _CACHED:
            _KNOWN.clear()
        _KNOWN[id(value)] = (value, key)
    return key


class _Mutable:
    frozen = False


def _new_key(value: Any, kind: type[Any]) -> Any:
    if kind in _SPECIAL:
        return _SPECIAL[kind](value)
    if is_dataclass(value):
        if kind not in _FIELDS:
            skipped = _SKIPPED.get(kind, frozenset())
            _FIELDS[kind] = tuple(f.name for f in fields(value) if f.name not in skipped)
        parts = tuple([key_of(getattr(value, name)) for name in _FIELDS[kind]])
        return _number((kind.__name__, parts))
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return _number(tuple([(key_of(k), key_of(v)) for k, v in items]))
    if isinstance(value, tuple | list):
        return tuple([key_of(one) for one in cast("list[Any]", value)])
    if isinstance(value, frozenset | set):
        return frozenset(cast("set[Any]", value))
    if hasattr(value, "key"):
        return value.key
    raise TypeError(f"no key for {kind}")


_SPECIAL: Final[dict[type, Callable[[Any], Any]]] = {
    AgentConfig: lambda _: None,
    datetime: lambda at: at,
    timedelta: lambda length: length,
    CompiledTool: lambda tool: (tool.spec.name, tool.version),
    **dict.fromkeys(STORED.values(), lambda event: event.type),
}
