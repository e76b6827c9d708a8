"""Whether a real value is what a page shows of it."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ID: Final = re.compile(r"[a-z]+_[0-9a-f]{32}(_\d+)?")
Object: TypeAlias = dict[str, Any]
REST: Final = "…"
"""In a text: anything. As the name of a member, or the last element of a list: and more of them."""


def differences(shown: Any, real: Any, at: str = "") -> Iterator[str]:
    """Ids and times may be other ones; everything else is as shown."""
    match shown:
        case dict() if isinstance(real, dict):
            yield from _of_objects(cast(Object, shown), cast(Object, real), at)
        case list() if isinstance(real, list):
            yield from _of_lists(cast(list[Any], shown), cast(list[Any], real), at)
        case str() if isinstance(real, str) and like(shown, real):
            return
        case _ if shown == real and isinstance(shown, bool) == isinstance(real, bool):
            return
        case _:
            yield f"{at or 'it'} is {_written(real)}, and not {_written(shown)}"


def like(shown: str, real: str) -> bool:
    for kind in (TIME, ID):
        if kind.fullmatch(shown):
            return kind.fullmatch(real) is not None
    pattern = ".*".join(re.escape(piece) for piece in shown.split(REST))
    return re.fullmatch(pattern, real, re.DOTALL) is not None


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:300]


def _of_objects(shown: Object, real: Object, at: str) -> Iterator[str]:
    for name, value in shown.items():
        if name == REST:
            continue
        if name not in real:
            yield f"{at}.{name} is not there"
        else:
            yield from differences(value, real[name], f"{at}.{name}")
    if REST not in shown:
        yield from (f"{at}.{name} is not shown" for name in real if name not in shown)


def _of_lists(shown: list[Any], real: list[Any], at: str) -> Iterator[str]:
    more = shown[-1:] == [REST]
    wanted = shown[:-1] if more else shown
    if len(real) < len(wanted) or (len(real) > len(wanted) and not more):
        yield f"{at or 'it'} has {len(real)} elements, and not {len(wanted)}"
    for number, (one, other) in enumerate(zip(wanted, real, strict=False)):
        yield from differences(one, other, f"{at}[{number}]")
