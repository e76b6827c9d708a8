"""Execution of the tools of MCP servers, with one session for each server and process, opened by
the first call."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Final, TypeAlias
from uuid import UUID

import structlog
from pydantic import JsonValue

from runward.domain.errors import AppError, McpUnreachableError, UnavailableError
from runward.domain.ids import ProjectId
from runward.domain.registry.mcp_servers import ListedTool, McpServerSpec
from runward.domain.run.outcomes import Failed, FailureKind, NeedsInput, Outcome
from runward.egress.client import Egress
from runward.tools.base import DATABASE_UNAVAILABLE, LEASE_LOST, Invocation
from runward.tools.mcp import sdk
from runward.tools.mcp.elicitation import (
    URL_REQUIRED,
    answers_open_call,
    call_outcome,
    read_answered,
    read_input,
    required_urls,
)
from runward.tools.mcp.open_calls import MAX_HELD, FindOpenCalls, HeldCall, HeldCalls, OpenCall
from runward.tools.mcp.outcome import error_outcome
from runward.tools.mcp.session import ConnectableServer, McpSession

log = structlog.get_logger()

IDLE_SECONDS: Final = 600.0
LIST_MAX_AGE_SECONDS: Final = 300.0
"""The age in seconds after which a call refreshes the server's list."""
RELIST_PAUSE_SECONDS: Final = 1.0
"""Minimum seconds between two lists of one session, even if the server reports changes more
often."""
MAX_SESSIONS: Final = 256
"""Maximum number of open sessions of one process."""
SLACK_SECONDS: Final = 0.5
"""Seconds for the notification that the call was cancelled."""

CONNECTION_NOT_HELD: Final = Failed(
    FailureKind.UNKNOWN,
    "The MCP server asked for input while the call was open. This process does not have the open "
    "call, so it could not send the answer.",
)
TOO_MANY_HELD: Final = Failed(
    FailureKind.UNKNOWN,
    f"The MCP server asked for input, but the process already keeps {MAX_HELD} calls open.",
)

LoadServer: TypeAlias = Callable[[ProjectId, str], Awaitable[ConnectableServer | None]]
"""Loads a registered server. Raises McpUnreachableError if a secret of the server does not
exist."""
StoreTools: TypeAlias = Callable[[ConnectableServer, Sequence[ListedTool]], Awaitable[int]]
"""Stores the list of a server and returns the number of changed tools. Raises AppError if the list
cannot be stored."""


