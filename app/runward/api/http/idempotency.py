"""Idempotency keys: a repeated request with the same key and body gets the first response."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from runward.api.http.params import IdempotencyKey
from runward.api.http.requests import ApiRequest
from runward.api.http.responses import json_response
from runward.domain import errors as e
from runward.domain.ids import ProjectId, parse_any_id
from runward.domain.json import compute_digest, parse
from runward.services import Storage
from runward.store.access import idempotency
from runward.store.postgres.db import Tx
from runward.store.runs.queue import NewRun

REPLAY_HEADERS = {"Idempotent-Replayed": "true"}


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A request that must have its effect at most once. Without a key, requests are not
    deduplicated."""

    project_id: ProjectId
    route: str
    body_digest: str
    key: str | None

    @classmethod
    def from_request(
        cls, request: Request, project_id: ProjectId, key: str | None
    ) -> "IdempotentRequest":
        """Return the request's key and fingerprint. The path is part of the fingerprint: the same
        key and body on another path is a different request."""
        assert isinstance(request, ApiRequest)
        body: JsonValue = parse(request.raw.decode()) if key is not None and request.raw else None
        return cls(
            project_id, f"{request.method} {request.scope['path']}", compute_digest(body), key
        )

    def with_key(self, new: NewRun) -> NewRun:
        """Return the request with its key. The commit that accepts the run also stores the key."""
        if self.key is None:
            return new
        return replace(new, idempotency=(self.key, self.route, self.body_digest))

    def check(self, stored: idempotency.IdempotencyRecord) -> None:
        if (stored.route, stored.body_digest) != (self.route, self.body_digest):
            raise e.IdempotencyMismatchError


def _read_request_key(
    request: Request, idempotency_key: IdempotencyKey = None
) -> IdempotentRequest:
    assert isinstance(request, ApiRequest)
    return IdempotentRequest.from_request(request, request.principal.project_id, idempotency_key)


RequestKey = Annotated[IdempotentRequest, Depends(_read_request_key)]
"""A handler's parameter, used together with its principal."""


async def respond_once(
    storage: Storage,
    request_key: IdempotentRequest,
    operation: Callable[[Tx], Awaitable[Any]],
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    collection_path: str | None = None,
) -> Response:
    """Run `operation` in the given transaction, and return its response. If it raises an error, the
    transaction is rolled back and the key is not used up. `collection_path`: the path that contains
    the created resource under its ID."""
    made = await _respond(storage, request_key, operation, status, headers)
    if collection_path is not None:
        made.headers["Location"] = f"{collection_path}/{from_json(bytes(made.body))['id']}"
    return made


async def has_stored_response(storage: Storage, request_key: IdempotentRequest) -> bool:
    """Return whether `respond_once` would replay a stored response."""
    if request_key.key is None:
        return False
    async with storage.connect() as tx:
        return await idempotency.read(tx, request_key.project_id, request_key.key) is not None


async def _respond(
    storage: Storage,
    request_key: IdempotentRequest,
    operation: Callable[[Tx], Awaitable[Any]],
    status: int,
    headers: dict[str, str] | None,
) -> Response:
    async with storage.begin() as tx:
        if request_key.key is None:
            return json_response(await operation(tx), status, headers)
        if await idempotency.reserve(
            tx, request_key.project_id, request_key.key, request_key.route, request_key.body_digest
        ):
            answer = await operation(tx)
            text = to_json(answer).decode()
            resource = parse_any_id(str(getattr(answer, "id", "")))
            await idempotency.store_answer(
                tx,
                storage.vault,
                request_key.project_id,
                request_key.key,
                status,
                text,
                resource_id=resource,
            )
            return Response(text, status, headers, "application/json")
        kept = await idempotency.read(tx, request_key.project_id, request_key.key)
    if kept is None:
        raise e.IdempotencyInFlightError
    request_key.check(kept)
    assert kept.answer is not None and kept.status is not None
    text = idempotency.open_answer(
        storage.vault, request_key.project_id, request_key.key, kept.answer
    )
    return Response(text, kept.status, {**(headers or {}), **REPLAY_HEADERS}, "application/json")
