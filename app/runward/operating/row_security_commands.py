"""`runward row-level-security`. The commands import their modules when they run."""

import typer

from runward.cli.options import AsJson
from runward.cli.printing import print_result

app = typer.Typer(
    no_args_is_help=True,
    help="Make PostgreSQL separate the projects, in addition to the queries of Runward.",
)


@app.command()
def enable(as_json: AsJson = False) -> None:
    """Add a policy to each table with rows of projects, and force the policies.

    DATABASE_URL must contain the owner of the tables. Running processes continue to work. Restart
    them, so that each connection is restricted to the project for which it is used.
    """
    _set(enabled=True, as_json=as_json)


@app.command()
def disable(as_json: AsJson = False) -> None:
    """Remove the policies.

    DATABASE_URL must contain the owner of the tables. No process must be restarted.
    """
    _set(enabled=False, as_json=as_json)


def _set(*, enabled: bool, as_json: bool) -> None:
    from runward.operating.environment import read_migration_url, read_settings, run_command
    from runward.store import migrations

    run_command(migrations.set_row_security(read_migration_url(read_settings()), enabled=enabled))
    text = "Row-level security is disabled."
    if enabled:
        text = "Row-level security is enabled. Restart all processes."
    print_result({"enabled": enabled}, text, as_json=as_json)