class McpInvoker:
    """Calls the tools of MCP servers. `commands`: the exact commands that may be started. Close it
    with `aclose`."""

    def __init__(
        self,
        egress: Egress,
        *,
        commands: Collection[str],
        load_server: LoadServer,
        store_tools: StoreTools,
        find_open_calls: FindOpenCalls,
        idle_seconds: float = IDLE_SECONDS,
        list_again_seconds: float = LIST_MAX_AGE_SECONDS,
    ) -> None:
        self.commands = frozenset(commands)
        self._egress = egress
        self._load = load_server
        self._store_tools = store_tools
        self._idle_seconds = idle_seconds
        self._list_again_seconds = list_again_seconds
        self._held = HeldCalls(find_open_calls)
        self._servers: dict[tuple[UUID, str], ConnectableServer] = {}
        self._sessions: dict[tuple[UUID, str], McpSession] = {}
        self._open: set[McpSession] = set()
        self._tasks: dict[McpSession, asyncio.Task[None]] = {}
        self._again: set[McpSession] = set()
        self._checks: set[asyncio.Task[None]] = set()
        self._changes = 0

    def refusal(self, spec: McpServerSpec) -> str | None:
        """Return the reason why the server's command must not be started."""
        if spec.command is None or spec.command in self.commands:
            return None
        return "is not one of the commands that the operator allows (RUNWARD_MCP_COMMANDS)"

    async def invoke(self, call: Invocation) -> Outcome:
        about = call.tool.mcp
        if about is None:
            return Failed(
                FailureKind.NOT_SENT, "The tool does not name an MCP server.", permanent=True
            )
        deadline = monotonic() + call.seconds
        try:
            async with asyncio.timeout(call.seconds + SLACK_SECONDS):
                if answers_open_call(call.input) and (
                    resumed := await self._resume(call, deadline)
                ):
                    return resumed
                session = await self._session(call.project_id, about.server)
                if isinstance(session, Failed):
                    return session
                if session.is_open and monotonic() - session.listed_at > self._list_again_seconds:
                    self._relist(session)
                return await self._call(session, call, about.tool, deadline)
        except TimeoutError:
            return Failed(
                FailureKind.TIMEOUT,
                f"The MCP server did not answer within {call.seconds:g} seconds.",
            )
        except UnavailableError:
            return DATABASE_UNAVAILABLE

    async def list_tools(self, server: ConnectableServer) -> tuple[ListedTool, ...]:
        """List the server's tools in a separate session. Raises McpUnreachableError."""
        if (refusal := self.refusal(server.spec)) is not None:
            raise McpUnreachableError(f"The command of MCP server '{server.spec.name}' {refusal}.")
        session = self._new_session(server, opened=lambda _: None)
        try:
            await session.wait_until_open()
            return session.listed
        finally:
            await session.aclose()

    def forget(self, project_id: UUID | None) -> None:
        """Reload the changed servers of the project. None: of all projects. Sessions
        with a server that was changed or deleted are closed."""
        self._changes += 1
        for key in [key for key in self._servers if project_id in (None, key[0])]:
            del self._servers[key]
        for key, session in list(self._sessions.items()):
            if project_id in (None, key[0]):
                check = asyncio.create_task(self._check(session))
                self._checks.add(check)
                check.add_done_callback(self._checks.discard)

    async def aclose(self) -> None:
        for task in [*self._tasks.values(), *self._checks]:
            task.cancel()
        await asyncio.gather(*self._tasks.values(), *self._checks, return_exceptions=True)
        await self._held.aclose()
        await asyncio.gather(*(session.aclose() for session in list(self._open)))

    async def _call(
        self, session: McpSession, call: Invocation, tool: str, deadline: float
    ) -> Outcome:
        answered: list[JsonValue] = []
        if call.input is not None and answers_open_call(call.input):
            answered = read_answered(call.input)
        open_call = OpenCall(call.report, answered)
        open_call.send(partial(_send, session, call, tool))
        return await self._wait(open_call, call, deadline)

    async def _resume(self, call: Invocation, deadline: float) -> Outcome | None:
        """Continue the open call with the answers. If this process has no such call, the outcome is
        unknown. None: the tool is idempotent, so the call can be sent again."""
        assert call.input is not None
        open_call = self._held.take(_held_key(call))
        if open_call is None:
            return None if call.tool.idempotent else CONNECTION_NOT_HELD
        open_call.report = call.report
        open_call.answer(call.input)
        return await self._wait(open_call, call, deadline)

    async def _wait(self, open_call: OpenCall, call: Invocation, deadline: float) -> Outcome:
        """Wait for the outcome of an open call until the deadline. If the server asks for input,
        keep the call open, and return the questions."""
        keep = False
        try:
            async with asyncio.timeout(deadline - monotonic()):
                outcome = await open_call.wait()
            keep = isinstance(outcome, NeedsInput) and not open_call.task.done()
            if keep and self._held.full:
                keep, outcome = False, TOO_MANY_HELD
            if keep:
                self._held.put(_held_key(call), open_call)
            return outcome
        finally:
            if not keep:
                await open_call.close()

    async def _session(self, project_id: ProjectId, name: str) -> McpSession | Failed:
        try:
            server = await self._server(project_id, name)
        except McpUnreachableError as error:
            return Failed(FailureKind.NOT_SENT, error.detail, permanent=True)
        if server is None:
            detail = f"The MCP server '{name}' no longer exists."
            return Failed(FailureKind.NOT_SENT, detail, permanent=True)
        if (refusal := self.refusal(server.spec)) is not None:
            detail = f"The command of MCP server '{name}' {refusal}."
            return Failed(FailureKind.NOT_SENT, detail, permanent=True)
        former = self._sessions.get((project_id, name))
        if former is not None and former.usable:
            if former.server == server:
                return former
            former.retire()
        if len(self._open) >= MAX_SESSIONS and not self._retire_idle_session():
            return Failed(
                FailureKind.NOT_SENT, f"All {MAX_SESSIONS} sessions with MCP servers are in use."
            )
        session = self._sessions[project_id, name] = self._new_session(
            server, opened=lambda opened: self._start_task(opened, self._store_list(opened))
        )
        return session

    def _new_session(
        self, server: ConnectableServer, *, opened: Callable[[McpSession], None]
    ) -> McpSession:
        session = McpSession(
            server,
            self._egress,
            idle_seconds=self._idle_seconds,
            on_open=opened,
            on_change=self._relist,
        )
        self._open.add(session)

        def gone(_: asyncio.Task[None]) -> None:
            self._open.discard(session)
            self._again.discard(session)
            key = (server.project_id, server.spec.name)
            if self._sessions.get(key) is session:
                del self._sessions[key]

        session.task.add_done_callback(gone)
        return session

    def _retire_idle_session(self) -> bool:
        idle = [session for session in self._sessions.values() if session.usable and session.idle]
        if idle:
            min(idle, key=lambda session: session.used_at).retire()
        return bool(idle)

    async def _server(self, project_id: ProjectId, name: str) -> ConnectableServer | None:
        kept = self._servers.get((project_id, name))
        if kept is not None:
            return kept
        changes = self._changes
        server = await self._load(project_id, name)
        if server is not None and changes == self._changes:
            self._servers[project_id, name] = server
        return server

    async def _check(self, session: McpSession) -> None:
        try:
            server = await self._server(session.server.project_id, session.server.spec.name)
        except Exception as error:  # the next call reports it
            log.info(
                "mcp_session_not_checked", server=session.server.spec.name, error=str(error)[:300]
            )
            server = None
        if server != session.server:
            session.retire()

    def _relist(self, session: McpSession) -> None:
        """Refresh the list of a session. Only one refresh runs at a time; a change during it causes
        another one."""
        if session in self._tasks or not session.is_open:
            self._again.add(session)
        elif session.usable and session in self._sessions.values():
            self._start_task(session, self._refresh_and_store(session))

    def _start_task(self, session: McpSession, work: Any) -> None:
        task = self._tasks[session] = asyncio.create_task(work)

        def done(_: asyncio.Task[None]) -> None:
            del self._tasks[session]
            if session in self._again:
                self._again.discard(session)
                self._relist(session)

        task.add_done_callback(done)

    async def _refresh_and_store(self, session: McpSession) -> None:
        await asyncio.sleep(session.listed_at + RELIST_PAUSE_SECONDS - monotonic())
        self._again.discard(session)  # this list includes all earlier changes
        try:
            await session.refresh_list()
        except Exception as error:
            expected = isinstance(error, TimeoutError | ValueError | McpUnreachableError)
            if sdk.rpc_error(error) is None and not expected:
                raise
            log.warning("mcp_list_failed", server=session.server.spec.name, detail=str(error)[:300])
            return
        await self._store_list(session)

    async def _store_list(self, session: McpSession) -> None:
        name = session.server.spec.name
        try:
            changed = await self._store_tools(session.server, session.listed)
        except AppError as error:
            log.warning("mcp_list_not_taken", server=name, detail=error.detail)
        else:
            if changed:
                log.info("mcp_tools_changed", server=name, changed=changed)


