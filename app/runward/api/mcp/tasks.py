"""Tasks of /mcp. Each run of the project, except child runs, is a task, and the ID of the run is
the ID of the task. The same runs serve both generations: the tasks of MCP 2025-11-25, and the
extension io.modelcontextprotocol/tasks (SEP-2663) of MCP 2026-07-28."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

from pydantic import JsonValue

from runward.api.mcp import results
from runward.api.mcp.elicitation import ClientQuestions, Question, apply_answer, relate_to_task
from runward.api.mcp.listing import AGENT, find_target
from runward.api.mcp.resources import list_newest
from runward.api.mcp.results import McpRequestError
from runward.api.mcp.wait import ProgressReport, load_result, wait_for_run
from runward.api.runs.cancel import cancel
from runward.domain import errors as e
from runward.domain.ids import Prefix, RunId, format_id, parse_id
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.domain.run.status import TERMINAL, RunStatus
from runward.services import Services
from runward.store.access.audit import AuditActor
from runward.store.live.events import format_utc, list_times
from runward.store.postgres.db import Tx
from runward.store.runs import views
from runward.store.runs.views import RunView, WaitingCall

EXTENSION: Final = "io.modelcontextprotocol/tasks"
RESULT: Final = "tasks/result"
UPDATE: Final = "tasks/update"
METHODS_2025: Final = ("tasks/get", "tasks/list", "tasks/cancel", RESULT)
METHODS_2026: Final = ("tasks/get", UPDATE, "tasks/cancel")
POLL_MS: Final = 1000
"""The interval in milliseconds at which clients are asked to poll."""
_HEADER_MISMATCH: Final = -32_020
"""The code if a header contradicts the body (MCP 2026-07-28, transports)."""
_MISSING_CAPABILITY: Final = -32_021
"""The code if the client does not declare the extension (MCP 2026-07-28, tasks)."""


@dataclass(frozen=True, slots=True)
class McpTask:
    """A run as a task. `questions`: the questions that the client can answer."""

    run: RunView
    changed_at: datetime
    waiting: list[WaitingCall]
    questions: list[Question]

    def describe(self, *, modern: bool) -> JsonObject:
        """Return the `Task` of the protocol of 2025 or 2026."""
        message = self._explain()
        times = {"ttlMs": None, "pollIntervalMs": POLL_MS}
        return {
            "taskId": format_id(Prefix.RUN, self.run.id),
            "status": self._find_status(modern=modern),
            **({"statusMessage": message} if message else {}),
            "createdAt": format_utc(self.run.created_at),
            "lastUpdatedAt": format_utc(self.changed_at),
            **(times if modern else {"ttl": None, "pollInterval": POLL_MS}),
        }

    def _find_status(self, *, modern: bool) -> str:
        """In the protocol of 2026, only protocol errors are failures (tasks, task status)."""
        match self.run.status:
            case RunStatus.CANCELLED:
                return "cancelled"
            case status if status in TERMINAL:
                return "completed" if modern or status is RunStatus.COMPLETED else "failed"
            case _:
                return "input_required" if self.questions else "working"

    def _explain(self) -> str | None:
        if self.run.status is RunStatus.COMPLETED:
            return None
        if self.run.status in TERMINAL:
            return results.describe_end(self.run)
        found = [f"Waiting for {results.describe_wait(one)}." for one in self.waiting]
        return "\n".join(found) or None


@dataclass(slots=True)
class McpTasks:
    """The tasks as one client sees them. `questions`: None if the client cannot ask its user.
    `declared`: whether a client of 2026 declares the extension. `named`: the header Mcp-Name of its
    request."""

    services: Services
    principal: Principal
    modern: bool
    declared: bool
    named: str | None
    questions: ClientQuestions | None = None
    send: Callable[[JsonObject], Awaitable[None]] | None = None
    """Sends a message over the response stream of `tasks/result`."""

    async def answer(self, method: str, params: JsonObject, report: ProgressReport) -> JsonObject:
        """Answer a method of the protocol's generation. Raises McpRequestError."""
        self.check_extension()
        if self.modern and self.named != params.get("taskId"):
            raise McpRequestError(
                "The header Mcp-Name must contain the taskId of the request.", _HEADER_MISMATCH
            )
        match method:
            case "tasks/get":
                return await self.get(_read_id(params))
            case "tasks/list":
                return await self._list(params)
            case "tasks/cancel":
                return await self._cancel(_read_id(params))
            case _ if method == UPDATE:
                return await self._update(_read_id(params), params.get("inputResponses"))
            case _:
                return await self._wait(_read_id(params), report)

    def check_extension(self) -> None:
        """Raise McpRequestError if a client of 2026 does not declare the extension."""
        if self.modern and not self.declared:
            needed: JsonObject = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise McpRequestError(
                f"The client must declare the extension {EXTENSION}.", _MISSING_CAPABILITY, needed
            )

    async def get(self, run_id: RunId) -> JsonObject:
        """Return the task, in the protocol of 2026 with its questions or its result. Raises
        McpRequestError if it does not exist."""
        task = await self._load(run_id)
        said = task.describe(modern=self.modern)
        if not self.modern:
            return said
        if said["status"] == "input_required":
            return {**said, "inputRequests": results.build_input_requests(task.questions)}
        if said["status"] == "completed":
            result = await self._load_result(task.run)
            return {**said, "result": {**result, "resultType": "complete"}}
        return said

    async def find_result(self, run_id: RunId) -> JsonObject:
        """Return the result of a run that has ended, or a CreateTaskResult of the protocol of
        2026."""
        task = await self._load(run_id)
        if task.run.status in TERMINAL:
            return await self._load_result(task.run)
        return {"resultType": "task", **task.describe(modern=True)}

    async def _list(self, params: JsonObject) -> JsonObject:
        storage, project_id = self.services.storage, self.principal.project_id
        async with storage.connect() as tx:
            runs, more = await list_newest(tx, project_id, params)
            found = await self._build(tx, [run for run in runs if run.erased_at is None])
        tasks: list[JsonValue] = [one.describe(modern=self.modern) for one in found]
        return {"tasks": tasks, **more}

    async def _wait(self, run_id: RunId, report: ProgressReport) -> JsonObject:
        """Return the result of the run after its end. Meanwhile the client can receive questions,
        and notifications when the status changes. Raises McpRequestError if the process stops
        before."""
        task = await self._load(run_id)
        services, project_id = self.services, self.principal.project_id
        if self.questions is not None:
            self.questions.task_id = format_id(Prefix.RUN, run_id)
        last = task.describe(modern=False)["status"]

        async def report_status(count: float, message: str) -> None:
            nonlocal last
            await report(count, message)
            now = await self.get(run_id)
            if self.send is not None and now["status"] != last:
                await self.send({"method": "notifications/tasks/status", "params": now})
                last = now["status"]

        if task.run.status not in TERMINAL:
            await wait_for_run(
                services.storage,
                services.live,
                project_id,
                run_id,
                report=report_status,
                questions=self.questions,
                leaves_stuck=False,
            )
            task = await self._load(run_id)
        if task.run.status not in TERMINAL:
            raise McpRequestError(
                "The server is stopping. Request the result again.", results.INTERNAL_ERROR
            )
        result = await self._load_result(task.run)
        related = relate_to_task(format_id(Prefix.RUN, run_id))["_meta"]
        meta = {**cast(JsonObject, result["_meta"]), **cast(JsonObject, related)}
        return {**result, "_meta": meta}

    async def _cancel(self, run_id: RunId) -> JsonObject:
        """Cancel the run. In the protocol of 2025, return the task. Raises McpRequestError if the
        task does not exist, or in the protocol of 2025 if it has ended."""
        services, project_id = self.services, self.principal.project_id
        task = await self._load(run_id)
        ended = task.run.status in TERMINAL
        try:
            if not ended:
                actor = AuditActor.from_principal(self.principal)
                await cancel(services.storage, services.queue, project_id, run_id, actor=actor)
        except e.RunEndedError:
            ended = True
        if self.modern:
            return {}
        if ended:
            raise McpRequestError("The task has already ended.")
        return await self.get(run_id)

    async def _update(self, run_id: RunId, responses: JsonValue) -> JsonObject:
        """Apply the answers to open questions of the task. Ignores all others."""
        if not isinstance(responses, dict):
            raise McpRequestError("inputResponses must be an object.")
        task, services = await self._load(run_id), self.services
        for question in task.questions:
            if question.id in responses:
                answer = responses[question.id]
                await apply_answer(
                    services.storage, services.queue, self.principal, question.id, answer
                )
        return {}

    async def _load(self, run_id: RunId) -> McpTask:
        storage = self.services.storage
        async with storage.connect() as tx:
            run = await views.get_run(tx, self.principal.project_id, run_id)
            if run is None or run.erased_at is not None or run.parent_run_id is not None:
                raise McpRequestError(f"Task not found: {format_id(Prefix.RUN, run_id)}")
            [task] = await self._build(tx, [run])
        return task

    async def _build(self, tx: Tx, runs: list[RunView]) -> list[McpTask]:
        project_id = self.principal.project_id
        times = await list_times(tx, project_id, [(run.id, run.last_seq) for run in runs])
        opened = [run.id for run in runs if run.status not in TERMINAL]
        waiting = await views.list_waiting_calls(tx, project_id, opened)
        found: list[McpTask] = []
        for run in runs:
            calls = waiting.get(run.id, [])
            asked = await self.questions.list_open(calls) if self.questions else []
            found.append(McpTask(run, times.get(run.id, run.created_at), calls, asked))
        return found

    async def _load_result(self, run: RunView) -> JsonObject:
        storage, project_id = self.services.storage, self.principal.project_id
        tools = cast(list[JsonValue], run.config.get("tools") or [""])
        name = str(tools[0]) if run.config.get("kind") == "call" else f"{AGENT}{run.agent}"
        target = await find_target(storage, project_id, name, 0, elicits=True)
        declared = target is not None and "outputSchema" in target.definition
        async with storage.connect() as tx:
            return await load_result(tx, project_id, run.id, declared=declared)


def _read_id(params: JsonObject) -> RunId:
    shown = params.get("taskId")
    run_id = parse_id(Prefix.RUN, shown) if isinstance(shown, str) else None
    if run_id is None:
        raise McpRequestError(f"Task not found: {str(shown)[:128]}")
    return RunId(run_id)
