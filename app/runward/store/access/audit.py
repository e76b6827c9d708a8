"""The audit log of projects. The last statement of a transaction that changes something appends the
entry. Entries of a project are appended one after another, and a rollback leaves no gap."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from itertools import takewhile
from typing import Any, Final
from uuid import UUID

from pydantic_core import to_jsonable_python
from sqlalchemy import ColumnElement, Select, func, insert, select, text, update

from runward.domain.audit import ActorType, AuditAction, digest_content, hash_entry, select_changes
from runward.domain.ids import Prefix, ProjectId, RunId, format_id, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.store.access.keys import DEFAULT_PROJECT, ensure_default_project
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, mint, select_page
from runward.store.postgres.tables import audit_chains, audit_entries

SALT_BYTES: Final = 16
REMOVAL_BATCH: Final = 1_000
"""Maximum number of entries that one transaction removes."""
# The lock of the row lasts until the end of the transaction.
_LOCK_CHAIN: Final = text(
    "INSERT INTO audit_chains AS c (project_id, number) VALUES (:project_id, 1)"
    " ON CONFLICT (project_id) DO UPDATE SET number = c.number + 1"
    " RETURNING number, hash, clock_timestamp() AS created_at"
)
REFUSAL_INTERVAL: Final = timedelta(minutes=1)
"""Interval at which refused sign-ins with the same key are recorded."""

_NOT_HELD: Final = (
    "NOT EXISTS (SELECT FROM legal_holds h WHERE h.project_id = CAST(:project_id AS uuid))"
)
"""SQL condition for a project without any hold. Entries can only be removed from the beginning of
the chain, and the oldest one may concern the run or session of a hold."""
_IS_DUE: Final = "created_at <= statement_timestamp() - make_interval(days => CAST(:days AS int))"
_LOCK_FOR_REMOVAL: Final = text(
    "SELECT removed_number FROM audit_chains"
    f" WHERE project_id = :project_id AND {_NOT_HELD} FOR UPDATE SKIP LOCKED"
)
_OLDEST: Final = text(
    "SELECT number, hash FROM audit_entries WHERE project_id = :project_id"
    f" AND number <= CAST(:removed AS bigint) + :count AND {_IS_DUE}"
    " ORDER BY number FOR UPDATE SKIP LOCKED"
)
_REMOVE: Final = text(
    "DELETE FROM audit_entries WHERE project_id = :project_id AND number <= :number"
)
_SET_REMOVED: Final = text(
    "UPDATE audit_chains SET removed_number = :number, removed_hash = :hash"
    " WHERE project_id = :project_id"
)
COUNT_DUE: Final = text(
    "SELECT count(*) AS rows, min(created_at) AS oldest FROM (SELECT created_at FROM audit_entries"
    f" WHERE project_id = :project_id AND {_IS_DUE} AND {_NOT_HELD}"
    " ORDER BY created_at LIMIT :count) e"
)
"""Counts the entries that `remove_oldest` would remove."""


@dataclass(frozen=True, slots=True)
class AuditActor:
    """Who changes something, and from where. `ip_address` and `request_id`: None outside of
    requests."""

    type: ActorType
    key_id: UUID | None = None
    key_name: str | None = None
    ip_address: str | None = None
    request_id: str | None = None

    @classmethod
    def from_principal(cls, principal: Principal) -> "AuditActor":
        return cls(
            ActorType.KEY if principal.session is None else ActorType.CONSOLE_SESSION,
            principal.key_id,
            principal.key_name,
            parse_address(principal.address),
            principal.request_id,
        )


OPERATOR: Final = AuditActor(ActorType.OPERATOR)


def parse_address(address: str | None) -> str | None:
    """Return the IP address in its canonical form, or None: a Unix socket has no address."""
    try:
        return None if address is None else str(ip_address(address))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class AuditChange:
    """What changed. `resource`: the ID or the name. `before` and `after`: the resource without
    secrets. `run_id`: the run whose erasure also erases `before` and `after`."""

    action: AuditAction
    resource: str
    version: int | None = None
    before: JsonObject | None = None
    after: JsonObject | None = None
    run_id: RunId | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    project_id: UUID
    number: int
    id: UUID
    created_at: datetime
    action: str
    actor_type: ActorType
    actor_id: UUID | None
    actor_name: str | None
    ip_address: str | None
    request_id: str | None
    resource_type: str
    resource_id: str
    resource_version: int | None
    run_id: UUID | None
    before: JsonObject | None
    after: JsonObject | None
    salt: str | None
    before_digest: str | None
    after_digest: str | None
    previous_hash: str | None
    hash: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The last entry of a project, and the last entry that retention has removed. The number 0 and
    the hash None: there is none."""

    number: int = 0
    hash: str | None = None
    removed_number: int = 0
    removed_hash: str | None = None


_ENTRY: Final = RowMapping(AuditEntry, audit_entries)
_CHAIN: Final = RowMapping(Chain, audit_chains)


