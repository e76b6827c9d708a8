"""`runward keys --on-database`: manage API keys before a key for the API exists."""

from datetime import UTC, datetime, timedelta
from typing import Any

from runward.api.registry.key_models import MAX_NAME_LENGTH, Key
from runward.cli.connection import JsonBody
from runward.cli.keys import print_created, print_keys, print_revoked
from runward.domain.ids import Prefix, parse_id
from runward.domain.json import clean_text
from runward.domain.registry.scopes import Scope
from runward.operating.deployment import open_deployment
from runward.operating.environment import read_settings, run_command, stop
from runward.store.access import keys


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
        key = None
        async with open_deployment(read_settings()) as (database, _), database.pool.begin() as tx:
            if wanted is not None:
                key = await keys.revoke_key(tx, _parse_project(project), wanted)
        if key is None:
            stop(f"The project has no API key with the ID {key_id}.")
        print_revoked(_encode_key(key), as_json=as_json)

    run_command(revoke())


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
