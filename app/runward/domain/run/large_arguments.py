"""Large arguments, which responses omit for clients that load them on demand."""

from typing import Final

from runward.domain.immutable import immutable
from runward.domain.json import JsonObject, compact

MAX_NAMED: Final = 20
MAX_NAME_CHARACTERS: Final = 200


@immutable
class LargeArgument:
    """An omitted argument and the size of its JSON. `name` is None for an entry that represents
    several arguments."""

    name: str | None
    size: int


def omit_large(arguments: JsonObject, limit: int | None) -> tuple[JsonObject, list[LargeArgument]]:
    """Return the arguments that together fit into `limit` bytes of JSON, in order, and the omitted
    arguments. At most MAX_NAMED of the omitted arguments have names. If `limit` is None, nothing is
    omitted."""
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
