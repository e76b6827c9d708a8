"""`runward secrets`: values that other things refer to by name."""

import sys
from typing import Annotated

import typer

from runward.cli.connection import build_path, connect
from runward.cli.exits import Exit, fail
from runward.cli.options import AsJson, KeyOption, Url, format_examples, read_stdin
from runward.cli.printing import format_age, print_result
from runward.cli.registry import ResourceKind, add_delete_command, add_list_command

app = typer.Typer(no_args_is_help=True, help="Values that are stored encrypted, and never shown.")

SECRETS = ResourceKind(
    path="secrets",
    noun="secret",
    columns={
        "secret": lambda one: one["name"],
        "version": lambda one: str(one["version"]),
        "changed": lambda one: format_age(one["updated_at"]),
    },
    empty_text="There are no secrets. `runward secrets put` stores one.",
    delete_warning="What refers to it fails from then on.",
)


@app.command(
    epilog=format_examples(
        "runward secrets put CRM_TOKEN", "runward secrets put CRM_TOKEN < token.txt"
    )
)
def put(
    name: Annotated[str, typer.Argument(metavar="SECRET", help="What it is referred to by.")],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Store a value, or give a secret another one.

    It is asked for, or read from standard input, where one line feed at the end is left out. It is
    never an argument: those are seen by everybody on the machine.
    """
    if sys.stdin.isatty():
        value = str(typer.prompt("Value", hide_input=True, confirmation_prompt=True, err=True))
    else:
        value = read_stdin().removesuffix("\n")
    if not value:
        fail("The value is empty.", Exit.USAGE)
    with connect(url, key) as runward:
        kept = runward.put(build_path("secrets", name), {"value": value})
    print_result(kept, f"{kept['name']} is at version {kept['version']}.", as_json=as_json)


add_list_command(app, SECRETS)
add_delete_command(app, SECRETS)
