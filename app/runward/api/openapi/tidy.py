"""Remove what FastAPI writes and no reader needs: titles made of field names, and null where a
value can only be left out. Describe constants by their values."""

from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]


def tidy_document(document: Json) -> Json:
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _remove_null(parameter["schema"])
                parameter["schema"].pop("description", None)
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
    """Return the schema of a field with a description, if it is a text that never changes."""
    if "description" in field or not isinstance(field.get("const"), str):
        return field
    described: Json = {}
    for key, value in field.items():
        described[key] = value
        if key == "const":
            described["description"] = f"Always `{value}`."
    return described


def _remove_null(schema: Json) -> Json:
    """A parameter, or a required body, cannot be null."""
    branches = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(branches) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return rest | branches[0]
    return schema | {"anyOf": branches} if branches else schema


def _remove_titles(node: Any) -> Any:
    """A title is a text; a property of that name has a schema."""
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
