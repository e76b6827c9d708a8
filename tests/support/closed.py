"""openapi.json with closed schemas, so that tests find fields that it does not describe."""

from typing import Any, cast

Json = dict[str, Any]


def close_schemas(node: Any) -> Any:
    """Return the node with `additionalProperties: false` in all objects that leave it open."""
    if isinstance(node, list):
        return [close_schemas(each) for each in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    found = cast("Json", node)
    closed = {
        key: value if key in ("examples", "example") else close_schemas(value)
        for key, value in found.items()
    }
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
