"""`typing.TypedDict` before Python 3.12 does not keep what Pydantic has to know of it; here it is
made again as one that does."""

import sys
import types
from typing import Annotated, Any, NotRequired, Required, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of
from typing import is_typeddict as is_typed_dict

from typing_extensions import TypedDict


def readable(hint: Any, seen: tuple[Any, ...] = ()) -> Any:
    """`hint` with every TypedDict in it as Pydantic can read it. One that contains itself stays
    as it is."""
    if sys.version_info >= (3, 12) or hint in seen:
        return hint
    if is_typed_dict(hint) and type(hint).__module__ == "typing":
        return _again(hint, (*seen, hint))
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(readable(inside[0], seen), *inside[1:])]
    if origin is None:
        return hint
    changed = tuple(readable(one, seen) for one in inside)
    if all(new is old for new, old in zip(changed, inside, strict=True)):
        return hint
    if origin in (Union, types.UnionType):
        return Union[changed]  # noqa: UP007  # of a tuple
    return origin[changed]


def _again(typed_dict: Any, seen: tuple[Any, ...]) -> Any:
    keys: dict[str, Any] = {}
    for key, hint in hints_of(typed_dict, include_extras=True).items():
        required = key in typed_dict.__required_keys__
        if get_origin(hint) in (Required, NotRequired):
            required, hint = get_origin(hint) is Required, get_args(hint)[0]  # noqa: PLW2901
        keys[key] = (Required if required else NotRequired)[readable(hint, seen)]
    made = cast(Any, TypedDict)(typed_dict.__name__, keys)
    made.__doc__ = typed_dict.__doc__
    made.__module__ = typed_dict.__module__
    return made
