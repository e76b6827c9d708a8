"""The commands of Runward. `runward --help` explains them.

Each command imports its modules when it runs, so that the commands for a running service start
fast."""

import errno
import gc
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from runward.cli import keys
from runward.cli import retention as data_retention
from runward.cli import workers as worker_list
from runward.cli.exits import Exit, fail
from runward.cli.groups import GROUPS, join_lines
from runward.cli.options import AsJson, KeyOption, Limit, Url, format_examples
from runward.cli.printing import print_result
from runward.operating import audit_command, data_key_commands, row_security_commands

app = typer.Typer(
    name="runward",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=format_examples(
        "runward demo",
        "runward serve",
        "runward runs start 'Hello' --model offline:rules --watch",
        "runward approvals decide",
    ),
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001
    if wanted:
        from runward.version import VERSION

        typer.echo(f"runward {VERSION}")
        raise typer.Exit


@app.callback()
def runward(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Run LLM agents durably, with people in the loop.

    `demo` shows how Runward works. Use `serve` on one machine. In production, run `migrate` once,
    then any number of `api` and `worker` processes on one PostgreSQL. Environment variables
    configure Runward: see docs/reference/configuration.md. docs/reference/cli.md lists the commands
    and their exit codes.
    """


keys_app = typer.Typer(no_args_is_help=True, help="Manage the API keys of a project.")
MAX_DAYS = 36500
CLIENT_PANEL = "Commands for a running service"
SERVICE_PANEL = "Commands for operators"
for name, group in (GROUPS | {"keys": keys_app, "audit": audit_command.app}).items():
    app.add_typer(group, name=name, rich_help_panel=CLIENT_PANEL)

app.add_typer(data_key_commands.app, name="data-keys", rich_help_panel=SERVICE_PANEL)
app.add_typer(row_security_commands.app, name="row-level-security", rich_help_panel=SERVICE_PANEL)
OnDatabase = Annotated[
    bool,
    typer.Option(
        "--on-database",
        help="Use the database in DATABASE_URL or the embedded database directly. No API key is "
        "needed.",
    ),
]


@app.command(rich_help_panel=SERVICE_PANEL)
def demo(
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Approve the call without a prompt. This is the default if there is no terminal.",
        ),
    ] = False,
) -> None:
    """Show a first run in this terminal. The demo needs no setup and leaves no data."""
    from runward.operating.demo import run_demo

    run_demo(yes=yes)


@app.command(rich_help_panel=SERVICE_PANEL)
def serve(
    examples: Annotated[bool, typer.Option(help="Register the example tools in examples/.")] = True,
) -> None:
    """Run the API and a worker in one process.

    Without DATABASE_URL, the command starts and migrates the embedded PostgreSQL, creates an API
    key and registers the example tools. With DATABASE_URL, it only migrates that database.
    """
    from runward.operating.environment import read_settings, run_command
    from runward.quickstart.main import serve_everything

    run_command(serve_everything(read_settings(), examples=examples))


@app.command(rich_help_panel=SERVICE_PANEL)
def doctor(
    url: Url = None,
    key: KeyOption = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a ZIP file for a bug report: findings, versions, settings without "
            "secrets, metrics and sizes, and no content of runs.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the configuration of this machine. The exit code is 1 if a check fails.

    Run this command with the same environment variables as `serve`, `api` or `worker`.
    """
    from runward.operating.doctor import run_doctor

    run_doctor(url, key, as_json=as_json, bundle_path=bundle)


@app.command(rich_help_panel=SERVICE_PANEL)
def api() -> None:
    """Run the API without a worker. Run workers as separate processes.

    Requires DATABASE_URL and RUNWARD_SECRET_KEY.
    """
    _run_process(serves=True, works=False)


@app.command(rich_help_panel=SERVICE_PANEL)
def worker() -> None:
    """Run one worker. You can start any number of workers.

    Requires DATABASE_URL and RUNWARD_SECRET_KEY.
    """
    _run_process(serves=False, works=True)


def _run_process(*, serves: bool, works: bool) -> None:
    from runward.operating.environment import (
        ensure_secret_key,
        read_database_url,
        read_settings,
        run_command,
    )
    from runward.serve import run_process

    settings = ensure_secret_key(read_settings())
    run_command(
        run_process(settings, read_database_url(settings), with_api=serves, with_worker=works)
    )


@app.command(rich_help_panel=SERVICE_PANEL)
def migrate(as_json: AsJson = False) -> None:
    """Migrate the database in DATABASE_URL to the schema of this version.

    You can run this command again, and several times at once. Processes of the previous version
    continue to work during the migration.
    """
    from runward.operating.environment import read_migration_url, read_settings, run_command
    from runward.store import migrations

    settings = read_settings()
    key = settings.secret_key
    url, variable = read_migration_url(settings), "DATABASE_URL"
    if settings.pgbouncer:
        variable = "RUNWARD_LISTEN_URL"
    secret = key.get_secret_value() if key else None
    run_command(migrations.upgrade(url, secret, variable=variable))
    print_result({"up_to_date": True}, "The database is up to date.", as_json=as_json)


@app.command(rich_help_panel=CLIENT_PANEL)
def workers(
    limit: Limit = 1000, url: Url = None, key: KeyOption = None, as_json: AsJson = False
) -> None:
    """List the workers of the deployment, with the numbers of runs that they execute.

    The API key must belong to the project `default` and have the scope `admin`. A worker sends a
    heartbeat every 10 seconds. If the last one is older than 30 seconds, the worker was lost or
    cannot reach the database.
    """
    worker_list.list_workers(url, key, limit=limit, as_json=as_json)


@app.command(rich_help_panel=CLIENT_PANEL)
def retention(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the rows that would be removed now.")
    ] = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Show for how many days each class of data of the project is kept.

    The API key must have the scope `admin`. The command changes nothing.
    """
    data_retention.show_retention(url, key, dry_run=dry_run, as_json=as_json)


@app.command(rich_help_panel=SERVICE_PANEL)
def models(as_json: AsJson = False) -> None:
    """List the features that each model provider supports."""
    from runward.llm.capabilities import capabilities_by_provider, capability_table

    print_result(capabilities_by_provider(), capability_table(), as_json=as_json)


@app.command(rich_help_panel=SERVICE_PANEL)
def openapi(
    write: Annotated[bool, typer.Option("--write", help="Write openapi/openapi.json.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Fail if openapi/openapi.json is not up to date.")
    ] = False,
) -> None:
    """Print the OpenAPI 3.1 document of the API."""
    from runward.api.routers import build_openapi

    text = json.dumps(build_openapi(), indent=2, ensure_ascii=False) + "\n"
    path = Path("openapi/openapi.json")
    if write:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif check:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            typer.echo(f"{path} is not up to date. Run: make openapi", err=True)
            raise typer.Exit(1)
    else:
        typer.echo(text, nl=False)


def _check_days(days: float | None) -> float | None:
    """Check the value here, because the limits of an option accept NaN."""
    if days is not None and not 0 < days <= MAX_DAYS:
        raise typer.BadParameter(f"must be more than 0 and at most {MAX_DAYS} days")
    return days


@keys_app.command(
    "create",
    epilog=format_examples(
        "runward keys create ci --scope runs:read --scope runs:write --expires-in-days 90",
        "RUNWARD_KEY=$(runward keys create first --on-database)",
    ),
)
def create_key(
    name: Annotated[str, typer.Argument(help="Name of the key.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Scope of the key. Repeat the option for more scopes. "
                "docs/reference/keys-and-scopes.md lists the scopes."
            )
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="ID of another project. Requires an API key of the operator.")
    ] = None,
    expires_in_days: Annotated[
        float | None,
        typer.Option(
            callback=_check_days,
            help="Number of days until the key expires. By default, the key never expires.",
        ),
    ] = None,
    on_database: OnDatabase = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and print it. The key is not shown again.

    Set at least one --scope. With --on-database, a key without --scope gets every scope.
    """
    if on_database:
        from runward.operating import keys as on_the_database

        on_the_database.create_key(
            name=name,
            scopes=scope or [],
            expires_in_days=expires_in_days,
            project=project or "default",
            as_json=as_json,
        )
        return
    if not scope:
        fail("Set at least one scope of the key, for example --scope runs:read.", Exit.USAGE)
    keys.create_key(
        url,
        key,
        name=name,
        scopes=scope,
        expires_in_days=expires_in_days,
        project=project,
        as_json=as_json,
    )


@keys_app.command("list")
def list_keys(
    limit: Limit = 1000,
    project: Annotated[
        str | None, typer.Option(help="Name or ID of the project. Only with --on-database.")
    ] = None,
    on_database: OnDatabase = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """List the API keys of the project, without their secrets."""
    if on_database:
        from runward.operating import keys as on_the_database

        on_the_database.list_keys(project=project or "default", limit=limit, as_json=as_json)
        return
    _refuse_project(project)
    keys.list_keys(url, key, limit=limit, as_json=as_json)


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[
        str, typer.Argument(help="ID of the key (key_…). `keys list` shows the IDs.")
    ],
    project: Annotated[
        str | None, typer.Option(help="Name or ID of the project. Only with --on-database.")
    ] = None,
    on_database: OnDatabase = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Revoke an API key. All processes reject the key within five seconds."""
    if on_database:
        from runward.operating import keys as on_the_database

        on_the_database.revoke_key(key_id=key_id, project=project or "default", as_json=as_json)
        return
    _refuse_project(project)
    keys.revoke_key(url, key, key_id=key_id, as_json=as_json)


def _refuse_project(project: str | None) -> None:
    if project is not None:
        fail(
            "--project requires --on-database. Without it, the command uses the "
            "project of the API key.",
            Exit.USAGE,
        )


def main() -> None:
    join_lines(app)
    # Imports create 300,000 objects and hardly any garbage. Collecting it takes a fifth of the time
    # that a service needs to start.
    gc.set_threshold(1_000_000)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries again
        typer.echo(f"Cannot write {error.filename or 'the output'}: {error.strerror}.", err=True)
        sys.exit(int(Exit.FAILED))


if __name__ == "__main__":
    main()
