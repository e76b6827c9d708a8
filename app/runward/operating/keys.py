"""`runward keys --on-database`: manage API keys before a key for the API exists."""

from datetime import UTC, datetime, timedelta
from typing import Any

from runward.api.registry.key_models import MAX_NAME_LENGTH, Key
from runward.cli.connection import JsonBody
from runward.cli.keys import print_created, print_keys, print_revoked
from runward.domain.audit import AuditAction
from runward.domain.ids import Prefix, ProjectId, parse_id
from runward.domain.json import clean_text
from runward.domain.registry.scopes import Scope
from runward.operating.deployment import open_deployment
from runward.operating.environment import read_settings, run_command, stop
from runward.store.access import audit, keys
from runward.store.access.audit import OPERATOR, AuditChange
from runward.store.postgres.db import Tx


def create_key(
    *, name: str, scopes: list[str], expires_in_days: float | None, project: str, as_json: bool
) -> None:
    if unknown := set(scopes) - {str(one) for one in Scope}:
        stop(
            f"These scopes do not exist: {', '.join(sorted(unknown))}. The scopes are: "
            f"{', '.join(Scope)}."
        )
    if not 0 < len(name) <= MAX_NAME_LENGTH or clean_text(name) != name:
        stop(f"The name must be UTF-8 text of 1 to {MAX_NAME_LENGTH} characters.")

    async def create() -> None:
        secret = keys.make_secret()
        expires = None
        if expires_in_days is not None:
            expires = datetime.now(UTC) + timedelta(days=expires_in_days)
        async with (
            open_deployment(read_settings()) as (database, ring),
            database.pool.begin() as tx,
        ):
            await keys.ensure_default_project(tx)
            if await keys.get_project(tx, _parse_project(project)) is None:
                stop(f"The project {project} does not exist.")
            key = await keys.add_key(
                tx,
                ring.vault,
                _parse_project(project),
                name=name,
                scopes=tuple(dict.fromkeys(scopes or map(str, Scope))),
                secret=secret,
                expires_at=expires,
            )
            await _record(tx, _parse_project(project), AuditAction.KEY_CREATED, None, key)
        print_created(_encode_key(key) | {"key": secret}, as_json=as_json)

    run_command(create())


def list_keys(*, project: str, limit: int, as_json: bool) -> None:
    """List the keys without their secrets."""

    async def listed() -> None:
        async with open_deployment(read_settings()) as (database, _), database.pool.begin() as tx:
            found = await keys.list_keys(
                tx, _parse_project(project), after=None, limit=limit, descending=True
            )
        print_keys([_encode_key(key) for key in found], as_json=as_json)

    run_command(listed())


def revoke_key(*, key_id: str, project: str, as_json: bool) -> None:
    """Revoke the key. All processes reject it within five seconds."""

    async def revoke() -> None:
        wanted = parse_id(Prefix.KEY, key_id)
        key = former = None
        async with open_deployment(read_settings()) as (database, _), database.pool.begin() as tx:
            if wanted is not None:
                former = await keys.get_key(tx, _parse_project(project), wanted, lock=True)
                key = await keys.revoke_key(tx, _parse_project(project), wanted)
            if key is not None and former is not None and former.revoked_at is None:
                await _record(tx, _parse_project(project), AuditAction.KEY_REVOKED, former, key)
        if key is None:
            stop(f"The project has no API key with the ID {key_id}.")
        print_revoked(_encode_key(key), as_json=as_json)

    run_command(revoke())


async def _record(
    tx: Tx, project_id: ProjectId, action: AuditAction, former: keys.Key | None, key: keys.Key
) -> None:
    """Record the change in the audit log. The actor is the operator, because there is no API
    key."""
    before, shown = former and _encode_key(former), _encode_key(key)
    change = AuditChange(action, shown["id"], before=before, after=shown)
    await audit.append(tx, project_id, OPERATOR, change)


def _encode_key(key: keys.Key) -> JsonBody:
    """Return the key as the API shows it."""
    return Key.from_row(key).model_dump(mode="json")


def _parse_project(shown: str) -> Any:
    if shown == "default":
        return keys.DEFAULT_PROJECT
    project = parse_id(Prefix.PROJECT, shown)
    if project is None:
        stop(f"'{shown}' is not the ID of a project.")
    return project
