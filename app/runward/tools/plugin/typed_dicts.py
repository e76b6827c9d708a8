"""Type hints in the form that Pydantic and JSON need.

`typing.TypedDict` before Python 3.12 lacks information that Pydantic needs. A `Literal` of an
enum's members accepts no JSON; here it accepts their values.
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
    """Return `hint` with each TypedDict and each Literal in it in a form that Pydantic can read. A
    TypedDict that contains itself stays unchanged."""
    if hint in seen:
        return hint
    if is_typed_dict(hint) and type(hint).__module__ == "typing" and sys.version_info < (3, 12):
        return _rebuild(hint, (*seen, hint))
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
    """Return a hint for a Literal with members of enums: it accepts their values and reads them as
    these members."""
    if not any(isinstance(one, Enum) for one in members):
        return hint
    values = {one.value if isinstance(one, Enum) else one: one for one in members}
    return Annotated[Literal[tuple(values)], AfterValidator(values.__getitem__)]


def _rebuild(typed_dict: Any, seen: tuple[Any, ...]) -> Any:
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
