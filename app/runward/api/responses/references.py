"""Replace references in the input by the output items of earlier responses."""

import re
from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

from pydantic import TypeAdapter

from runward.api.responses import log_reader
from runward.api.responses.conversation import parameter_error
from runward.api.responses.inputs import InputIn, ResponseInputItem, ResponseInputItemReference
from runward.api.responses.items import ENCRYPTED, JsonItem
from runward.api.responses.parts import ResponseId
from runward.api.responses.sealed_reasoning import SealReasoning, make_seal
from runward.domain.ids import ProjectId, RunId
from runward.services import Storage
from runward.store.postgres.db import Tx
from runward.store.runs import views

MAX_RUNS: Final = 256
"""Maximum number of runs to which the references of one input can lead."""
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
    if len(wanted) > MAX_RUNS:
        raise parameter_error("input", f"refers to items of more than {MAX_RUNS} runs")
    items: dict[str, JsonItem] = {}
    seal = make_seal(storage.vault, project_id)
    if wanted:
        async with storage.connect() as tx:
            for run_id, ids in wanted.items():
                items |= await _load_items(tx, project_id, run_id, ids, seal)
    return [_resolve(item, f"input.{n}", items) for n, item in enumerate(given)]


def _resolve(item: ResponseInputItem, at: str, items: dict[str, JsonItem]) -> ResponseInputItem:
    if not isinstance(item, ResponseInputItemReference):
        return item
    if item.id not in items:
        raise parameter_error(f"{at}.id", f"Item with id '{item.id}' not found.")
    return _ITEM.validate_python(items[item.id])


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
