"""Replace references in the input by the output items of earlier responses, and decisions that were
already applied by their approval requests."""

import re
from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

from pydantic import TypeAdapter

from runward.api.responses import log_reader
from runward.api.responses.conversation import parameter_error
from runward.api.responses.inputs import (
    InputIn,
    ResponseInputItem,
    ResponseInputItemReference,
    ResponseInputMcpApprovalResponse,
)
from runward.api.responses.items import ENCRYPTED, JsonItem
from runward.api.responses.parts import ResponseId
from runward.api.responses.sealed_reasoning import SealReasoning, make_seal
from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import ApprovalId, Prefix, ProjectId, RunId, format_id, parse_id
from runward.domain.json import compact
from runward.services import Storage
from runward.store.postgres.db import Tx
from runward.store.runs import approvals, views

MAX_RUNS: Final = 256
"""Maximum number of runs to which the references of one input can lead, and of its approvals."""
_ITEM_ID: Final = re.compile(r"[a-z]{2,5}_([0-9a-f]{32})_[a-z0-9]{1,20}")
_ITEM: Final = TypeAdapter[Any](ResponseInputItem)


async def resolve_references(storage: Storage, project_id: ProjectId, given: InputIn) -> InputIn:
    """Return the input with the items to which its references lead. Raises InvalidRequestError if
    an item does not exist."""
    if isinstance(given, str):
        return given
    wanted: dict[RunId, set[str]] = {}
    for item in given:
        if isinstance(item, ResponseInputItemReference) and (found := _ITEM_ID.fullmatch(item.id)):
            wanted.setdefault(RunId(UUID(hex=found[1])), set()).add(item.id)
    asked = {value for item in given if (value := _get_approval_id(item))}
    if len(wanted) > MAX_RUNS or len(asked) > MAX_RUNS:
        why = f"refers to items of more than {MAX_RUNS} runs, or to more than {MAX_RUNS} approvals"
        raise parameter_error("input", why)
    items: dict[str, JsonItem] = {}
    seal = make_seal(storage.vault, project_id)
    if wanted or asked:
        async with storage.connect() as tx:
            for run_id, ids in wanted.items():
                items |= await _load_items(tx, project_id, run_id, ids, seal)
            items |= await _load_decided(tx, project_id, asked)
    return [_resolve(item, f"input.{n}", items) for n, item in enumerate(given)]


def _resolve(item: ResponseInputItem, at: str, items: dict[str, JsonItem]) -> ResponseInputItem:
    match item:
        case ResponseInputItemReference(id=id_):
            if id_ not in items:
                raise parameter_error(f"{at}.id", f"Item with id '{id_}' not found.")
            return _ITEM.validate_python(items[id_])
        case ResponseInputMcpApprovalResponse(approval_request_id=id_) if id_ in items:
            return _ITEM.validate_python(items[id_])
        case _:
            return item


def _get_approval_id(item: ResponseInputItem) -> UUID | None:
    match item:
        case ResponseInputItemReference(id=id_):
            return parse_id(Prefix.APPROVAL, id_)
        case ResponseInputMcpApprovalResponse(approval_request_id=id_):
            return parse_id(Prefix.APPROVAL, id_)
        case _:
            return None


async def _load_decided(
    tx: Tx, project_id: ProjectId, ids: Collection[UUID]
) -> dict[str, JsonItem]:
    """Return the requests of the approvals that were decided. The model does not read them, because
    the items of their calls contain the outcomes."""
    found: dict[str, JsonItem] = {}
    for value in ids:
        approval = await approvals.get(tx, project_id, ApprovalId(value))
        if approval is not None and approval.status is not ApprovalStatus.PENDING:
            id_ = format_id(Prefix.APPROVAL, value)
            found[id_] = {
                "type": "mcp_approval_request",
                "id": id_,
                "server_label": "runward",
                "name": approval.tool,
                "arguments": compact(approval.arguments),
            }
    return found


async def _load_items(
    tx: Tx, project_id: ProjectId, run_id: RunId, ids: Collection[str], seal: SealReasoning
) -> dict[str, JsonItem]:
    """Return the output items with these IDs. Reads the run's responses one after another, until
    all items are found."""
    view = await views.get_run(tx, project_id, run_id)
    found: dict[str, JsonItem] = {}
    after = 0
    while view is not None and not view.erase_at_end and len(found) < len(ids):
        log = log_reader.create_log(
            view, ResponseId(run_id, after), seal=seal, include=(ENCRYPTED,)
        )
        await log_reader.read_log(tx, project_id, log)
        found |= {str(one["id"]): one for one in log.snapshot.output if one["id"] in ids}
        if not log.ended:
            break
        after = log.seen
    return found
