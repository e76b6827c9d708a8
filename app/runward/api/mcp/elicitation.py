"""Elicitation over /mcp: the client asks its user for the result of a `client` tool, for the input
that a tool requests, or for a decision about an approval.

A question is named by the call or approval that it belongs to, so that any process can apply the
answer.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import ApprovalId, CallId, Prefix, RunId, format_id, parse_id
from runward.domain.json import JsonObject, as_text, compact
from runward.domain.registry.scopes import Principal, Scope
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.decisions import ApproveDecision, Decision, RejectDecision
from runward.domain.run.resolve import Answer, CallbackCompleted, CallbackFailed
from runward.domain.run.settle import count_input_requests
from runward.domain.run.state import CLIENT_PHASES, Call, CallPhase
from runward.domain.run.tools import UNREGISTERED
from runward.services import Registry, RunQueue, Storage
from runward.store.registry import policies
from runward.store.runs import client_results, decisions, queries
from runward.store.runs.approvals import Approval
from runward.store.runs.locked_run import find_inline_tool
from runward.store.runs.views import WaitingCall

PREFIX: Final = "runward:"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
DECLINED: Final = "The user declined to answer."
MAX_MESSAGE: Final = 4096
_VALUE: Final = "value"
_PRIMITIVES: Final = frozenset({"string", "number", "integer", "boolean"})
_ANY_RESULT: Final[JsonObject] = {
    "type": "object",
    "properties": {_VALUE: {"type": "string", "title": "Answer"}},
    "required": [_VALUE],
}
_DECISION: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["approve", "reject"]},
        "message": {
            "type": "string",
            "title": "Message",
            "description": "Reason for a rejection. The model reads it.",
            "maxLength": 4096,
        },
    },
    "required": ["decision"],
}


@dataclass(frozen=True, slots=True)
class Question:
    """One elicitation. `id` names the approval, or the call and the number of its request for
    input, because a tool can request input several times."""

    id: str
    message: str
    schema: JsonObject
    task_id: str | None = None
    """ID of the task of the protocol of 2025 whose result the client waits for."""

    @property
    def params(self) -> JsonObject:
        related: JsonObject = {} if self.task_id is None else relate_to_task(self.task_id)
        return {"message": self.message[:MAX_MESSAGE], "requestedSchema": self.schema, **related}


def relate_to_task(task_id: str) -> JsonObject:
    """Return the `_meta` of a message that belongs to a task (MCP 2025-11-25, tasks)."""
    return {"_meta": {RELATED_TASK: {"taskId": task_id}}}


SendQuestion: TypeAlias = Callable[[Question], Awaitable[None]]


class ClientQuestions:
    """The questions of one tool call. `send`: sends a question over the open response, as in the
    protocol of 2025. None: the result of the call contains the questions, as in the protocol of
    2026. `answered`: the questions that the client has already answered."""

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        principal: Principal,
        *,
        send: SendQuestion | None = None,
        answered: Collection[str] = (),
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._principal = principal
        self._send = send
        self._asked = set(answered)
        self.task_id: str | None = None
        """As in `Question`."""

    async def ask(self, waiting: Sequence[WaitingCall]) -> list[Question]:
        """Ask what has not been asked yet. Return the questions that the result must contain."""
        questions = await self.list_open(waiting)
        self._asked.update(one.id for one in questions)
        if self._send is None:
            return questions
        for one in questions:
            await self._send(one)
        return []

    async def list_open(self, waiting: Sequence[WaitingCall]) -> list[Question]:
        """Return the questions that have not been asked yet."""
        pending = [one for one in waiting if (id_ := self._name(one)) and id_ not in self._asked]
        return [await self._build(one) for one in pending]

    def covers(self, waiting: WaitingCall) -> bool:
        """Return whether the client has the question and can still answer it."""
        return self._send is not None and self._name(waiting) in self._asked

    def _name(self, waiting: WaitingCall) -> str | None:
        subject = waiting.subject
        if isinstance(subject, Approval):
            if not self._principal.may((Scope.APPROVALS_DECIDE,)):
                return None
            return f"{PREFIX}approval:{format_id(Prefix.APPROVAL, subject.id)}"
        if subject.call.phase not in CLIENT_PHASES:
            return None
        run, call = format_id(Prefix.RUN, waiting.run_id), subject.call
        return f"{PREFIX}call:{run}:{count_input_requests(call)}:{call.id}"

    async def _build(self, waiting: WaitingCall) -> Question:
        name, subject = self._name(waiting), waiting.subject
        assert name is not None
        if isinstance(subject, Approval):
            arguments = compact(subject.arguments)
            text = f"Do you approve the call of the tool '{subject.tool}'?\n\n{arguments}"
            return Question(name, text, _DECISION, self.task_id)
        call = subject.call
        if call.phase is CallPhase.AWAITING_INPUT:
            asked = call.exchange.requests if call.exchange else None
            return Question(name, as_text(asked), _ANY_RESULT, self.task_id)
        spec = await self._find_spec(waiting.run_id, call)
        text = f"{spec.description}\n\n{compact(call.arguments)}"
        return Question(name, text, _make_form(spec.output_schema), self.task_id)

    async def _find_spec(self, run_id: RunId, call: Call) -> ToolSpec:
        """Return the tool of the call. Raises RunNotFoundError and RunErasedError."""
        project_id = self._principal.project_id
        assert call.version is not None
        if call.version != UNREGISTERED:
            pair = (call.tool, call.version)
            tools = await self._registry.fetch_tools(project_id, [pair])
            return tools.get(*pair).tool.spec
        async with self._storage.connect() as tx:
            found = await queries.load(tx, project_id, run_id)
        if found is None:
            raise not_found.RunNotFoundError
        return find_inline_tool(found[1], call).spec


async def apply_answer(
    storage: Storage, queue: RunQueue, principal: Principal, question: str, result: JsonValue
) -> None:
    """Apply the client's answer (an `ElicitResult`, or None for an error). An answer that is not
    valid or comes too late changes nothing. Raises InsufficientScopeError."""
    given: JsonObject = result if isinstance(result, dict) else {}
    match question.removeprefix(PREFIX).split(":", 3):
        case ["approval", shown]:
            approval_id = parse_id(Prefix.APPROVAL, shown)
            decision = _read_decision(given)
            if approval_id is not None and decision is not None:
                await _decide(storage, principal, ApprovalId(approval_id), decision)
        case ["call", shown, number, call_id] if number.isdecimal():
            run_id = parse_id(Prefix.RUN, shown)
            if run_id is not None:
                call = (RunId(run_id), CallId(call_id), int(number[:9]))
                await _submit(storage, principal, *call, given)
        case _:
            return
    queue.wake_worker()


async def _decide(
    storage: Storage, principal: Principal, approval_id: ApprovalId, decision: Decision
) -> None:
    if not principal.may((Scope.APPROVALS_DECIDE,)):
        raise e.InsufficientScopeError((Scope.APPROVALS_DECIDE,))
    with suppress(not_found.NotFoundError, e.ConflictError):
        async with storage.begin() as tx:
            await decisions.decide(tx, storage.vault, principal, approval_id, decision)


async def _submit(
    storage: Storage,
    principal: Principal,
    run_id: RunId,
    call_id: CallId,
    number: int,
    given: JsonObject,
) -> None:
    if not principal.may((Scope.RUNS_WRITE,)):
        raise e.InsufficientScopeError((Scope.RUNS_WRITE,))
    with suppress(not_found.NotFoundError, e.ConflictError):
        async with storage.begin() as tx:
            policy = await policies.get_policy(tx, principal.project_id)
            await client_results.submit_result(
                tx,
                storage.vault,
                principal.project_id,
                run_id,
                call_id,
                _read_answer(given),
                project_has_checks=policy.checks_results,
                number=number,
            )


def _read_answer(given: JsonObject) -> Answer:
    content = given.get("content")
    if given.get("action") != "accept" or not isinstance(content, dict):
        return CallbackFailed(status="failed", message=DECLINED)
    output = content[_VALUE] if content.keys() == {_VALUE} else content
    return CallbackCompleted(status="completed", output=output)


def _read_decision(given: JsonObject) -> Decision | None:
    """Return the decision. None: the user made none."""
    content = given.get("content")
    if given.get("action") != "accept" or not isinstance(content, dict):
        return None
    message = content.get("message")
    match content.get("decision"):
        case "approve":
            return ApproveDecision(decision="approve")
        case "reject":
            text = message[:MAX_MESSAGE] if isinstance(message, str) and message else None
            return RejectDecision(decision="reject", message=text)
        case _:
            return None


def _make_form(schema: JsonObject | None) -> JsonObject:
    """Return a schema that a client can show as a form: an object of primitive values and of lists
    of choices (MCP 2025-11-25, elicitation). If `schema` is another one, return a form for a
    text."""
    properties = (schema or {}).get("properties")
    if schema is None or schema.get("type") != "object" or not isinstance(properties, dict):
        return _ANY_RESULT
    if not all(isinstance(one, dict) and _is_field(one) for one in properties.values()):
        return _ANY_RESULT
    return {name: schema[name] for name in ("type", "properties", "required") if name in schema}


def _is_field(schema: dict[str, Any]) -> bool:
    if schema.get("type") in _PRIMITIVES:
        return "$ref" not in schema
    items = cast(JsonValue, schema.get("items"))
    if schema.get("type") != "array" or not isinstance(items, dict):
        return False
    return "enum" in items or "anyOf" in items
