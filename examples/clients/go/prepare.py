"""Copy openapi.json from standard input to standard output, without the defaults of unions and
objects and without properties that are always null. openapi-generator turns both into Go that does
not compile. Webhooks are left out, because a client does not send them."""

import json
import sys
from typing import Any, cast


def remove_untypable(node: Any) -> None:
    if isinstance(node, dict):
        schema = cast("dict[str, Any]", node)
        if "type" not in schema or isinstance(schema.get("default"), dict | list):
            schema.pop("default", None)
        properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
        for name in [name for name, value in properties.items() if value.get("type") == "null"]:
            del properties[name]
            if name in schema.get("required", ()):
                schema["required"].remove(name)
        for value in schema.values():
            remove_untypable(value)
    elif isinstance(node, list):
        for value in cast("list[Any]", node):
            remove_untypable(value)


document = json.load(sys.stdin)
del document["webhooks"]
remove_untypable(document)
json.dump(document, sys.stdout)
