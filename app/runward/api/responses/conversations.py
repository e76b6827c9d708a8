"""/v1/conversations: sessions in OpenAI's format."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import Path, Response

from runward.api.http.audit import AuditDep
from runward.api.http.auth import RunsReader, RunsWriter
from runward.api.http.dependencies import StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import ConversationPath
from runward.api.http.routes import make_router
from runward.api.responses.compaction import make_unsealer
from runward.api.responses.conversation import parse_items
from runward.api.responses.conversation_models import (
    ITEM_EXAMPLE,
    Conversation,
    ConversationItemList,
    CreateConversation,
    CreateConversationItems,
    DeletedConversation,
    UpdateConversation,
)
from runward.api.responses.input_items import encode_items
from runward.api.responses.inputs import ResponseInputItem
from runward.api.responses.items import JsonItem
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.ids import Prefix, ProjectId, SessionId, format_id
from runward.domain.json import JsonObject
from runward.domain.run.items import item_from_json, item_to_json
from runward.domain.run.sessions import ConflictMode
from runward.services import Storage
from runward.store.access import holds
from runward.store.postgres.db import Tx
from runward.store.runs import session_items, sessions
from runward.store.runs.session_items import SessionItem

routes = make_router("Responses")

_ITEM_ID: Final = re.compile(r"[a-z]{2,5}_([0-9a-f]{32})_([0-9]{1,18})_([0-9]{1,9})")
"""The session's digits, the position of the item's run, and the position of the item in it."""

ItemPath = Annotated[str, Path(max_length=128, description="ID of the item.")]


@routes.post("/conversations", response_model=Conversation)
async def create_conversation(
    principal: RunsWriter,
    storage: StorageDep,
    request_key: RequestKey,
    conversation: CreateConversation | None = None,
) -> Response:
    """Create a conversation. It is a session, so `/v1/sessions` shows it with the ID `sess_…` and
    the same digits."""
    asked = conversation or CreateConversation()
    items = _parse_new_items(storage, principal.project_id, asked.items)

    async def create(tx: Tx) -> Conversation:
        made = await sessions.create(
            tx,
            principal.project_id,
            name=None,
            metadata={**asked.metadata},
            state={},
            on_conflict=ConflictMode.QUEUE,
        )
        if items:
            await session_items.add_items(tx, principal.project_id, made.id, items)
        return Conversation.from_row(made)

    return await respond_once(storage, request_key, create)


@routes.get("/conversations/{conversation_id}")
async def get_conversation(
    principal: RunsReader, storage: StorageDep, conversation_id: ConversationPath
) -> Conversation:
    """Get a conversation."""
    async with storage.connect() as tx:
        return await _load(tx, principal.project_id, conversation_id)


@routes.post("/conversations/{conversation_id}")
async def update_conversation(
    principal: RunsWriter,
    storage: StorageDep,
    conversation_id: ConversationPath,
    conversation: UpdateConversation,
) -> Conversation:
    """Replace the metadata of a conversation."""
    async with storage.begin() as tx:
        changed = await sessions.update_session(
            tx,
            principal.project_id,
            conversation_id,
            delta={},
            metadata={**conversation.metadata},
        )
    return Conversation.from_row(changed)


@routes.delete("/conversations/{conversation_id}")
async def delete_conversation(
    principal: RunsWriter,
    storage: StorageDep,
    audit: AuditDep,
    conversation_id: ConversationPath,
) -> DeletedConversation:
    """Delete a conversation with its items. Its runs are kept. If a run of the conversation is
    open, Runward refuses the request with 409 `session_busy`."""
    async with storage.begin() as tx:
        await sessions.delete(tx, principal.project_id, conversation_id)
        await audit.record(
            tx, AuditAction.SESSION_DELETED, format_id(Prefix.SESSION, conversation_id)
        )
    return DeletedConversation(id=format_id(Prefix.CONVERSATION, conversation_id))


@routes.get(
    "/conversations/{conversation_id}/items",
    response_model=ConversationItemList,
    summary="List a conversation's items",
)
async def list_conversation_items(
    principal: RunsReader,
    storage: StorageDep,
    conversation_id: ConversationPath,
    pagination: Pagination,
) -> Page[JsonItem]:
    """List the items of a conversation: the items that clients added, and the items of the runs
    that have ended. By default, the newest item is first."""
    window = pagination.by_cursor(
        lambda cursor: _parse_item_id(conversation_id, cursor),
        "must be the `first_id` or `last_id` of a page of this list",
    )
    async with storage.connect() as tx:
        await _load(tx, principal.project_id, conversation_id)
        found = await session_items.list_items(tx, principal.project_id, conversation_id, **window)
    return pagination.page(
        found, lambda item: _show_item(conversation_id, item), lambda item: str(item["id"])
    )


@routes.post(
    "/conversations/{conversation_id}/items",
    response_model=ConversationItemList,
    summary="Create a conversation's items",
)
async def create_conversation_items(
    principal: RunsWriter,
    storage: StorageDep,
    request_key: RequestKey,
    conversation_id: ConversationPath,
    body: CreateConversationItems,
) -> Response:
    """Append items to a conversation. Later runs of the conversation read them. A function call
    and its output can be in separate requests. A model reads them only if both exist."""
    items = _parse_new_items(storage, principal.project_id, body.items)

    async def add(tx: Tx) -> ConversationItemList:
        added = await session_items.add_items(tx, principal.project_id, conversation_id, items)
        shown: list[JsonObject] = [_show_item(conversation_id, one) for one in added]
        first, last = (str(shown[at]["id"]) if shown else None for at in (0, -1))
        return ConversationItemList(data=shown, first_id=first, last_id=last, has_more=False)

    return await respond_once(storage, request_key, add)


@routes.get(
    "/conversations/{conversation_id}/items/{item_id}",
    summary="Get a conversation's item",
    responses={
        200: {"content": {"application/json": {"examples": {"item": {"value": ITEM_EXAMPLE}}}}}
    },
)
async def get_conversation_item(
    principal: RunsReader,
    storage: StorageDep,
    conversation_id: ConversationPath,
    item_id: ItemPath,
) -> dict[str, Any]:
    """Get an item of a conversation."""
    async with storage.connect() as tx:
        found = await _find_item(tx, principal.project_id, conversation_id, item_id)
    return _show_item(conversation_id, found)


@routes.delete(
    "/conversations/{conversation_id}/items/{item_id}", summary="Delete a conversation's item"
)
async def delete_conversation_item(
    principal: RunsWriter,
    storage: StorageDep,
    audit: AuditDep,
    conversation_id: ConversationPath,
    item_id: ItemPath,
) -> Conversation:
    """Delete an item of a conversation. Later runs do not read it. The run that created the item is
    kept."""
    async with storage.begin() as tx:
        await holds.ensure_session_is_free(tx, principal.project_id, conversation_id)
        await sessions.lock(tx, principal.project_id, conversation_id)
        found = await _find_item(tx, principal.project_id, conversation_id, item_id)
        await session_items.delete_item(
            tx, principal.project_id, conversation_id, found.seq, found.number
        )
        shown = await _load(tx, principal.project_id, conversation_id)
        session = format_id(Prefix.SESSION, conversation_id)
        await audit.record(tx, AuditAction.SESSION_ITEM_DELETED, session, before={"id": item_id})
        return shown


async def _load(tx: Tx, project_id: ProjectId, session_id: SessionId) -> Conversation:
    """Raises SessionNotFoundError."""
    found = await sessions.get(tx, project_id, session_id)
    if found is None:
        raise not_found.SessionNotFoundError
    return Conversation.from_row(found)


async def _find_item(
    tx: Tx, project_id: ProjectId, session_id: SessionId, item_id: str
) -> SessionItem:
    """Raises SessionNotFoundError and NotFoundError."""
    await _load(tx, project_id, session_id)
    place = _parse_item_id(session_id, item_id)
    found = place and await session_items.get_item(tx, project_id, session_id, *place)
    if not found:
        raise not_found.NotFoundError("This conversation has no item with this ID.")
    return found


def _parse_item_id(session_id: SessionId, item_id: str) -> tuple[int, int] | None:
    found = _ITEM_ID.fullmatch(item_id)
    if found is None or found[1] != session_id.hex:
        return None
    return int(found[2]), int(found[3])


def _parse_new_items(
    storage: Storage, project_id: ProjectId, items: Sequence[ResponseInputItem]
) -> list[JsonObject]:
    unsealer = make_unsealer(storage.vault, project_id)
    return [item_to_json(one) for one in parse_items(items, "items", unsealer)]


def _show_item(session_id: SessionId, kept: SessionItem) -> JsonItem:
    [item] = encode_items("", [item_from_json(kept.item)])
    kind = item["id"].partition("_")[0]
    return item | {"id": f"{kind}_{session_id.hex}_{kept.seq}_{kept.number}"}
