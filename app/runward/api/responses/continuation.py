"""A response that continues another response. If the run of the other response has ended, its
conversation becomes the history of a new run. If the run waits, it receives the client's input and
continues."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Response
from pydantic_core import from_json

from runward.api.http.idempotency import IdempotentRequest, respond_once
from runward.api.http.params import MAX_SEQUENCE
from runward.api.responses import inputs, log_reader
from runward.api.responses.conversation import (
    missing_call_error,
    missing_output_error,
    parameter_error,
    parse_message,
    parse_output,
)
from runward.api.responses.log import ResponseLog
from runward.api.responses.models import CreateResponse
from runward.api.responses.parts import ResponseId
from runward.api.responses.run_request import check_continuation
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.errors import FieldError
from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import ApprovalId, CallId, Prefix, ProjectId, format_id, parse_id
from runward.domain.registry.scopes import Principal, Scope
from runward.domain.run.config import RunConfig
from runward.domain.run.conversation import build_conversation
from runward.domain.run.decisions import ApproveDecision, RejectDecision
from runward.domain.run.items import Item, Message
from runward.domain.run.resolve import CallbackCompleted
from runward.domain.run.status import TERMINAL
from runward.services import RunQueue, Storage
from runward.store import codec
from runward.store.postgres.db import Tx
from runward.store.registry import policies
from runward.store.runs import approvals, client_results, decisions, queries, transitions
from runward.store.runs.views import RunView

_PARAMETER: Final = "previous_response_id"
_REQUEST_TYPES: Final = ("mcp_approval_request", "function_call")


@dataclass(slots=True)
class Answers:
    """The client's input for a run that waits for it."""

    decisions: list[inputs.ResponseInputMcpApprovalResponse] = field(
        default_factory=list[inputs.ResponseInputMcpApprovalResponse]
    )
    outputs: list[inputs.ResponseInputFunctionCallOutput] = field(
        default_factory=list[inputs.ResponseInputFunctionCallOutput]
    )
    messages: list[Message] = field(default_factory=list[Message])

    @classmethod
    def parse(cls, given: inputs.InputIn) -> "Answers":
        found = cls()
        if isinstance(given, str):
            found.messages.append(Message("user", given))
            return found
        for n, item in enumerate(given):
            match item:
                case inputs.ResponseInputMcpApprovalResponse():
                    found.decisions.append(item)
                case inputs.ResponseInputFunctionCallOutput():
                    found.outputs.append(item)
                case inputs.ResponseInputMessage():
                    found.messages.append(parse_message(item, f"input.{n}"))
                case _:
                    why = "is already part of the conversation; send only new items"
                    raise parameter_error(f"input.{n}", why)
        return found


@dataclass(frozen=True, slots=True)
class PreviousResponse:
    """The response to continue. `requests`: the items with which it requests input from the
    client."""

    view: RunView
    id: ResponseId
    log: ResponseLog
    requests: Sequence[dict[str, Any]]

    @property
    def ended_at(self) -> int:
        """The number of its last event in the log."""
        return self.log.seen


async def load_previous_response(
    storage: Storage, project_id: ProjectId, shown: str
) -> PreviousResponse:
    """Return the response to continue. Raises PreviousResponseNotFoundError, and
    InvalidRequestError if the response has not ended."""
    try:
        view, id_, log = await log_reader.load_response(storage, project_id, shown)
    except not_found.ResponseNotFoundError:
        raise _not_found_error(shown) from None
    if not log.ended:
        raise parameter_error(
            _PARAMETER,
            f"The response {id_} has the status {log.snapshot.status}. Wait until it ends.",
        )
    return PreviousResponse(view, id_, log, list_requests(log))


def _not_found_error(shown: str) -> e.PreviousResponseNotFoundError:
    why = f"Previous response with id '{shown[:64]}' not found."
    return e.PreviousResponseNotFoundError(why, errors=[FieldError(_PARAMETER, why)])


def answers_wait(former: PreviousResponse, given: inputs.InputIn) -> bool:
    """Return whether the input answers requests of the waiting run. If so, the run itself
    continues."""
    if not former.requests or isinstance(given, str):
        return False
    kinds = (inputs.ResponseInputMcpApprovalResponse, inputs.ResponseInputFunctionCallOutput)
    return any(isinstance(item, kinds) for item in given)


async def load_history(
    storage: Storage, project_id: ProjectId, former: PreviousResponse
) -> tuple[Item, ...]:
    """Return the conversation of a run that has ended. Raises InvalidRequestError."""
    if former.view.session_id is not None:
        shown = format_id(Prefix.SESSION, former.view.session_id)
        raise parameter_error(
            _PARAMETER, f"belongs to a session; send conversation='{shown}' instead"
        )
    try:
        async with storage.connect() as tx:
            found = await queries.load(tx, project_id, former.id.run_id)
    except not_found.RunErasedError:
        raise _not_found_error(str(former.id)) from None
    assert found is not None
    if found[0] not in TERMINAL:
        raise _unanswered_error(former)
    return build_conversation(found[1])


