"""Convert Pydantic's errors to Runward's: a path as the client knows it, and a message without
values. If an unknown field is another API's name of a field, the message suggests Runward's
name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter

from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.registry.synonyms import FIELD_NAMES_BY_SYNONYM
from runward.llm.settings import all_settings

_DEPTH: Final = 2
"""Maximum depth of objects whose fields are suggested: the body, and objects directly in it."""


def suggest_field(adapter: TypeAdapter[Any], location: Sequence[str | int]) -> str:
    """Return the suggestion for an unknown field, or an empty string. `location`: the path to
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
    """Return each field's name and the shortest path to it."""
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
        if name == "model_settings":  # The schema describes it as any object.
            yield from ((*above, name, setting) for setting in all_settings())


MAX_ERRORS: Final = 20
MAX_PATH: Final = 200
"""Maximum number of characters of a path. A path may contain keys that the client chose."""

_MESSAGES: Final[Mapping[str, str]] = {
    "extra_forbidden": "unknown field",
    "missing": "is required",
    "union_tag_not_found": "is required",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "dataclass_type": "must be an object",
    "tuple_type": "must be an array",
    "list_type": "must be an array",
    "set_type": "must be an array",
    "string_type": "must be a string",
    "finite_number": "must be a finite number",
    "json_invalid": "is not valid JSON",
    "timezone_aware": "must have an offset from UTC, such as Z or +02:00",
}


def convert_validation_error(error: RequestValidationError) -> InvalidRequestError:
    return InvalidRequestError(errors=build_field_errors(error.errors(), error.body))


def build_field_errors(details: Sequence[Any], body: object) -> list[FieldError]:
    """Return the errors of a request. `details`: Pydantic's dicts. Each `loc` begins with `body`,
    `query`, or another part of the request."""
    complaints = [_ValidationIssue.from_details(item, body) for item in details]
    inner = {".".join(c.parts[:n]) for c in complaints for n in range(len(c.parts))}
    messages: dict[str, list[str]] = {}
    for complaint in complaints:
        if complaint.secondary and complaint.path in inner:
            continue
        said = messages.setdefault(complaint.path, [])
        if complaint.message not in said:
            said.append(complaint.message)
    lines = [
        FieldError(_truncate_path(path), ", or ".join(said)) for path, said in messages.items()
    ]
    if len(lines) > MAX_ERRORS:
        rest = len(lines) - MAX_ERRORS
        return [*lines[:MAX_ERRORS], FieldError("", f"{rest} more problems are not listed")]
    return lines


@dataclass(frozen=True, slots=True)
class _ValidationIssue:
    """One error. `secondary`: errors inside the same value make it redundant. Either Pydantic tried
    several models for the value, and the client probably meant the one that matched further. Or a
    list is too short only because Pydantic omits the items that are not valid."""

    parts: tuple[str, ...]
    secondary: bool
    message: str

    @property
    def path(self) -> str:
        return ".".join(self.parts)

    @classmethod
    def from_details(cls, item: Mapping[str, Any], body: object) -> "_ValidationIssue":
        kind: str = item["type"]
        place, *rest = cast(Sequence[str | int], item["loc"])
        if place != "body":
            return cls((str(place), *map(str, rest[:1])), False, _format_message(item))
        parts = _find_known_parts(rest, body, last_is_new=kind == "missing")
        of_branch = bool(rest) and (not parts or parts[-1] != str(rest[-1]))
        secondary = of_branch or kind == "too_short"
        if kind.startswith("union_tag_"):
            context: Mapping[str, str] = item["ctx"]
            name = context["discriminator"].strip("'")
            # A validator function found the error.
            parts.append("type" if name.endswith("()") else name)
            secondary = False
        return cls(tuple(parts), secondary, _format_message(item))


def _truncate_path(path: str) -> str:
    return path if len(path) <= MAX_PATH else path[:MAX_PATH] + "…"


def _format_message(item: Mapping[str, Any]) -> str:
    kind: str = item["type"]
    if kind == "union_tag_invalid":  # Pydantic's own text contains the value.
        return f"must be one of {item['ctx']['expected_tags']}"
    if kind in _MESSAGES:
        return _MESSAGES[kind] + item.get("hint", "")
    message, _, _ = item["msg"].removeprefix("Value error, ").partition(" after validation,")
    for start in ("Input should be ", "Value should be "):
        if message.startswith(start):
            return "must be " + message.removeprefix(start)
    subject, should, rest = message.partition(" should ")
    if should and " " not in subject:  # "String should have at most 5 characters"
        return "must " + rest
    return message


def _find_known_parts(loc: Sequence[str | int], body: object, *, last_is_new: bool) -> list[str]:
    """Return the parts of a path that are in the body. Pydantic also includes the names of union
    branches."""
    parts: list[str] = []
    here = body
    for index, part in enumerate(loc):
        if isinstance(here, dict) and part in here:
            here = cast(dict[str | int, object], here)[part]
        elif isinstance(here, list) and isinstance(part, int):
            items = cast(list[object], here)
            here = items[part] if part < len(items) else None
        elif not (last_is_new and index == len(loc) - 1):
            continue
        parts.append(str(part))
    return parts
