"""The request of the runs of a schedule. It is validated when the schedule is created or updated,
and again for each slot."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from runward.api.http.validation import build_field_errors
from runward.api.registry.tool_models import HIDDEN_VALUE
from runward.api.runs.request_models import StartRun
from runward.api.runs.resolution import resolve_agent
from runward.api.runs.start import build_new_run
from runward.domain.errors import AppError, FieldError, InvalidRequestError
from runward.domain.json import JsonObject, parse
from runward.domain.registry.scopes import Principal
from runward.services import Registry, Storage
from runward.store.runs.queue import NewRun

_START_RUN: Final = TypeAdapter(StartRun)


def parse_run(request: str) -> StartRun:
    """Return a stored request. Raises InvalidRequestError if this version of Runward rejects it."""
    try:
        return _START_RUN.validate_json(request)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        details = [{**item, "loc": ("body", "run", *item["loc"])} for item in found]
        problems = build_field_errors(details, {"run": parse(request)})
        raise InvalidRequestError(errors=problems) from None


async def build_run(
    storage: Storage, registry: Registry, principal: Principal, body: StartRun
) -> NewRun:
    """Return a new run. It may use DNS, so do not call it in a transaction. Raises AppErrors, whose
    paths begin with `run`."""
    with _locate_errors():
        resolved = await resolve_agent(storage, registry, principal.project_id, body)
        return build_new_run(principal, body, resolved, body.to_items())


@contextmanager
def _locate_errors() -> Generator[None]:
    try:
        yield
    except AppError as error:
        error.errors = tuple(
            FieldError(f"run.{path}" if path else "run", message) for path, message in error.errors
        )
        raise


def hide_headers(run: JsonObject) -> JsonObject:
    """Return the request with `…` in place of the values of headers, except references to
    secrets."""
    shown = dict(run)
    if isinstance(tools := run.get("tools"), list):
        shown["tools"] = _hide_values(tools)
    return shown


def _hide_values(tools: list[JsonValue]) -> list[JsonValue]:
    return [_hide_in_tool(tool) if isinstance(tool, dict) else tool for tool in tools]


def _hide_in_tool(tool: JsonObject) -> JsonObject:
    hidden = dict(tool)
    match tool:
        case {"headers": dict(headers)}:
            hidden["headers"] = {
                name: HIDDEN_VALUE if isinstance(value, str) else value
                for name, value in headers.items()
            }
        case {"tools": list(tools)}:  # a namespace
            hidden["tools"] = _hide_values(tools)
        case _:
            pass
    return hidden
