"""tools/call of /mcp: start a run, and return its result."""

import asyncio
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast
from uuid import UUID

from pydantic import JsonValue

from runward.api.http.idempotency import IdempotentRequest
from runward.api.mcp import results
from runward.api.mcp.elicitation import ClientQuestions, apply_answer
from runward.api.mcp.listing import McpTarget
from runward.api.mcp.results import McpRequestError
from runward.api.mcp.tasks import McpTasks
from runward.api.mcp.wait import ProgressReport, wait_for_result, wait_for_run
from runward.api.runs.acceptance import AcceptResult
from runward.api.runs.cancel import cancel
from runward.api.runs.request_models import StartRun
from runward.api.runs.start import accept
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import Prefix, RunId, parse_id
from runward.domain.json import JsonObject, clean_text, compact, compute_digest
from runward.domain.registry.scopes import Principal
from runward.domain.run import texts
from runward.domain.schema.validator import Validator
from runward.services import RunQueue, Services, Storage
from runward.store.access.audit import AuditActor
from runward.store.postgres.db import mint
from runward.store.runs import views

KEY: Final = "runward/idempotency_key"
CONTEXT: Final = "runward/context"
"""The key of the run's context in `_meta` of a call."""
REQUEST: Final = "mcp_request"
"""The key in the run's metadata whose value identifies the MCP request that started the run. A
later cancellation finds the run by this value."""
CLIENT: Final = "mcp_client"
MAX_CLIENT: Final = 128
"""Maximum number of characters of a client's name and version."""
_ELICITS: Final = "e"
_RESUMES: Final = "r"
_FIRST_WITH_EMPTY_EVENTS: Final = "2025-11-25"
"""The first protocol version whose clients accept events without data."""
_KEY_PATTERN: Final = re.compile(r"[\x21-\x7e]{1,255}")
TASK_AFTER_SECONDS: Final = 1.0
"""Seconds that a call waits before it becomes a task, if a client of the protocol of 2026 supports
tasks."""
_METHOD_NOT_FOUND: Final = -32_601
_SKEW_MS: Final = 3_600_000
"""Maximum difference between the clocks of two processes, in milliseconds."""


@dataclass(frozen=True, slots=True)
class McpRunSession:
    """The Mcp-Session-Id of a client of the protocol of 2025. No process stores it: it contains the
    start of the session and the client's name, and it identifies the client's requests."""

    id: UUID
    client: str | None
    elicits: bool = False
    """Whether the client can ask its user."""
    resumes: bool = False
    """Whether the client can continue a stream from an event without data (MCP 2025-11-25)."""

    @classmethod
    def begin(cls, params: JsonObject) -> "McpRunSession":
        """Return a new session. `params`: those of `initialize`."""
        return cls(
            mint(),
            format_client(params.get("clientInfo")),
            can_elicit(params.get("capabilities")),
            str(params.get("protocolVersion")) >= _FIRST_WITH_EMPTY_EVENTS,
        )

    @classmethod
    def parse(cls, text: str | None) -> "McpRunSession | None":
        """Return the session of an ID. None: there is no ID, or Runward did not create it."""
        hexadecimal, _, rest = (text or "").partition(".")
        client, _, flags = rest.partition(".")
        try:
            shown = urlsafe_b64decode(client.encode()).decode()
            name = clean_text(shown)[:MAX_CLIENT] or None
            return cls(UUID(hex=hexadecimal), name, _ELICITS in flags, _RESUMES in flags)
        except ValueError:
            return None

    def __str__(self) -> str:
        client = urlsafe_b64encode((self.client or "").encode()).decode()
        flags = _ELICITS * self.elicits + _RESUMES * self.resumes
        return f"{self.id.hex}.{client}{f'.{flags}' if flags else ''}"

    def name_request(self, request_id: JsonValue) -> str:
        """Return a name for one request of the session."""
        return compute_digest([self.id.hex, request_id])[-32:]


def can_elicit(capabilities: JsonValue) -> bool:
    """Return whether a client with these capabilities can show a form to its user. A client that
    names no modes supports forms (MCP 2025-11-25, elicitation, capabilities)."""
    given = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(given, dict) and (not given or "form" in given)


def format_client(info: JsonValue) -> str | None:
    """Return `name/version` of an `Implementation` of the protocol."""
    match info:
        case {"name": str(name), **rest}:
            version = rest.get("version")
            text = f"{name}/{version}" if isinstance(version, str) and version else name
            return clean_text(text)[:MAX_CLIENT] or None
        case _:
            return None


