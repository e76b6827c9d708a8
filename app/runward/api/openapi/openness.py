"""Open the schemas of responses, and keep those of requests closed.

A later version may add fields to responses, values to enumerations and types to unions, and clients
must accept them. Runward rejects requests with unknown fields.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final, cast

from runward.api.openapi.tidy import Json, describe_defaults

_SUFFIX: Final = "Input"
"""The suffix of a schema's name in requests if responses use an open version of the same schema."""
_BOUNDS: Final = frozenset({"maximum", "maxLength", "maxItems", "maxProperties"})
"""Keywords that apply only to requests, because later versions may raise the bounds."""
_MORE_VALUES: Final = "Later versions may add values."
_MORE_TYPES: Final = "Later versions may add types. Clients must ignore unknown types."
_REF: Final = re.compile(r'"#/components/schemas/(\w+)"')


def open_responses(document: Json) -> None:
    """Remove `additionalProperties: false` and upper bounds from all schemas of responses, and
    describe their enumerations and unions as open. If requests also use such a schema, they get a
    closed copy of it. The descriptions of requests get the default values."""
    schemas: Json = document["components"]["schemas"]
    sent, shown = _find_schemas(document, sent=True), _find_schemas(document, sent=False)
    closed = {name for name, schema in schemas.items() if _is_closed(schema)}
    shared = {name for name in sent & shown if closed & _follow(schemas, [name])}
    copies = {name: f"{name}{_SUFFIX}" for name in shared}
    for name in sent:
        renamed = _rename(schemas[name], copies)
        if name in shared:
            schemas[copies[name]] = renamed
            describe_defaults(renamed.get("properties", {}).values())
        elif name not in shown:
            schemas[name] = renamed
            describe_defaults(renamed.get("properties", {}).values())
    for owner, key in _list_bodies(document, sent=True):
        owner[key] = _rename(owner[key], copies)
    for name in shown:
        schemas[name] = _describe_as_open(_open(schemas[name]))


def _list_bodies(document: Json, *, sent: bool) -> Iterator[tuple[Json, str]]:
    """Yield the objects and keys with the bodies that clients send or receive. Clients receive the
    requests of webhooks, and send the responses."""
    for group in ("paths", "webhooks"):
        key = "requestBody" if sent == (group == "paths") else "responses"
        for methods in document.get(group, {}).values():
            yield from ((operation, key) for operation in methods.values() if key in operation)


def _find_schemas(document: Json, *, sent: bool) -> set[str]:
    components: Json = document["components"]
    bodies: list[Any] = [owner[key] for owner, key in _list_bodies(document, sent=sent)]
    if not sent:
        bodies.append(components["responses"])
    return _follow(components["schemas"], _list_references(bodies))


def _follow(schemas: Json, names: Iterable[str]) -> set[str]:
    """Return the names, and the names of all schemas that these schemas refer to, at any depth."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _list_references(schemas[name])
    return found


def _list_references(node: Any) -> Set[str]:
    return set(_REF.findall(json.dumps(node)))


def _rename(node: Any, names: Mapping[str, str]) -> Any:
    def replace(match: re.Match[str]) -> str:
        return f'"#/components/schemas/{names.get(match[1], match[1])}"'

    return json.loads(_REF.sub(replace, json.dumps(node)))


def _is_closed(schema: Json) -> bool:
    return schema.get("additionalProperties") is False


def _open(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_open(each) for each in schema]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(schema, dict):
        return schema
    opened: Json = {}
    for key, value in cast("Json", schema).items():
        if key == "properties":
            opened[key] = {name: _open(field) for name, field in value.items()}
        elif key not in _BOUNDS and (key, value) != ("additionalProperties", False):
            opened[key] = value if key == "examples" else _open(value)
    return opened


def _describe_as_open(schema: Json) -> Json:
    more = _MORE_VALUES if "enum" in schema else _MORE_TYPES if "discriminator" in schema else ""
    if not more:
        return schema
    return schema | {"description": f"{schema.get('description', '')} {more}".lstrip()}
