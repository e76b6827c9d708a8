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
_OWN_KEYS: Final[set[type]] = {type(None), str, int, bool, float, UUID, type}
"""Types whose values are their own keys. Those of enumerations are added as they are seen."""
_FIELDS: dict[type, tuple[str, ...]] = {}
_FROZEN: Final[set[type]] = set()
"""Data classes whose instances never change, so that each needs its key once."""
_NUMBERS: dict[Any, int] = {}
_KNOWN: dict[int, tuple[Any, Any]] = {}
_CACHED: Final = 400_000


def _number(key: Any) -> int:
    return _NUMBERS.setdefault(key, len(_NUMBERS))


def key_of(value: Any) -> Any:
    """A hashable that is equal for equal values."""
    kind = cast("type[Any]", type(value))
    if kind in _OWN_KEYS:
        return value
    if kind not in _FROZEN:
        return _new_key(value, kind)
    known = _KNOWN.get(id(value))
    if known is not None and known[0] is value:
        return known[1]
    key = _new_key(value, kind)
    if len(_KNOWN) > _CACHED:
        _KNOWN.clear()
    _KNOWN[id(value)] = (value, key)
    return key


def _new_key(value: Any, kind: type[Any]) -> Any:
    if kind in _SPECIAL:
        return _SPECIAL[kind](value)
    if kind in _FIELDS:
        parts = tuple([key_of(getattr(value, name)) for name in _FIELDS[kind]])
        return _number((kind.__name__, parts))
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return _number(tuple([(key_of(k), key_of(v)) for k, v in items]))
    if isinstance(value, tuple | list):
        return tuple([key_of(one) for one in cast("list[Any]", value)])
    if isinstance(value, frozenset | set):
        return frozenset(cast("set[Any]", value))
    return key_of(value) if _is_new(kind) else value.key


def _is_new(kind: type[Any]) -> bool:
    """Learn how a type's values are compared. False: it is known, or it has keys of its own."""
    if issubclass(kind, Enum):
        _OWN_KEYS.add(kind)
        return True
    of_class: Any = kind
    if not is_dataclass(of_class) or kind in _FIELDS:
        return False
    skipped = _SKIPPED.get(kind, frozenset())
    _FIELDS[kind] = tuple(f.name for f in fields(of_class) if f.name not in skipped)
    if vars(kind)["__dataclass_params__"].frozen:
        _FROZEN.add(kind)
    return True


_SPECIAL: Final[dict[type, Callable[[Any], Any]]] = {
    AgentConfig: lambda _: None,
    datetime: lambda at: at,
    timedelta: lambda length: length,
    CompiledTool: lambda tool: (tool.spec.name, tool.version),
    **dict.fromkeys(STORED.values(), lambda event: event.type),
}
