"""The commands of Runward. `python -m app --help` explains them."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import structlog
import structlog.tracebacks
import typer
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from app.domain.ids import Prefix, parse, show
from app.domain.scopes import Scope
from app.first_minute.kept import secret_key_of
from app.settings import Settings
from app.store import embedded, keys, migrations
from app.store.db import Tx, UnsafeDatabaseError, is_outage, open_database
from app.store.embedded_home import EmbeddedError
from app.store.vault import Vault
from app.tools.context import PluginError

MAX_LISTED: Final = 1000

app = typer.Typer(
    name="runward",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Runward runs LLM agents durably, with people in the loop.\n\n"
    "For one machine: `serve`. For production: `migrate` once, then any number of `api` and "
    "`worker` processes against one PostgreSQL. Settings are environment variables; "
    "docs/deploying.md lists them.",
)
keys_app = typer.Typer(no_args_is_help=True, help="API keys of a project.")
app.add_typer(keys_app, name="keys")


@app.command()
def serve(
    examples: Annotated[
        bool, typer.Option(help="Register the tools of examples/, for a first try.")
    ] = True,
) -> None:
    """Run the API and a worker in one process.

    Without DATABASE_URL it starts the embedded PostgreSQL, migrates it, and makes a key and the
    example tools: everything for a first run. With DATABASE_URL it migrates that database.
    """
    from app.first_minute import serve_everything  # noqa: PLC0415  # slow, and only needed here

    _run(serve_everything(_settings(), examples=examples))


@app.command()
def api() -> None:
    """Run the API alone. Needs DATABASE_URL and RUNWARD_SECRET_KEY; start workers beside it."""
    from app.serve import run_process  # noqa: PLC0415  # slow, and only needed here

    settings = _shared(_settings())
    _run(run_process(settings, _database_url(settings), serves=True, works=False))


@app.command()
def worker() -> None:
    """Run a worker alone. Needs DATABASE_URL and RUNWARD_SECRET_KEY. Start as many as you like."""
    from app.serve import run_process  # noqa: PLC0415  # slow, and only needed here

    settings = _shared(_settings())
    _run(run_process(settings, _database_url(settings), serves=False, works=True))


@app.command()
def migrate() -> None:
    """Bring the database of DATABASE_URL to this version's schema. Safe to run again, and from
    several places at once; the version before this one goes on working meanwhile."""
    url = _database_url(_settings())
    _run(migrations.upgrade(url))
    typer.echo("The database is up to date.")


@app.command()
def models() -> None:
    """What models of each vendor can be told, as a table."""
    from app.llm.table import table  # noqa: PLC0415  # slow, and only needed here

    typer.echo(table())


@app.command()
def openapi(
    write: Annotated[bool, typer.Option("--write", help="Write openapi/openapi.json.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Fail if openapi/openapi.json is not up to date.")
    ] = False,
) -> None:
    """Print the API's contract (OpenAPI 3.1)."""
    from app.api.routers import contract  # noqa: PLC0415  # slow, and only needed here

    text = json.dumps(contract(), indent=2, ensure_ascii=False) + "\n"
    path = Path("openapi/openapi.json")
    if write:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif check:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            typer.echo(f"{path} is not what the code says. Run: make openapi", err=True)
            raise typer.Exit(1)
    else:
        typer.echo(text, nl=False)


@keys_app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Annotated[
        list[Scope] | None, typer.Option(help="What it may do; repeat it. Default: everything.")
    ] = None,
    project: Annotated[str, typer.Option(help="A project's id.")] = "default",
    expires_in_days: Annotated[
        float | None, typer.Option(help="When it stops working. Default: never.")
    ] = None,
) -> None:
    """Make an API key and print it. It is shown this once."""

    async def create() -> None:
        secret = keys.new_secret()
        expires = None
        if expires_in_days is not None:
            expires = datetime.now(UTC) + timedelta(days=expires_in_days)
        async with _administration(_settings()) as (tx, vault):
            await keys.ensure_default_project(tx)
            if await keys.get_project(tx, _project(project)) is None:
                _stop(f"There is no project {project}.")
            key = await keys.add_key(
                tx,
                vault,
                _project(project),
                name=name,
                scopes=tuple(str(one) for one in scope or Scope),
                secret=secret,
                expires_at=expires,
            )
        typer.echo(f"{show(Prefix.KEY, key.id)}  {secret}")

    _run(create())


