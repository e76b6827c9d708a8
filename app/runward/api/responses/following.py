"""A response that goes on from another one: the conversation is its history, or the run that waits
is given what it waits for, and goes on itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Response
from pydantic_core import from_json

from runward.api.http.idempotency import IdempotentRequest, answer_once
from runward.api.http.params import MAX_SEQUENCE
from runward.api.responses import inputs, reading
from runward.api.responses.conversing import (
    message_of,
    output_text,
    refused,
    without_call,
    without_output,
)
from runward.api.responses.ids import ResponseId
from runward.api.responses.log import Log
from runward.api.responses.models import CreateResponse
from runward.api.responses.starting import check_goes_on
from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import ApprovalId, CallId, Prefix, ProjectId, format_id, parse
from runward.domain.registry.scopes import Principal, Scope
from runward.domain.run.approvals import ApprovalStatus, Approve, Reject
from runward.domain.run.config import RunConfig
from runward.domain.run.conversation import conversation
from runward.domain.run.items import Item, Message
from runward.domain.run.resolve import CallbackCompleted
from runward.domain.run.status import TERMINAL
from runward.store import codec
from runward.store.postgres.db import Tx
from runward.store.registry import policies
from runward.store.runs import approvals, client_results, queries, transitions
from runward.store.runs.views import RunView
from runward.wiring import Services

_PLACE: Final = "previous_response_id"
_QUESTIONS: Final = ("mcp_approval_request", "function_call")


@dataclass(slots=True)
class Answers:
    """What the client says to a run that waits for it."""

    decisions: list[inputs.McpApprovalResponseIn] = field(
        default_factory=list[inputs.McpApprovalResponseIn]
    )
    outputs: list[inputs.FunctionCallOutputIn] = field(
        default_factory=list[inputs.FunctionCallOutputIn]
    )
    messages: list[Message] = field(default_factory=list[Message])

    @classmethod
    def of(cls, given: inputs.InputIn) -> "Answers":
        found = cls()
        if isinstance(given, str):
            found.messages.append(Message("user", given))
            return found
        for n, item in enumerate(given):
            match item:
                case inputs.McpApprovalResponseIn():
                    found.decisions.append(item)
                case inputs.FunctionCallOutputIn():
                    found.outputs.append(item)
                case inputs.MessageIn():
                    found.messages.append(message_of(item, f"input.{n}"))
                case _:
                    why = "stands in the conversation already; send only what is new"
                    raise refused(f"input.{n}", why)
        return found


@dataclass(frozen=True, slots=True)
class Former:
    """The response that is gone on from. `asked`: the items with which it asks the client."""

    view: RunView
    id: ResponseId
    log: Log
    asked: Sequence[dict[str, Any]]

    @property
    def ended_at(self) -> int:
        """The number of its last event in the log."""
        return self.log.seen


async def former_of(services: Services, project_id: ProjectId, shown: str) -> Former:
    """Raises PreviousResponseNotFoundError, and InvalidRequestError while it is not over."""
    try:
        view, id_, log = await reading.found_response(services, project_id, shown)
    except e.ResponseNotFoundError:
        why = f"Previous response with id '{shown[:64]}' not found."
        raise e.PreviousResponseNotFoundError(why, errors=[FieldError(_PLACE, why)]) from None
    if not log.ended:
        raise refused(_PLACE, f"The response {id_} is {log.found.status}; wait for its end.")
    return Former(view, id_, log, asked_by(log))


def is_waited_for(former: Former, given: inputs.InputIn) -> bool:
    """Whether the input answers what the run waits for; then the run itself goes on."""
    if not former.asked or isinstance(given, str):
        return False
    kinds = (inputs.McpApprovalResponseIn, inputs.FunctionCallOutputIn)
    return any(isinstance(item, kinds) for item in given)


async def history_of(services: Services, project_id: ProjectId, former: Former) -> tuple[Item, ...]:
    """The conversation of a run that has ended. Raises InvalidRequestError."""
    if former.view.session_id is not None:
        shown = format_id(Prefix.SESSION, former.view.session_id)
        raise refused(_PLACE, f"belongs to a session: send conversation='{shown}' instead")
    async with services.autocommit.connect() as tx:
        found = await queries.load(tx, project_id, former.id.run_id)
    assert found is not None
    if found[0] not in TERMINAL:
        raise _unanswered(former)
    return conversation(found[1])


def _unanswered(former: Former) -> e.InvalidRequestError:
    for item in former.asked:
        if item["type"] == "function_call":
            return without_output(item["call_id"])
    ids = ", ".join(item["id"] for item in former.asked)
    return refused("input", f"No mcp_approval_response found for {ids}, which the run waits for.")


# Going on with a run that waits.


async def go_on(
    services: Services,
    principal: Principal,
    body: CreateResponse,
    former: Former,
    request_key: IdempotentRequest,
) -> tuple[ResponseId, Response]:
    """After this what the client says is committed; the response's id, and the answer under the
    key. Raises AppErrors."""
    answers = Answers.of(body.input)
    _check_answers(former, answers)
    if answers.decisions and not principal.may((Scope.APPROVALS_DECIDE,)):
        raise e.InsufficientScopeError((Scope.APPROVALS_DECIDE,))
    config = codec.config_from_json(former.view.config)
    if isinstance(config, RunConfig):
        check_goes_on(body, config)
    if body.metadata and body.metadata != former.view.metadata:
        raise refused("metadata", "must be left out or as in the response that is gone on from")

    async def act(tx: Tx) -> dict[str, str]:
        policy = await policies.get_policy(tx, principal.project_id)
        after = await _answer(
            tx, services, principal, former, answers, checked=policy.checks_results
        )
        return {"id": str(ResponseId(former.id.run_id, after))}

    made = await answer_once(services, request_key, act)
    services.wake_worker()
    id_ = ResponseId.parse(from_json(bytes(made.body))["id"])
    assert id_ is not None
    return id_, made


def _check_answers(former: Former, answers: Answers) -> None:
    calls = {item["call_id"] for item in former.asked if item["type"] == "function_call"}
    questions = {item["id"] for item in former.asked if item["type"] != "function_call"}
    given = {one.call_id for one in answers.outputs}
    for call_id in given - calls:
        raise without_call(call_id)
    for call_id in calls - given:
        raise without_output(call_id)
    for one in answers.decisions:
        if one.approval_request_id not in questions:
            raise refused("input", f"{one.approval_request_id} is no question of {former.id}.")


async def _answer(
    tx: Tx,
    services: Services,
    principal: Principal,
    former: Former,
    answers: Answers,
    *,
    checked: bool,
) -> int:
    """Where in the log the new response begins: where the run waited last, or, where everything
    had been settled elsewhere by then, where the former response ended."""
    project_id, run_id = principal.project_id, former.id.run_id
    found = await queries.lock(tx, project_id, run_id)
    assert found is not None
    state = found[1]
    waited = await waited_last(tx, project_id, former)
    counts = False
    for decision in answers.decisions:
        counts |= await _decide(tx, services, principal, decision)
    for output in answers.outputs:
        call = state.calls[CallId(output.call_id)]
        counts |= call.result is None and call.received is None
        said = CallbackCompleted(status="completed", output=output_text(output))
        await client_results.give(
            tx, services.vault, project_id, run_id, call.id, said, checked=checked
        )
    if answers.messages and not counts:
        raise e.ConflictError("What the run waited for was settled already; see its response.")
    if answers.messages:
        await transitions.add_input(tx, project_id, run_id, answers.messages)
    return waited if counts else former.ended_at


async def _decide(
    tx: Tx, services: Services, principal: Principal, said: inputs.McpApprovalResponseIn
) -> bool:
    """False: that was decided before, by whomever."""
    value = parse(Prefix.APPROVAL, said.approval_request_id)
    assert value is not None
    approval_id = ApprovalId(value)
    before = await approvals.get(tx, principal.project_id, approval_id)
    if before is None or before.status is not ApprovalStatus.PENDING or before.expired:
        return False
    decision = (
        Approve(decision="approve")
        if said.approve
        else Reject(decision="reject", message=said.reason)
    )
    by = format_id(Prefix.KEY, principal.key_id)
    await transitions.decide(tx, services.vault, principal.project_id, approval_id, decision, by)
    return True


async def waited_last(tx: Tx, project_id: ProjectId, former: Former) -> int:
    """The number of the event with which the run asked the client last."""
    after_all = ResponseId(former.id.run_id, MAX_SEQUENCE)
    log = reading.log_of(former.view, after_all)
    await reading.read(tx, project_id, log)
    return max(former.ended_at, log.found.before)


def asked_by(log: Log) -> list[dict[str, Any]]:
    """The items with which a response ends that waits for its client."""
    if not log.ended or log.found.status != "completed":
        return []
    return [item for item in log.found.output if item["type"] in _QUESTIONS]
