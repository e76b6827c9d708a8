"""Suggest Runward's name for a field that other APIs call differently."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from pydantic import TypeAdapter

from runward.domain.registry.synonyms import FIELD_NAMES_BY_SYNONYM
from runward.llm.settings import all_settings

_DEPTH: Final = 2
"""Of the objects whose fields are suggested: the body, and objects directly in it."""


def suggest_field(adapter: TypeAdapter[Any], location: Sequence[str | int]) -> str:
    """Return the suggestion for an unknown field, or an empty text. `location`: Pydantic's path to
    the field, in the body that `adapter` validates."""
    name = FIELD_NAMES_BY_SYNONYM.get(str(location[-1]))
    path = None if name is None else _find_field_paths(adapter).get(name)
    if path is None:
        return ""
    parent = path[-2] if len(path) > 1 else None
    place = f" It is a field of `{parent}`." if parent and parent not in location[:-1] else ""
    return f"; did you mean `{name}`?{place}"


@cache
def _find_field_paths(adapter: TypeAdapter[Any]) -> Mapping[str, tuple[str, ...]]:
    """Each field's name, and the shortest path to it."""
    schema = adapter.json_schema()
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(_iterate_paths(schema, schema, ()), key=len):
        found.setdefault(path[-1], path)
    return found


def _iterate_paths(
    schema: dict[str, Any], root: dict[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    if (reference := schema.get("$ref")) is not None:
        schema = root["$defs"][reference.rpartition("/")[2]]
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _iterate_paths(branch, root, above)
    if len(above) == _DEPTH:
        return
    for name, inner in cast(dict[str, dict[str, Any]], schema.get("properties", {})).items():
        yield (*above, name)
        yield from _iterate_paths(inner, root, (*above, name))
        if name == "model_settings":  # in the schema it is any object
            yield from ((*above, name, setting) for setting in all_settings())