@keys_app.command("list")
def list_keys(
    project: Annotated[str, typer.Option(help="A project's id.")] = "default",
) -> None:
    """List a project's keys, without their secrets."""

    async def listed() -> None:
        async with _administration(_settings()) as (tx, _):
            found = await keys.list_keys(
                tx, _project(project), after=None, limit=MAX_LISTED, descending=False
            )
        for key in found:
            state = "revoked" if key.revoked_at else "active"
            typer.echo(f"{show(Prefix.KEY, key.id)}  {state:8} {key.name}  {' '.join(key.scopes)}")

    _run(listed())


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="key_…, as `keys list` shows it.")],
    project: Annotated[str, typer.Option(help="A project's id.")] = "default",
) -> None:
    """Revoke a key. It stops working within five seconds, everywhere."""

    async def revoke() -> None:
        wanted = parse(Prefix.KEY, key_id)
        key = None
        async with _administration(_settings()) as (tx, _):
            if wanted is not None:
                key = await keys.revoke_key(tx, _project(project), wanted)
        if key is None:
            _stop(f"There is no key {key_id} in that project.")
        typer.echo(f"{key_id} is revoked.")

    _run(revoke())


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
            url, secret = _database_url(settings), _shared(settings).secret_key
        assert secret is not None
        database = open_database(url, pool_size=1)
        stack.push_async_callback(database.close)
        tx = await stack.enter_async_context(database.pool.begin())
        yield tx, Vault(secret.get_secret_value())


def _settings() -> Settings:
    try:
        settings = Settings()  # pyright: ignore[reportCallIssue]  # from the environment
    except ValidationError as error:
        lines = [f"  {_variable(str(one['loc'][0]))}: {one['msg']}" for one in error.errors()]
        _stop("The environment is not valid:\n" + "\n".join(lines))
    configure_logging(settings)
    return settings


def _variable(field: str) -> str:
    return field if field.isupper() else f"RUNWARD_{field.upper()}"


def _shared(settings: Settings) -> Settings:
    """Where several processes share a database they must share the secret key too."""
    if settings.secret_key is None:
        _stop(
            "RUNWARD_SECRET_KEY is missing: 32 characters or more, the same for every process.\n"
            "Make one with: openssl rand -hex 32"
        )
    return settings


def _database_url(settings: Settings) -> str:
    if settings.database_url is None:
        _stop("DATABASE_URL is missing, e.g. postgresql://user:password@host:5432/runward")
    return settings.database_url.get_secret_value()


def _project(shown: str) -> Any:
    if shown == "default":
        return keys.DEFAULT_PROJECT
    project = parse(Prefix.PROJECT, shown)
    if project is None:
        _stop(f"'{shown}' is not a project's id.")
    return project


def _stop(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """uvloop where there is one; expected failures in a sentence instead of a traceback."""
    import uvloop  # noqa: PLC0415  # slow, and not for --help

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)
    except (UnsafeDatabaseError, EmbeddedError, PluginError) as error:
        _stop(str(error))
    except ConnectionRefusedError as error:
        _stop(f"The database cannot be reached: {error}")
    except DBAPIError as error:
        if not is_outage(error):
            raise
        _stop(f"The database is not available: {error.orig}")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def configure_logging(settings: Settings) -> None:
    """Events with fields, to standard error: text on a terminal, JSON elsewhere."""
    levels = {"debug": 10, "info": 20, "warning": 30, "error": 40}
    level = levels.get(settings.log_level.lower())
    if level is None:
        _stop(f"RUNWARD_LOG_LEVEL must be one of: {', '.join(levels)}.")
    text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(text=text),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def _renderers(*, text: bool) -> list[Any]:
    """Tracebacks without local variables: those hold keys, prompts and arguments."""
    if text:
        plain = structlog.dev.plain_traceback
        return [
            structlog.dev.set_exc_info,
            structlog.dev.ConsoleRenderer(exception_formatter=plain),
        ]
    frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [structlog.processors.ExceptionRenderer(frames), structlog.processors.JSONRenderer()]


def main() -> None:
    app()


if __name__ == "__main__":
    main()
