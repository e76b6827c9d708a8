"""`runward keys --on-database`: manage API keys before a key for the API exists."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from runward.api.registry.key_models import MAX_NAME_LENGTH, Key
from runward.cli.connection import JsonBody
from runward.cli.keys import print_created, print_keys, print_revoked
from runward.domain.ids import Prefix, parse_id
from runward.domain.json import clean_text
from runward.domain.registry.scopes import Scope
from runward.operating.environment import (
    ensure_secret_key,
    read_database_url,
    read_settings,
    run_command,
    stop,
)
from runward.quickstart.local_secrets import load_secret_key
from runward.settings import Settings
from runward.store import migrations, readiness
from runward.store.access import keys
from runward.store.access.vault import Vault
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.secret_keys import open_providers, read_local_key
from runward.store.postgres import embedded
from runward.store.postgres.db import Tx, check_safety, open_database


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
        async with _open_database(read_settings()) as (tx, vault):
            await keys.ensure_default_project(tx)
            if await keys.get_project(tx, _parse_project(project)) is None:
                stop(f"The project {project} does not exist.")
            key = await keys.add_key(
                tx,
                vault,
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
        async with _open_database(read_settings()) as (tx, _):
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
        async with _open_database(read_settings()) as (tx, _):
            if wanted is not None:
                key = await keys.revoke_key(tx, _parse_project(project), wanted)
        if key is None:
            stop(f"The project has no API key with the ID {key_id}.")
        print_revoked(_encode_key(key), as_json=as_json)

    run_command(revoke())


@asynccontextmanager
async def _open_database(settings: Settings) -> AsyncGenerator[tuple[Tx, Vault]]:
    """Open a transaction on the database in DATABASE_URL or on the embedded database. `serve` may
    use the embedded database at the same time."""
    async with AsyncExitStack() as stack:
        if settings.database_url is None:
            data_dir = embedded.resolve_data_dir(settings.data_dir)
            server = await embedded.start(data_dir, report=lambda _: None)
            stack.push_async_callback(server.stop)
            url, secret = server.url, settings.secret_key or load_secret_key(data_dir)
            settings = settings.model_copy(update={"secret_key": secret})
            await migrations.upgrade(url, read_local_key(secret.get_secret_value()))
        else:
            url = read_database_url(ensure_secret_key(settings))
        database = open_database(url, pool_size=1, through_pgbouncer=settings.pgbouncer)
        stack.push_async_callback(database.close)
        await check_safety(database)  # its error explains why the connection fails
        vault = await KeyRing(database, open_providers(settings.list_secret_keys())).open()
        tx = await stack.enter_async_context(database.pool.begin())
        await readiness.prepare_database(tx, vault)
        yield tx, vault


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
