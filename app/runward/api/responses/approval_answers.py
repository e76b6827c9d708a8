"""Approval decisions in input that repeats the whole conversation.

Clients that keep the conversation themselves, such as the AI SDK and the OpenAI Agents SDK, do not
send `previous_response_id` with a decision. The ID of the approval leads to the waiting run.
"""

from collections.abc import Sequence
from dataclasses import replace

from runward.api.responses import inputs, log_reader
from runward.api.responses.continuation import PreviousResponse, list_requests
from runward.api.responses.inputs import InputIn, ResponseInputItem
from runward.api.responses.parts import ResponseId
from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import ApprovalId, Prefix, ProjectId, format_id, parse_id
from runward.services import Storage
from runward.store.postgres.db import Tx
from runward.store.runs import approvals, views
from runward.store.runs.approvals import Approval


async def find_answered_response(
    storage: Storage, project_id: ProjectId, given: InputIn
) -> tuple[PreviousResponse, list[ResponseInputItem]] | None:
    """Return the response that the last decision in the input answers, and the new items of the
    input. None: the input contains no decision, or only decisions of earlier turns."""
    last = _find_last_decision(given)
    if last is None or isinstance(given, str):
        return None
    at, approval_id = last
    async with storage.connect() as tx:
        approval = await approvals.get(tx, project_id, approval_id)
        if approval is None or not _is_new(approval, given[at + 1 :]):
            return None
        former = await _load_response(tx, project_id, approval)
    if former is None:
        return None
    asked = {item.get("call_id") or item["id"] for item in former.requests}
    messages = [item for item in given[at + 1 :] if isinstance(item, inputs.ResponseInputMessage)]
    return former, [*(item for item in given if _answers(item) in asked), *messages]


def _find_last_decision(given: InputIn) -> tuple[int, ApprovalId] | None:
    for at in range(len(given) - 1, -1, -1):
        item = given[at]
        if isinstance(item, inputs.ResponseInputMcpApprovalResponse):
            value = parse_id(Prefix.APPROVAL, item.approval_request_id)
            return None if value is None else (at, ApprovalId(value))
    return None


def _is_new(approval: Approval, rest: Sequence[ResponseInputItem]) -> bool:
    """Return whether the decision belongs to this request. If the approval was already decided and
    other items follow the decision, the client repeats an earlier turn."""
    return approval.status is ApprovalStatus.PENDING or all(_answers(item) for item in rest)


def _answers(item: ResponseInputItem | str) -> str | None:
    """Return the ID of the request that the item answers."""
    match item:
        case inputs.ResponseInputMcpApprovalResponse():
            return item.approval_request_id
        case inputs.ResponseInputFunctionCallOutput():
            return item.call_id
        case _:
            return None


async def _load_response(
    tx: Tx, project_id: ProjectId, approval: Approval
) -> PreviousResponse | None:
    """Return the run's newest response that contains the approval request."""
    view = await views.get_run(tx, project_id, approval.run_id)
    if view is None or view.erase_at_end or view.parent_run_id is not None:
        return None
    shown = format_id(Prefix.APPROVAL, approval.id)
    found: PreviousResponse | None = None
    id_ = ResponseId(approval.run_id)
    while True:
        log = log_reader.create_log(view, id_)
        await log_reader.read_log(tx, project_id, log)
        requests = list_requests(log)
        if any(item["id"] == shown for item in requests):
            found = PreviousResponse(view, id_, log, requests)
        elif found is not None or not log.ended:
            return found
        if not log.ended or not requests:
            return found
        id_ = replace(id_, after=log.seen)
