"""A small application on the API's foundation, served over real HTTP: one route for each thing
that the foundation does."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import Annotated, cast
from uuid import UUID

import uvicorn
from asyncpg.exceptions import (  # pyright: ignore[reportMissingTypeStubs]
    AdminShutdownError,
    CharacterNotInRepertoireError,
)
from fastapi import Body, Query, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import DBAPIError

from runward.api.app import create_app
from runward.api.http.auth import AnyKey, Operator, RunsReader, RunsWriter
from runward.api.http.dependencies import LiveDep
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import (
    CallPath,
    EventCursor,
    IdempotencyKey,
    RunPath,
    ToolPath,
    WaitSeconds,
)
from runward.api.http.response_sender import should_log
from runward.api.http.responses import json_response
from runward.api.http.routes import make_router
from runward.api.runs.request_models import CancelRun, StartRun, SubmitToolResult
from runward.domain import errors, not_found
from runward.domain.ids import KeyId, Prefix, ProjectId, format_id
from runward.domain.registry.scopes import Principal, Scope
from runward.services import NoWorker, RequestLimits, Services
from runward.store.access.vault import SecretUnreadableError

READER, WRITER, OPERATOR, BROKEN = "reader-key", "writer-key", "operator-kéy", "broken-key"
MAX_BODY_BYTES = 4096
RUN = "run_" + "0" * 31 + "1"

routes = make_router("Runs")


@routes.post("/runs", status_code=202)
async def start_run(
    who: RunsWriter, run: StartRun, wait: WaitSeconds, idempotency_key: IdempotencyKey = None
) -> Response:
    shown = {
        "input": str(getattr(run.to_items()[0], "content", "")),
        "tools": list(run.tools),
        "key": idempotency_key,
        "wait": wait,
        "by": format_id(Prefix.KEY, who.key_id),
    }
    return json_response(shown, 202, {"Location": f"/v1/runs/{RUN}"})


@routes.get("/runs")
async def list_runs(
    who: RunsReader, walk: Pagination, status: Annotated[str | None, Query(max_length=20)] = None
) -> Page[str]:
    walk.by_id(Prefix.RUN)
    names = [f"{status}-{n}" for n in range(walk.limit + 1)]
    return Page[str].from_rows(names, walk.limit, str.upper, str)


@routes.get("/runs/{run_id}")
async def get_run(who: RunsReader, run_id: RunPath) -> Response:
    if run_id.int != 1:
        raise not_found.RunNotFoundError
    return json_response({"id": format_id(Prefix.RUN, run_id)})


@routes.delete("/runs/{run_id}", status_code=204)
async def delete_run(who: RunsWriter, run_id: RunPath) -> Response:
    return Response(status_code=204)


@routes.post("/runs/{run_id}/cancel")
async def cancel_run(
    who: RunsWriter, run_id: RunPath, how: Annotated[CancelRun | None, Body()] = None
) -> Response:
    return json_response({"mode": (how or CancelRun()).mode})


@routes.get("/runs/{run_id}/events")
async def stream_events(who: RunsReader, run_id: RunPath, after: EventCursor) -> Response:
    start = after.sequence

    async def frames() -> AsyncIterator[bytes]:
        number = start
        while True:
            number += 1
            yield f"id: {number}\n\n".encode()
            await asyncio.sleep(0.01)

    return StreamingResponse(frames(), media_type="text/event-stream")


@routes.post("/runs/{run_id}/tool_calls/{call_id:path}/result")
async def give_result(
    who: RunsWriter, run_id: RunPath, call_id: CallPath, result: SubmitToolResult
) -> Response:
    return json_response({"call_id": call_id, "output": result.output, "error": result.error})


@routes.post("/tools/{name}/rotate_secret")
async def rotate_secret(who: AnyKey, name: ToolPath) -> Response:
    return json_response({"name": name})


@routes.get("/projects")
async def list_projects(who: Operator) -> Response:
    return json_response({"project": str(who.project_id)})


FAILURES: dict[str, Callable[[], Exception]] = {
    "bug": lambda: RuntimeError("the password is hunter2"),
    "refused": ConnectionRefusedError,
    "shutdown": lambda: DBAPIError("SELECT 1", {}, AdminShutdownError("going down")),
    "data": lambda: DBAPIError("SELECT 1", {}, CharacterNotInRepertoireError("NUL")),
    "group": lambda: ExceptionGroup("two", [TimeoutError(), OSError()]),
    "secret": lambda: SecretUnreadableError("tools.secret of 'pay' cannot be decrypted"),
    "limit": lambda: errors.TooManyRequestsError(retry_after=7.2),
    "decided": lambda: errors.ApprovalAlreadyDecidedError(
        extra={"approval": {"status": "rejected"}}
    ),
    "in-flight": errors.IdempotencyInFlightError,
    "late": errors.LateCallbackError,
}


@routes.get("/fail/{how}")
async def fail(how: str, live: LiveDep) -> Response:
    raise FAILURES[how]()


@routes.get("/fail-late/{how}")
async def fail_late(how: str) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise FAILURES[how]()

    return StreamingResponse(pieces())


class Keys:
    """The services that the foundation needs, with keys in a table."""

    public_url = "http://127.0.0.1"
    limits = RequestLimits(MAX_BODY_BYTES, 300)
    live = None

    @property
    def access(self) -> "Keys":
        return self

    @property
    def queue(self) -> NoWorker:
        return NoWorker()

    async def authenticate(self, token: str) -> Principal | None:
        if token == BROKEN:
            raise ConnectionRefusedError
        scopes = {
            READER: {Scope.RUNS_READ},
            WRITER: {Scope.RUNS_WRITE},
            OPERATOR: {Scope.ADMIN},
        }.get(token)
        if scopes is None:
            return None
        project, key = ProjectId(UUID(int=7)), KeyId(UUID(int=9))
        return Principal(project, key, "test", frozenset(scopes), operator=token == OPERATOR)


@contextmanager
def serving() -> Generator[str]:
    """Yields the address of the application, on a thread and port of its own."""
    app = create_app(cast(Services, Keys()), [routes])
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1
    )
    logging.getLogger("uvicorn.error").addFilter(should_log)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = threading.Event()
    while not server.started:
        assert thread.is_alive()
        deadline.wait(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
