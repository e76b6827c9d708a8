"""/openapi.json and /docs: a page that is rendered here, without scripts and without external
resources."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

from runward.api.http.responses import json_response
from runward.api.http.routes import make_router as strict_router
from runward.api.openapi.tidy import Json

_STYLE: Final = files("runward.api.openapi").joinpath("docs.css").read_text("utf-8")
_CSP: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)


def make_docs_router() -> APIRouter:
    routes = strict_router("Service", prefix="")

    @routes.get("/openapi.json", include_in_schema=False)
    async def openapi_json(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return json_response(await _document(request), headers={"Cache-Control": "no-cache"})

    @routes.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        headers = {
            "Content-Security-Policy": _CSP,
            "Cache-Control": "no-cache",
            "Referrer-Policy": "no-referrer",
        }
        return Response(
            render_page(await _document(request)), 200, headers, "text/html; charset=utf-8"
        )

    return routes


async def _document(request: Request) -> Json:
    """Return the rendered page. It is created at the first request, which takes some tenths of a
    second of CPU time."""
    return await asyncio.to_thread(lambda: request.app.openapi)


def render_page(document: Json) -> str:
    tags = [tag["name"] for tag in document.get("tags", ())]
    nav = "".join(f'<a href="#{_anchor(tag)}">{escape(tag)}</a>' for tag in tags)
    sections = "".join(_section(document, tag) for tag in document.get("tags", ()))
    schemas = "".join(_schema(n, s) for n, s in document["components"]["schemas"].items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(document['info']['title'])} API</title><style>{_STYLE}</style></head>"
        f"<body><header><h1>{escape(document['info']['title'])} API "
        f"<small>{escape(document['info']['version'])}</small></h1>"
        f'<nav>{nav}<a href="#schemas">Schemas</a><a href="openapi.json">openapi.json</a></nav>'
        f"</header><main>{_words(document['info'].get('description', ''))}{sections}"
        f'<h2 id="schemas">Schemas</h2>{schemas}</main></body></html>'
    )


def _section(document: Json, tag: Json) -> str:
    operations = [
        _operation(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag["name"] in operation.get("tags", ())
    ]
    title = f'<h2 id="{_anchor(tag["name"])}">{escape(tag["name"])}</h2>'
    return title + _words(tag["description"]) + "".join(operations)


def _operation(path: str, method: str, operation: Json) -> str:
    parameters = [
        (p["name"], f"{p['in']}, {_type(p['schema'])}", p.get("description", ""), p.get("required"))
        for p in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {})
    bodies = "".join(f"<p>Body: {_type(media['schema'])}</p>" for media in body.values())
    answers = "".join(f"<li>{_answer(s, r)}</li>" for s, r in operation["responses"].items())
    return (
        f'<details id="{escape(operation["operationId"])}"><summary>'
        f'<b class="{method}">{method.upper()}</b> <code>{escape(path)}</code> '
        f"{escape(operation.get('summary', ''))}</summary>"
        f"{_words(operation.get('description', ''))}{_table(parameters)}{bodies}"
        f"<ul>{answers}</ul></details>"
    )


def _answer(status: str, response: Json) -> str:
    if "$ref" in response:
        return f"<b>{escape(status)}</b> {_link('Problem')}"
    shapes = " or ".join(
        f"{_type(media.get('schema', {}))} as {escape(kind)}"
        for kind, media in response.get("content", {}).items()
    )
    return f"<b>{escape(status)}</b> {escape(response.get('description', ''))} {shapes}"


def _schema(name: str, schema: Json) -> str:
    required = schema.get("required", ())
    rows = [
        (field, _type(value), value.get("description", ""), field in required)
        for field, value in schema.get("properties", {}).items()
    ]
    shape = "" if rows else f"<p>{_type(schema)}</p>"
    return (
        f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"{_words(schema.get('description', ''))}{shape}{_table(rows)}</details>"
    )


def _table(rows: Sequence[tuple[str, str, str, bool | None]]) -> str:
    lines = "".join(
        f"<tr><td><code>{escape(name)}</code>{' *' if required else ''}</td>"
        f"<td>{kind}</td><td>{_words(text)}</td></tr>"
        for name, kind, text, required in rows
    )
    return f"<table>{lines}</table>" if rows else ""


def _type(schema: Json) -> str:
    """Return a type as HTML with links."""
    if "$ref" in schema:
        return _link(schema["$ref"].rsplit("/", 1)[-1])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(f"<code>{escape(str(v))}</code>" for v in values)
    for joined in ("anyOf", "oneOf"):
        if joined in schema:
            return " | ".join(dict.fromkeys(_type(branch) for branch in schema[joined]))
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any")))


def _link(name: str) -> str:
    return f'<a href="#schema-{escape(name)}">{escape(name)}</a>'


def _words(text: str) -> str:
    """Return a description as HTML paragraphs with `code`."""
    blocks: list[str] = []
    for block in filter(None, (part.strip() for part in text.split("\n\n"))):
        pieces = escape(block).split("`")
        coded = (p if i % 2 == 0 else f"<code>{p}</code>" for i, p in enumerate(pieces))
        blocks.append(f"<p>{''.join(coded)}</p>")
    return "".join(blocks)


def _anchor(tag: str) -> str:
    return escape("tag-" + tag.lower().replace(" ", "-"))
