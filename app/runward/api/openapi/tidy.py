"""Tidy FastAPI's document: remove titles that repeat field names, and null where a value cannot be
null. Describe constants and default values."""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]


def tidy_document(document: Json) -> Json:
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _remove_null(parameter["schema"])
                parameter["schema"].pop("description", None)
                _describe_default(parameter, parameter["schema"].get("default"))
            body: Json = operation.get("requestBody", {})
            for media in body.get("content", {}).values() if body.get("required") else ():
                media["schema"] = _remove_null(media["schema"])
    document["paths"] = _remove_titles(document["paths"])
    schemas: Json = document["components"]["schemas"]
    document["components"]["schemas"] = {n: _remove_titles(each) for n, each in schemas.items()}
    for schema in document["components"]["schemas"].values():
        for name, field in schema.get("properties", {}).items():
            schema["properties"][name] = _describe_constant(field)
    return document


def _describe_constant(field: Json) -> Json:
    """Return the schema of a field. If the field is a constant text, add a description."""
    if "description" in field or not isinstance(field.get("const"), str):
        return field
    described: Json = {}
    for key, value in field.items():
        described[key] = value
        if key == "const":
            described["description"] = f"Always `{value}`."
    return described


def describe_defaults(fields: Iterable[Json]) -> None:
    """Add the default value of each field to its description, unless it is a constant."""
    for field in fields:
        if "const" not in field:
            _describe_default(field, field.get("default"))


def _describe_default(described: Json, default: Any) -> None:
    """Add a default to a description. Objects and null are left to the description's own text."""
    text: str = described.get("description", "")
    if text and "Default: " not in text and default is not None and not isinstance(default, dict):
        described["description"] = f"{text} Default: {_format_default(default)}."


def _format_default(default: Any) -> str:
    if isinstance(default, str):
        return f"`{default}`" if default else "an empty string"
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    return json.dumps(default) if default != [] else "an empty list"


def _remove_null(schema: Json) -> Json:
    """Remove null from the schema of a parameter or of a required body."""
    branches = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(branches) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return rest | branches[0]
    return schema | {"anyOf": branches} if branches else schema


def relax_unions(node: Any) -> Any:
    """Return the document with `anyOf` in place of `oneOf` in unions that no property
    discriminates."""
    if isinstance(node, list):
        return [relax_unions(each) for each in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    found = cast("Json", node)
    relaxed = "oneOf" in found and "discriminator" not in found
    return {
        "anyOf" if relaxed and key == "oneOf" else key: relax_unions(value)
        for key, value in found.items()
    }


def _remove_titles(node: Any) -> Any:
    """Remove the titles of all schemas, but keep properties named `title`."""
    if isinstance(node, list):
        return [_remove_titles(each) for each in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    found = cast("Json", node)
    return {
        key: value if key == "examples" else _remove_titles(value)
        for key, value in found.items()
        if not (key == "title" and isinstance(value, str))
    }