def _held_key(call: Invocation) -> HeldCall:
    return HeldCall(call.project_id, call.run_id, call.call_uuid)


async def _send(session: McpSession, call: Invocation, tool: str, open_call: OpenCall) -> Outcome:
    """Send the call, and return its outcome."""
    given = read_input(call.input)
    if isinstance(given, Failed):
        return given
    try:
        async with session.use_client() as client:
            if not await call.may_send():
                return LEASE_LOST
            async with session.asking.include(open_call):
                result = await client.session.call_tool(
                    tool,
                    call.arguments,
                    progress_callback=open_call.report_progress,
                    **given,
                    allow_input_required=True,
                )
    except McpUnreachableError as error:
        return Failed(FailureKind.NOT_SENT, error.detail, permanent=error.permanent)
    except TimeoutError:
        raise
    except Exception as error:
        if (said := sdk.rpc_error(error)) is not None:
            return _failed(session, *said)
        if isinstance(error, RuntimeError | ValueError):  # the SDK refuses the answer
            return Failed(FailureKind.INVALID_RESPONSE, f"{type(error).__name__}: {error}"[:500])
        raise
    return call_outcome(result)


def _failed(session: McpSession, code: int, message: str, data: Any) -> Outcome:
    if code == URL_REQUIRED and (asked := required_urls(data)) is not None:
        return asked
    outcome = error_outcome(code, message, data)
    if outcome.reason in (FailureKind.NOT_SENT, FailureKind.UNKNOWN):
        session.retire()
    if outcome.reason is FailureKind.UNKNOWN and session.loss:
        return replace(outcome, detail=session.loss)
    return outcome
