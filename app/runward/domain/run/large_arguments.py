"""Large arguments, left out of an answer for clients that load them only on demand."""

from dataclasses import dataclass
from typing import Final

from runward.domain.json import JsonObject, compact

MAX_NAMED: Final = 20
MAX_NAME_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class LargeArgument:
    """One argument and the size of its JSON; `name` is None for all further ones together."""

    name: str | None
    size: int


def omit_large(arguments: JsonObject, limit: int | None) -> tuple[JsonObject, list[LargeArgument]]:
    """Return the arguments that fit into `limit` bytes of JSON together, in order, and the others.
    At most MAX_NAMED of the others are named. None: nothing is left out."""
    if limit is None:
        return arguments, []
    kept: JsonObject = {}
    named: list[LargeArgument] = []
    unnamed = 0
    for name, value in arguments.items():
        size = len(compact(value).encode())
        limit -= (cost := size + len(name.encode()))
        if limit >= 0:
            kept[name] = value
            continue
        limit += cost
        if len(named) < MAX_NAMED and len(name) <= MAX_NAME_CHARACTERS:
            named.append(LargeArgument(name, size))
        else:
            unnamed += size
    return kept, [*named, LargeArgument(None, unnamed)] if unnamed else named
