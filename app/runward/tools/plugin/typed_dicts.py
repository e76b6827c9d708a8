"""Type hints made again as Pydantic can read them, and as JSON can be read into them.

`typing.TypedDict` before Python 3.12 does not keep what Pydantic has to know of it. A `Literal` of
an enum's members takes no JSON: here it takes their values.
"""

import sys
import types
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Required, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of
from typing import is_typeddict as is_typed_dict

from pydantic import AfterValidator
from typing_extensions import TypedDict


def readable_hint(hint: Any, seen: tuple[Any, ...] = ()) -> Any:
    """`hint` with every TypedDict and every Literal in it as Pydantic can read it. A TypedDict that
    contains itself stays as it is."""
    if hint in seen:
        return hint
    if is_typed_dict(hint) and type(hint).__module__ == "typing" and sys.version_info < (3, 12):
        return _again(hint, (*seen, hint))
    origin, inside = get_origin(hint), get_args(hint)
    if origin is None:
        return hint
    if origin is Literal:
        return _of_values(hint, inside)
    if origin is Annotated:
        return Annotated[(readable_hint(inside[0], seen), *inside[1:])]
    return _generic(hint, origin, inside, seen)


def _generic(hint: Any, origin: Any, inside: tuple[Any, ...], seen: tuple[Any, ...]) -> Any:
    changed = tuple(readable_hint(one, seen) for one in inside)
    if all(new is old for new, old in zip(changed, inside, strict=True)):
        return hint
    if origin in (Union, types.UnionType):
        return Union[changed]  # noqa: UP007  # of a tuple
    return origin[changed]


def _of_values(hint: Any, members: tuple[Any, ...]) -> Any:
    """Of a Literal with members of enums: one of their values, read as those members."""
    if not any(isinstance(one, Enum) for one in members):
        return hint
    values = {one.value if isinstance(one, Enum) else one: one for one in members}
    return Annotated[Literal[tuple(values)], AfterValidator(values.__getitem__)]


def _again(typed_dict: Any, seen: tuple[Any, ...]) -> Any:
    keys: dict[str, Any] = {}
    for key, hint in hints_of(typed_dict, include_extras=True).items():
        required = key in typed_dict.__required_keys__
        if get_origin(hint) in (Required, NotRequired):
            required, hint = get_origin(hint) is Required, get_args(hint)[0]  # noqa: PLW2901
        keys[key] = (Required if required else NotRequired)[readable_hint(hint, seen)]
    made = cast(Any, TypedDict)(typed_dict.__name__, keys)
    made.__doc__ = typed_dict.__doc__
    made.__module__ = typed_dict.__module__
    return made
