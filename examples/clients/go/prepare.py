"""Copy openapi.json from standard input to standard output, without the defaults of unions and
objects, which openapi-generator turns into Go that does not compile. Webhooks are left out, because
a client does not send them."""

import json
import sys
from typing import Any, cast


def remove_defaults(node: Any) -> None:
    if isinstance(node, dict):
        schema = cast("dict[str, Any]", node)
        if "type" not in schema or isinstance(schema.get("default"), dict | list):
            schema.pop("default", None)
        for value in schema.values():
            remove_defaults(value)
    elif isinstance(node, list):
        for value in cast("list[Any]", node):
            remove_defaults(value)


document = json.load(sys.stdin)
del document["webhooks"]
remove_defaults(document)
json.dump(document, sys.stdout)
