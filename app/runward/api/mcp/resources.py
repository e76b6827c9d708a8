"""resources/* of /mcp: the runs of a project and their outputs."""

from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

from runward.api.mcp.results import McpRequestError, build_file, find_output
from runward.api.runs.answers import load_content, load_run
from runward.domain import not_found
from runward.domain.ids import Prefix, ProjectId, RunId, format_id, parse_id
from runward.domain.json import JsonObject, as_text, compact
from runward.services import Storage
from runward.store.postgres.db import Tx
from runward.store.runs import search, views
from runward.store.runs.search import RunFilter
from runward.store.runs.views import RunView

SCHEME: Final = "runward://runs/"
RUN_TEMPLATE: Final = f"{SCHEME}{{run_id}}"
OUTPUT_TEMPLATE: Final = f"{RUN_TEMPLATE}/output"
FILE_TEMPLATE: Final = f"{RUN_TEMPLATE}/files/{{number}}/{{name}}"
PAGE: Final = 100
"""Maximum number of resources in one response."""
NOT_FOUND: Final = -32_002
"""The code for unknown resources (MCP 2025-11-25, resources, error handling). The protocol of 2026
uses INVALID_PARAMS (SEP-2164)."""
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
_TEMPLATES: Final = (
    (RUN_TEMPLATE, "run", "A run: its status, its output, and what it waits for.", _JSON),
    (OUTPUT_TEMPLATE, "output", "The output of a run that has completed.", None),
    (FILE_TEMPLATE, "file", "A file, image or audio in the output of a tool.", None),
)


async def list_resources(storage: Storage, project_id: ProjectId, params: JsonObject) -> JsonObject:
    """Return a page of the runs, newest first. Raises McpRequestError if the cursor is invalid."""
    async with storage.connect() as tx:
        runs, more = await list_newest(tx, project_id, params)
    listed: list[JsonValue] = [_describe_run(run) for run in runs]
    return {"resources": listed, **more}


async def list_newest(
    tx: Tx, project_id: ProjectId, params: JsonObject
) -> tuple[list[RunView], JsonObject]:
    """Return a page of the runs, newest first, and the cursor of the next page. Raises
    McpRequestError if the cursor is invalid."""
    cursor = params.get("cursor")
    after = None if cursor is None else parse_id(Prefix.RUN, str(cursor))
    if cursor is not None and after is None:
        raise McpRequestError(
            "The cursor does not belong to this list. Request the first page again."
        )
    page = await search.search_runs(
        tx, project_id, RunFilter(), after=after, limit=PAGE + 1, descending=True
    )
    shown = page.runs[:PAGE]
    more: JsonObject = {}
    if len(page.runs) > PAGE:
        more = {"nextCursor": format_id(Prefix.RUN, shown[-1].id)}
    return shown, more


async def list_templates(storage: Storage, project_id: ProjectId, params: JsonObject) -> JsonObject:
    listed: list[JsonValue] = [
        {
            "uriTemplate": template,
            "name": name,
            "description": description,
            **({"mimeType": media_type} if media_type else {}),
        }
        for template, name, description, media_type in _TEMPLATES
    ]
    return {"resourceTemplates": listed}


async def read_resource(storage: Storage, project_id: ProjectId, params: JsonObject) -> JsonObject:
    """Return the contents of a resource. Raises McpRequestError if it does not exist."""
    return {"contents": [await read_contents(storage, project_id, str(params.get("uri")))]}


async def read_contents(storage: Storage, project_id: ProjectId, uri: str) -> JsonObject:
    """Return one entry of `contents`. Raises McpRequestError if the resource does not exist."""
    _, *path = uri.removeprefix(SCHEME).split("/")
    run_id = parse_uri(uri)
    try:
        if run_id is None:
            raise not_found.RunNotFoundError
        async with storage.connect() as tx:
            return await _read(tx, project_id, run_id, path, uri)
    except not_found.RunNotFoundError:
        shown = uri[:300]
        raise McpRequestError(f"Resource not found: {shown}", NOT_FOUND, {"uri": shown}) from None


def parse_uri(uri: str) -> RunId | None:
    """Return the run of a resource. None: it is not the URI of a resource."""
    head = uri.removeprefix(SCHEME).split("/")[0]
    run_id = parse_id(Prefix.RUN, head) if uri.startswith(SCHEME) else None
    return None if run_id is None else RunId(run_id)


async def complete_run_id(storage: Storage, project_id: ProjectId, prefix: str) -> list[str]:
    """Return the IDs of the newest runs that begin with `prefix`."""
    async with storage.connect() as tx:
        page = await search.search_runs(
            tx, project_id, RunFilter(), after=None, limit=PAGE, descending=True
        )
    ids = (format_id(Prefix.RUN, run.id) for run in page.runs)
    return [one for one in ids if one.startswith(prefix)]


async def _read(
    tx: Tx, project_id: ProjectId, run_id: RunId, path: list[str], uri: str
) -> JsonObject:
    if not path:
        run = await load_run(tx, project_id, run_id)
        return {"uri": uri, "mimeType": _JSON, "text": run.model_dump_json()}
    view = await load_content(tx, project_id, run_id)
    calls = (
        await views.list_calls(tx, project_id, run_id) if view.config.get("kind") == "call" else ()
    )
    output, parts = find_output(view, calls)
    match path:
        case ["output"]:
            if isinstance(output, str) or output is None:
                return {"uri": uri, "mimeType": _TEXT, "text": as_text(output)}
            return {"uri": uri, "mimeType": _JSON, "text": compact(output)}
        case ["files", number, *_] if number.isdecimal() and 0 < int(number[:4]) <= len(parts):
            return build_file(parts[int(number[:4]) - 1], uri)
        case _:
            raise not_found.RunNotFoundError


def _describe_run(run: RunView) -> JsonObject:
    run_id = format_id(Prefix.RUN, run.id)
    subject = f"agent '{run.agent}'" if run.agent else "a model or a tool"
    changed = (run.ended_at or run.created_at).isoformat()
    return {
        "uri": f"{SCHEME}{quote(run_id)}",
        "name": run_id,
        "description": f"A run of {subject} with the status {run.status}.",
        "mimeType": _JSON,
        "annotations": {"lastModified": changed},
    }