def _unanswered_error(former: PreviousResponse) -> e.InvalidRequestError:
    for item in former.requests:
        if item["type"] == "function_call":
            return missing_output_error(item["call_id"])
    ids = ", ".join(item["id"] for item in former.requests)
    return parameter_error(
        "input", f"No mcp_approval_response found for {ids}. The run is waiting for it."
    )


# Continue a waiting run.


async def continue_run(
    storage: Storage,
    queue: RunQueue,
    principal: Principal,
    body: CreateResponse,
    former: PreviousResponse,
    request_key: IdempotentRequest,
) -> tuple[ResponseId, Response]:
    """Commit the client's input together with the ID of the new response and the idempotency key.
    Raises AppErrors."""
    answers = Answers.parse(body.input)
    _check_answers(former, answers)
    if answers.decisions and not principal.may((Scope.APPROVALS_DECIDE,)):
        raise e.InsufficientScopeError((Scope.APPROVALS_DECIDE,))
    config = codec.config_from_json(former.view.config)
    if isinstance(config, RunConfig):
        check_continuation(body, config)
    if body.metadata and body.metadata != former.view.metadata:
        raise parameter_error(
            "metadata", "must be omitted, or must have the same value as in the previous response"
        )

    async def act(tx: Tx) -> dict[str, str]:
        policy = await policies.get_policy(tx, principal.project_id)
        after = await _apply_answers(
            tx, storage, principal, former, answers, checked=policy.checks_results
        )
        return {"id": str(ResponseId(former.id.run_id, after))}

    made = await respond_once(storage, request_key, act)
    queue.wake_worker(former.id.run_id)
    id_ = ResponseId.parse(from_json(bytes(made.body))["id"])
    assert id_ is not None
    return id_, made


def _check_answers(former: PreviousResponse, answers: Answers) -> None:
    calls = {item["call_id"] for item in former.requests if item["type"] == "function_call"}
    questions = {item["id"] for item in former.requests if item["type"] != "function_call"}
    given = {one.call_id for one in answers.outputs}
    for call_id in given - calls:
        raise missing_call_error(call_id)
    for call_id in calls - given:
        raise missing_output_error(call_id)
    for one in answers.decisions:
        if one.approval_request_id not in questions:
            raise parameter_error(
                "input",
                f"{one.approval_request_id} is not an approval request of the "
                f"response {former.id}.",
            )


async def _apply_answers(
    tx: Tx,
    storage: Storage,
    principal: Principal,
    former: PreviousResponse,
    answers: Answers,
    *,
    checked: bool,
) -> int:
    """Apply the answers. Return where in the log the new response begins: where the run waited
    last, or where the previous response ended if all requests had already been answered
    elsewhere."""
    project_id, run_id = principal.project_id, former.id.run_id
    found = await queries.lock_and_load(tx, project_id, run_id)
    assert found is not None
    state = found[1]
    waited = await find_last_wait(tx, project_id, former)
    counts = False
    for decision in answers.decisions:
        counts |= await _decide(tx, storage, principal, decision)
    for output in answers.outputs:
        call = state.calls[CallId(output.call_id)]
        counts |= call.result is None and call.received is None
        said = CallbackCompleted(status="completed", output=parse_output(output))
        await client_results.submit_result(
            tx, storage.vault, project_id, run_id, call.id, said, project_has_checks=checked
        )
    if answers.messages and not counts:
        raise e.ConflictError(
            "The run is no longer waiting for this input. Retrieve the response to see "
            "its current state."
        )
    if answers.messages:
        await transitions.add_input(tx, project_id, run_id, answers.messages)
    return waited if counts else former.ended_at


async def _decide(
    tx: Tx,
    storage: Storage,
    principal: Principal,
    response: inputs.ResponseInputMcpApprovalResponse,
) -> bool:
    """Apply a decision. False: the approval was already decided."""
    value = parse_id(Prefix.APPROVAL, response.approval_request_id)
    assert value is not None
    approval_id = ApprovalId(value)
    before = await approvals.get(tx, principal.project_id, approval_id)
    if before is None or before.status is not ApprovalStatus.PENDING or before.expired:
        return False
    decision = (
        ApproveDecision(decision="approve")
        if response.approve
        else RejectDecision(decision="reject", message=response.reason)
    )
    await decisions.decide(tx, storage.vault, principal, approval_id, decision)
    return True


async def find_last_wait(tx: Tx, project_id: ProjectId, former: PreviousResponse) -> int:
    """Return the number of the event with which the run last requested input from the client."""
    after_all = ResponseId(former.id.run_id, MAX_SEQUENCE)
    log = log_reader.create_log(former.view, after_all)
    await log_reader.read_log(tx, project_id, log)
    return max(former.ended_at, log.snapshot.before)


def list_requests(log: ResponseLog) -> list[dict[str, Any]]:
    """Return the items at the end of a response that waits for its client."""
    if not log.ended or log.snapshot.status != "completed":
        return []
    return [item for item in log.snapshot.output if item["type"] in _REQUEST_TYPES]
