"""Generate the parts of `runward_client` that are not written by hand: `types.py` from
openapi/openapi.json, and the blocking client from the asynchronous one.

    python sdks/python/scripts/generate.py
"""

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[3]
PACKAGE: Final = ROOT / "sdks" / "python" / "runward_client"
TYPES_HEADER: Final = '''"""The types of the API: requests, responses and events."""

# Generated from openapi/openapi.json by sdks/python/scripts/generate.py. Do not edit.

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


'''
PRIMITIVES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
WIDTH: Final = 100
BLOCKING: Final = (
    (r"\b_async\b", "_sync"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basyncio\.sleep", "time.sleep"),
    (r"\bimport asyncio", "import time"),
    (r"\ba(close|closing|iter_bytes|read)\b", r"\1"),
    (r"__a(enter|exit)__", r"__\1__"),
)
"""Regular expressions and replacements that turn asynchronous code into blocking code."""


def generate_files() -> dict[Path, str]:
    """Return the text of each generated file."""
    document = json.loads((ROOT / "openapi" / "openapi.json").read_text("utf-8"))
    return {PACKAGE / "types.py": make_types(document)} | {
        PACKAGE / "_sync" / file.name: make_blocking(file.read_text("utf-8"))
        for file in sorted((PACKAGE / "_async").glob("*.py"))
    }


def make_types(document: dict[str, Any]) -> str:
    """Return a module with a type for each schema and for each query. Type checkers alone read it:
    at run time a response may have fields and values that are newer than the types."""
    schemas = document["components"]["schemas"]
    classes = [make_class(name, one) for name, one in schemas.items() if "properties" in one]
    queries = [make_class(name, one) for name, one in query_schemas(document)]
    aliases = [make_alias(name, one) for name, one in schemas.items() if "properties" not in one]
    return TYPES_HEADER + "\n\n".join(classes + queries) + "\n\n" + "\n".join(aliases)


def query_schemas(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for methods in document["paths"].values():
        for operation in methods.values():
            given = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
            if given:
                name = "".join(word.title() for word in operation["operationId"].split("_"))
                described = {
                    one["name"]: one["schema"] | {"description": one.get("description", "")}
                    for one in given
                }
                doc = f"The query of `{operation['operationId']}`."
                yield f"{name}Query", {"properties": described, "description": doc}


def make_class(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    fields = {
        field: expression(one) if field in required else f"NotRequired[{expression(one)}]"
        for field, one in schema["properties"].items()
    }
    if not all(field.isidentifier() and field != "from" for field in fields):
        return f"{name} = TypedDict(\n    {name!r},\n    {fields!r},\n)\n"
    lines = [f"class {name}(TypedDict):", docstring(schema)]
    for field, type_ in fields.items():
        lines += [f"    {field}: {type_}", docstring(schema["properties"][field])]
    body = "\n".join(line for line in lines if line)
    return body + "\n" if len(lines) > 1 and (fields or lines[1]) else f"{body}\n    pass\n"


def make_alias(name: str, schema: dict[str, Any]) -> str:
    doc = textwrap.dedent(docstring(schema))
    return f"{name}: TypeAlias = {expression(schema)!r}\n{doc}\n".rstrip("\n") + "\n"


def expression(schema: dict[str, Any]) -> str:
    """Return the Python type of a schema."""
    match schema:
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"const": value}:
            return f"Literal[{value!r}]"
        case {"enum": [*values]}:
            return f"Literal[{', '.join(map(repr, values))}]"
        case {"anyOf": [*options]} | {"oneOf": [*options]}:
            return " | ".join(dict.fromkeys(map(expression, options)))
        case _:
            return plain_expression(schema)


def plain_expression(schema: dict[str, Any]) -> str:
    match schema:
        case {"type": "array", "items": items}:
            return f"list[{expression(items)}]"
        case {"type": "object", "additionalProperties": {} as values}:
            return f"dict[str, {expression(values)}]"
        case {"type": "object"}:
            return "dict[str, Any]"
        case {"type": str(name)}:
            return PRIMITIVES[name]
        case _:
            return "Any"


def docstring(schema: dict[str, Any]) -> str:
    text = " ".join(schema.get("description", "").split()).replace("\\", "\\\\")
    if not text:
        return ""
    text = text.replace('"""', "'''") + (" " if text.endswith('"') else "")
    if len(text) <= WIDTH - 10:
        return f'    """{text}"""'
    return textwrap.indent('"""' + textwrap.fill(text, WIDTH - 10) + '"""', "    ")


def make_blocking(source: str) -> str:
    for pattern, replacement in BLOCKING:
        source = re.sub(pattern, replacement, source)
    return "# Generated from _async by sdks/python/scripts/generate.py. Do not edit.\n" + source


if __name__ == "__main__":
    for file, text in generate_files().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        print(file.relative_to(ROOT))