@dataclass(slots=True)
class McpToolCall:
    """One call. `request`: the name under which its cancellation refers to it. `disconnected`: the
    client has closed the response stream, which in the protocol of 2026 cancels the call."""

    services: Services
    principal: Principal
    target: McpTarget | None
    params: JsonObject
    client: str | None
    request: str | None
    tasks: McpTasks
    questions: ClientQuestions | None = None
    """None: the client cannot ask its user."""
    disconnected: bool = False
    on_accept: Callable[[RunId], Awaitable[None]] | None = None
    """Called after Runward has accepted the call."""
    run_id: RunId | None = field(default=None, init=False)
    """The run that the call has started or resumed."""
    _accepting: asyncio.Task[AcceptResult] | None = field(default=None, init=False)

    async def result(self, report: ProgressReport) -> JsonObject:
        """Return a CallToolResult. Raises McpRequestError for mistakes of the client, and
        UnavailableError."""
        if self.target is None:
            raise McpRequestError(self._describe_unknown())
        given = self.params.get("arguments")
        arguments: JsonObject = given if isinstance(given, dict) else {}
        try:
            if (state := self.params.get("requestState")) is not None:
                return await self._resume(str(state), report)
            return await self._result(self.target, arguments, report)
        except asyncio.CancelledError:
            self.disconnected = True
            raise
        except e.UnavailableError:
            raise
        except e.AppError as error:
            return results.build_error(_format_error(error))

    @property
    def is_task(self) -> bool:
        """Return whether a client of the protocol of 2025 requests a task."""
        return not self.tasks.modern and self.params.get("task") is not None

    async def create_task(self) -> JsonObject:
        """Start the run, and return a CreateTaskResult of the protocol of 2025. Raises
        McpRequestError if no run can be started, and UnavailableError."""
        target, given = self.target, self.params.get("arguments")
        if target is None:
            raise McpRequestError(self._describe_unknown())
        if not target.is_executable:
            raise McpRequestError("This tool cannot run as a task.", _METHOD_NOT_FOUND)
        arguments: JsonObject = given if isinstance(given, dict) else {}
        if (wrong := await self._explain_invalid(target, arguments)) is not None:
            raise McpRequestError(wrong)
        try:
            run_id = await self._start(target, arguments)
        except e.UnavailableError:
            raise
        except e.AppError as error:
            raise McpRequestError(_format_error(error)) from None
        return {"task": await self.tasks.get(run_id)}

    async def _start(self, target: McpTarget, arguments: JsonObject) -> RunId:
        accepting = self._accept(
            self._build_request(target, arguments), self._idempotent_request(arguments)
        )
        self._accepting = asyncio.create_task(accepting)
        self.run_id = run_id = (await asyncio.shield(self._accepting)).run.id
        if self.on_accept is not None:
            await self.on_accept(run_id)
        return run_id

    async def _result(
        self, target: McpTarget, arguments: JsonObject, report: ProgressReport
    ) -> JsonObject:
        if (wrong := await self._explain_invalid(target, arguments)) is not None:
            return results.build_error(wrong)
        services, limits = self.services, self.services.limits
        seconds = limits.mcp_seconds
        declared = False
        if not target.is_executable:
            run_id = parse_id(Prefix.RUN, str(arguments["run_id"]))
            if run_id is None:
                raise not_found.RunNotFoundError
            seconds = float(cast(float, arguments.get("wait_seconds", seconds)))
        else:
            declared = "outputSchema" in target.definition
            run_id = await self._start(target, arguments)
            if self.tasks.modern and self.tasks.declared:
                return await self._result_or_task(run_id, report)
        return await wait_for_result(
            services.storage,
            services.live,
            self.principal.project_id,
            RunId(run_id),
            seconds=seconds,
            report=report,
            declared=declared,
            questions=self.questions,
        )

    async def _resume(self, state: str, report: ProgressReport) -> JsonObject:
        """Apply the answers to the questions of an earlier result, and wait for its run again.
        `state`: the ID of the run."""
        assert self.target is not None
        run_id = parse_id(Prefix.RUN, state)
        if run_id is None:
            raise McpRequestError("requestState is not from this server.")
        self.run_id = RunId(run_id)
        responses = self.params.get("inputResponses")
        given = responses if isinstance(responses, dict) else {}
        services, limits, principal = self.services, self.services.limits, self.principal
        for question, answer in given.items():
            await apply_answer(services.storage, services.queue, principal, question, answer)
        self.questions = ClientQuestions(
            services.storage, services.registry, principal, answered=given
        )
        return await wait_for_result(
            services.storage,
            services.live,
            self.principal.project_id,
            self.run_id,
            seconds=limits.mcp_seconds,
            report=report,
            declared="outputSchema" in self.target.definition,
            questions=self.questions,
        )

    async def _result_or_task(self, run_id: RunId, report: ProgressReport) -> JsonObject:
        """Return the result if the run ends soon, and otherwise a CreateTaskResult of the protocol
        of 2026."""
        services, project_id = self.services, self.principal.project_id
        await wait_for_run(
            services.storage,
            services.live,
            project_id,
            run_id,
            seconds=TASK_AFTER_SECONDS,
            report=report,
        )
        return await self.tasks.find_result(run_id)

    async def withdraw(self) -> None:
        """Cancel the run, if it was started."""
        with suppress(e.AppError):
            run_id = self.run_id
            if self._accepting is not None:
                run_id = (await self._accepting).run.id
            if run_id is None:
                return
            services = self.services
            await cancel(
                services.storage,
                services.queue,
                self.principal.project_id,
                run_id,
                actor=AuditActor.from_principal(self.principal),
            )

    async def _explain_invalid(self, target: McpTarget, arguments: JsonObject) -> str | None:
        """Return the error that the model reads if the arguments do not match the schema. No run is
        started."""
        if target.tool is None:
            validator = Validator(target.schema, at="arguments")
        else:
            pair = (target.tool.spec.name, target.tool.version)
            registry = self.services.registry
            tools = await registry.fetch_tools(self.principal.project_id, [pair])
            validator = tools.get(*pair).tool.arguments
        problems = validator.problems(validator.without_nulls(arguments))
        name = str(target.definition["name"])
        told = [(problem.path, problem.message) for problem in problems]
        return texts.invalid_arguments(name, told) if told else None

    def _build_request(self, target: McpTarget, arguments: JsonObject) -> StartRun:
        about: dict[str, Any] = {"context": self._context(), "metadata": self._metadata()}
        if target.agent is not None:
            return StartRun.model_validate({"agent": target.agent.name, **arguments, **about})
        assert target.tool is not None
        # Not validated, because the REST API does not accept this kind in requests.
        return StartRun.model_construct(
            kind="call", tools=(target.tool.spec.name,), input=compact(arguments), **about
        )

    async def _accept(self, body: StartRun, once: IdempotentRequest) -> AcceptResult:
        parts = self.services
        return await accept(parts.storage, parts.registry, parts.queue, self.principal, body, once)

    def _idempotent_request(self, arguments: JsonObject) -> IdempotentRequest:
        key = self._meta.get(KEY)
        if key is not None and not (isinstance(key, str) and _KEY_PATTERN.fullmatch(key)):
            raise McpRequestError(f"_meta: {KEY} must be 1 to 255 visible ASCII characters.")
        said: JsonObject = {"name": self.params.get("name"), "arguments": arguments}
        body = compute_digest({**said, "context": self._context()})
        return IdempotentRequest(self.principal.project_id, "POST /mcp", body, key)

    def _context(self) -> JsonObject | None:
        context = self._meta.get(CONTEXT)
        if context is not None and not isinstance(context, dict):
            raise McpRequestError(f"_meta: {CONTEXT} must be an object.")
        return context

    def _describe_unknown(self) -> str:
        return f"Unknown tool: {clean_text(str(self.params.get('name')))[:128]}"

    def _metadata(self) -> JsonObject:
        about = {CLIENT: self.client, REQUEST: self.request}
        return {name: value for name, value in about.items() if value is not None}

    @property
    def _meta(self) -> JsonObject:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


def _format_error(error: e.AppError) -> str:
    return "\n".join([error.detail, *(f"- {path}: {text}" for path, text in error.errors)])


async def cancel_request(
    storage: Storage,
    queue: RunQueue,
    principal: Principal,
    session: McpRunSession,
    request_id: JsonValue,
) -> None:
    """Cancel the open run that this key's client started with that request, if there is one."""
    since = UUID(int=max(0, session.id.int - (_SKEW_MS << 80)))
    async with storage.connect() as tx:
        run_id = await views.find_open_run(
            tx,
            principal.project_id,
            principal.key_id,
            {REQUEST: session.name_request(request_id)},
            since,
        )
    if run_id is not None:
        actor = AuditActor.from_principal(principal)
        await cancel(storage, queue, principal.project_id, run_id, actor=actor)
