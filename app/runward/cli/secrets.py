"""`runward secrets`: encrypted values that other resources refer to by name."""

import sys
from typing import Annotated

import typer

from runward.cli.connection import build_path, connect
from runward.cli.exits import Exit, fail
from runward.cli.options import AsJson, KeyOption, Url, format_examples, read_stdin
from runward.cli.printing import format_age, print_result
from runward.cli.registry import ResourceKind, add_delete_command, add_list_command

app = typer.Typer(
    no_args_is_help=True,
    help="Manage secrets. Runward stores their values encrypted and never shows them.",
)

SECRETS = ResourceKind(
    path="secrets",
    noun="secret",
    columns={
        "secret": lambda one: one["name"],
        "version": lambda one: str(one["version"]),
        "changed": lambda one: format_age(one["updated_at"]),
    },
    empty_text="There are no secrets. Create one with `runward secrets put`.",
    delete_warning="Tools and servers that use the secret will fail.",
)


@app.command(
    epilog=format_examples(
        "runward secrets put CRM_TOKEN", "runward secrets put CRM_TOKEN < token.txt"
    )
)
def put(
    name: Annotated[str, typer.Argument(metavar="SECRET", help="Name of the secret.")],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a secret, or replace the value of a secret.

    The command prompts for the value, or reads it from standard input without the last line feed.
    The value is never an argument, because other users of the machine can see arguments.
    """
    if sys.stdin.isatty():
        value = str(typer.prompt("Value", hide_input=True, confirmation_prompt=True, err=True))
    else:
        value = read_stdin().removesuffix("\n")
    if not value:
        fail("The value is empty.", Exit.USAGE)
    with connect(url, key) as runward:
        kept = runward.put(build_path("secrets", name), {"value": value})
    print_result(kept, f"{kept['name']} has version {kept['version']}.", as_json=as_json)


add_list_command(app, SECRETS)
add_delete_command(app, SECRETS)
