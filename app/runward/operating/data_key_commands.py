"""`runward data-keys`: the options of its commands. Each command imports its modules when it
runs."""

from typing import Annotated

import typer

from runward.cli.options import AsJson, format_examples

app = typer.Typer(
    no_args_is_help=True,
    help="Manage the data keys, which encrypt the stored values of the deployment.",
)


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the data keys, with the number of values that each key encrypts.

    Requires DATABASE_URL and RUNWARD_SECRET_KEY, like all commands of this group.
    """
    from runward.operating import data_keys

    data_keys.list_keys(as_json=as_json)


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Create a data key. After a minute, all processes encrypt with it.

    The workers then encrypt all stored values again. `runward data-keys list` shows the progress.
    """
    from runward.operating import data_keys

    data_keys.rotate(as_json=as_json)


@app.command(epilog=format_examples("runward data-keys remove original"))
def remove(
    key_id: Annotated[
        str, typer.Argument(metavar="KEY", help="ID of the key. `data-keys list` shows the IDs.")
    ],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Remove the key without a prompt.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a data key that encrypts no stored value any more.

    This ends the validity of everything that was derived from the key. The command shows what that
    is, and asks for confirmation.
    """
    from runward.operating import data_keys

    data_keys.remove(key_id, yes=yes, as_json=as_json)