def render(entry: AuditEntry) -> JsonObject:
    """Return an entry as the API shows it. Its hash covers this form."""
    return {
        "id": format_id(Prefix.AUDIT_ENTRY, entry.id),
        "object": "audit_entry",
        "project_id": format_id(Prefix.PROJECT, entry.project_id),
        "number": entry.number,
        "created_at": to_jsonable_python(entry.created_at),
        "actor": {
            "type": entry.actor_type,
            "id": format_optional_id(Prefix.KEY, entry.actor_id),
            "name": entry.actor_name,
        },
        "ip_address": entry.ip_address,
        "request_id": entry.request_id,
        "action": entry.action,
        "resource": {
            "type": entry.resource_type,
            "id": entry.resource_id,
            "version": entry.resource_version,
        },
        "run_id": format_optional_id(Prefix.RUN, entry.run_id),
        "before": entry.before,
        "after": entry.after,
        "salt": entry.salt,
        "before_digest": entry.before_digest,
        "after_digest": entry.after_digest,
        "previous_hash": entry.previous_hash,
        "hash": entry.hash,
    }


async def append(tx: Tx, project_id: ProjectId, actor: AuditActor, change: AuditChange) -> None:
    """Append an entry. Call this at the end of the transaction, because other changes of the
    project that are recorded wait from here until its end."""
    chain = (await tx.execute(_LOCK_CHAIN, {"project_id": project_id})).one()
    before, after = select_changes(change.before, change.after)
    salt = None if before is after is None else secrets.token_hex(SALT_BYTES)
    entry = AuditEntry(
        project_id=project_id,
        number=chain.number,
        id=mint(),
        created_at=chain.created_at,
        action=change.action,
        actor_type=actor.type,
        actor_id=actor.key_id,
        actor_name=actor.key_name,
        ip_address=actor.ip_address,
        request_id=actor.request_id,
        resource_type=change.action.partition(".")[0],
        resource_id=change.resource,
        resource_version=change.version,
        run_id=change.run_id,
        before=before,
        after=after,
        salt=salt,
        before_digest=salt and digest_content(salt, before),
        after_digest=salt and digest_content(salt, after),
        previous_hash=chain.hash,
        hash="",
    )
    values = _ENTRY.to_row(entry) | {"hash": hash_entry(render(entry))}
    appended = insert(audit_entries).values(values).cte("appended")
    await tx.execute(
        update(audit_chains)
        .where(audit_chains.c.project_id == project_id)
        .values(hash=values["hash"])
        .add_cte(appended)
    )


async def append_for_deployment(tx: Tx, action: AuditAction, resource: str) -> None:
    """Append a change by the operator that belongs to no project to the log of the project
    `default`."""
    await ensure_default_project(tx)
    await append(tx, DEFAULT_PROJECT, OPERATOR, AuditChange(action, resource))


async def is_refusal_recorded(tx: Tx, principal: Principal) -> bool:
    """Return whether a refused sign-in with this key was recorded within the last minute. If the
    caller holds a lock of the key, concurrent requests see each other's entries."""
    columns = audit_entries.c
    latest = (
        select(columns.created_at > func.statement_timestamp() - REFUSAL_INTERVAL)
        .where(
            columns.project_id == principal.project_id,
            columns.actor_id == principal.key_id,
            columns.action == AuditAction.CONSOLE_SESSION_REFUSED,
        )
        .order_by(columns.number.desc())
        .limit(1)
    )
    return bool((await tx.execute(latest)).scalar_one_or_none())


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions for entries. `created_from` and `created_before`: a range of times."""

    action: AuditAction | None = None
    actor: UUID | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None

    def select(self, project_id: ProjectId) -> Select[Any]:
        columns, conditions = audit_entries.c, list[ColumnElement[bool]]()
        for column, value in (
            (columns.action, self.action),
            (columns.actor_id, self.actor),
            (columns.resource_type, self.resource_type),
            (columns.resource_id, self.resource_id),
        ):
            if value is not None:
                conditions.append(column == value)
        if self.created_from is not None:
            conditions.append(columns.created_at >= self.created_from)
        if self.created_before is not None:
            conditions.append(columns.created_at < self.created_before)
        return select(audit_entries).where(columns.project_id == project_id, *conditions)


async def list_entries(
    tx: Tx,
    project_id: ProjectId,
    filter_: AuditFilter,
    *,
    after: int | None,
    limit: int,
    descending: bool,
) -> list[AuditEntry]:
    query = filter_.select(project_id)
    number = audit_entries.c.number
    page = select_page(query, number, after=after, limit=limit, descending=descending)
    return [_ENTRY.read(row) for row in await tx.execute(page)]


async def get_chain(tx: Tx, project_id: ProjectId) -> Chain:
    query = select(audit_chains).where(audit_chains.c.project_id == project_id)
    row = (await tx.execute(query)).one_or_none()
    return Chain() if row is None else _CHAIN.read(row)


async def remove_oldest(tx: Tx, project_id: ProjectId, days: int) -> int:
    """Remove a batch of the oldest entries, and return their number. The chain keeps the number and
    the hash of the last one. If another transaction appends or removes entries, do nothing. Stop
    before an entry that an erasure has locked, because the erasure may wait for the chain."""
    about: dict[str, Any] = {"project_id": project_id}
    removed = (await tx.execute(_LOCK_FOR_REMOVAL, about)).scalar_one_or_none()
    if removed is None:
        return 0
    values = about | {"days": days, "removed": removed, "count": REMOVAL_BATCH}
    numbered = enumerate(await tx.execute(_OLDEST, values), start=removed + 1)
    due = [row for _, row in takewhile(lambda one: one[0] == one[1].number, numbered)]
    if due:
        last = about | {"number": due[-1].number}
        await tx.execute(_REMOVE, last)
        await tx.execute(_SET_REMOVED, last | {"hash": due[-1].hash})
    return len(due)
