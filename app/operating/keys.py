"""`runward keys --on-database`: an API key where there is none yet to ask the API with."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import typer

from app.domain.ids import Prefix, parse, show
from app.domain.scopes import Scope
from app.first_minute.kept import secret_key_of
from app.operating.environment import database_url, read_settings, run, shared, stop
from app.settings import Settings
from app.store import embedded, keys, migrations
from app.store.db import Tx, open_database
from app.store.vault import Vault

MAX_LISTED: Final = 1000


def create_key(
    *, name: str, scopes: list[str], expires_in_days: float | None, project: str
) -> None:
    """Prints the key's id and its secret."""
    if unknown := set(scopes) - {str(one) for one in Scope}:
        stop(f"There is no scope {', '.join(sorted(unknown))}. Scopes: {', '.join(Scope)}.")

    async def create() -> None:
        secret = keys.new_secret()
        expires = None
        if expires_in_days is not None:
            expires = datetime.now(UTC) + timedelta(days=expires_in_days)
        async with _administration(read_settings()) as (tx, vault):
            await keys.ensure_default_project(tx)
            if await keys.get_project(tx, _project(project)) is None:
                stop(f"There is no project {project}.")
            key = await keys.add_key(
                tx,
                vault,
                _project(project),
                name=name,
                scopes=tuple(scopes or (str(one) for one in Scope)),
                secret=secret,
                expires_at=expires,
            )
        typer.echo(f"{show(Prefix.KEY, key.id)}  {secret}")

    run(create())


def list_keys(*, project: str) -> None:
    """Without their secrets."""

    async def listed() -> None:
        async with _administration(read_settings()) as (tx, _):
            found = await keys.list_keys(
                tx, _project(project), after=None, limit=MAX_LISTED, descending=False
            )
        for key in found:
            state = "revoked" if key.revoked_at else "active"
            typer.echo(f"{show(Prefix.KEY, key.id)}  {state:8} {key.name}  {' '.join(key.scopes)}")

    run(listed())


def revoke_key(*, key_id: str, project: str) -> None:
    """It stops working within five seconds, everywhere."""

    async def revoke() -> None:
        wanted = parse(Prefix.KEY, key_id)
        key = None
        async with _administration(read_settings()) as (tx, _):
            if wanted is not None:
                key = await keys.revoke_key(tx, _project(project), wanted)
        if key is None:
            stop(f"There is no key {key_id} in that project.")
        typer.echo(f"{key_id} is revoked.")

    run(revoke())


@asynccontextmanager
async def _administration(settings: Settings) -> AsyncGenerator[tuple[Tx, Vault]]:
    """A transaction on the database that `serve`, or DATABASE_URL, would use. The embedded one may
    be in use by `serve` at the same time."""
    async with AsyncExitStack() as stack:
        if settings.database_url is None:
            data_dir = settings.data_dir or embedded.default_data_dir()
            server = await embedded.start(data_dir, say=lambda _: None)
            stack.push_async_callback(server.stop)
            await migrations.upgrade(server.url)
            url, secret = server.url, settings.secret_key or secret_key_of(data_dir)
        else:
            url, secret = database_url(settings), shared(settings).secret_key
        assert secret is not None
        database = open_database(url, pool_size=1)
        stack.push_async_callback(database.close)
        tx = await stack.enter_async_context(database.pool.begin())
        yield tx, Vault(secret.get_secret_value())


def _project(shown: str) -> Any:
    if shown == "default":
        return keys.DEFAULT_PROJECT
    project = parse(Prefix.PROJECT, shown)
    if project is None:
        stop(f"'{shown}' is not a project's id.")
    return project
