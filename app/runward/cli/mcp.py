"""`runward mcp`: the MCP servers whose tools models may call."""

from pathlib import Path
from typing import Annotated

import typer

from runward.cli.connection import JsonBody, connected, path
from runward.cli.options import (
    ApprovalArgument,
    AsJson,
    KeyOption,
    Url,
    approval_rule,
    examples,
    read_fields,
)
from runward.cli.printing import ago, print_json, say, waiting
from runward.cli.registry import ResourceKind, add_delete, add_list, add_show

app = typer.Typer(no_args_is_help=True, help="MCP servers whose tools models may call.")

SERVERS = ResourceKind(
    where="mcp_servers",
    word="server",
    columns={
        "server": lambda one: one["name"],
        "where": lambda one: one["url"] or " ".join([one["command"], *one["args"]]),
        "tools": lambda one: str(len(one["tool_names"])),
        "skipped": lambda one: str(len(one["skipped"])),
        "listed": lambda one: ago(one["listed_at"]),
    },
    begin="There are no MCP servers. `runward mcp register` makes one.",
    lost="Its tools go with it.",
)

add_list(app, SERVERS)
add_show(app, SERVERS)


@app.command(
    epilog=examples(
        "runward mcp register crm --to https://crm.example/mcp",
        "runward mcp register -f crm.yaml",
    )
)
def register(
    name: Annotated[str | None, typer.Argument(metavar="SERVER", help="Its name.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="The URL that it is called at.")] = None,
    prefix: Annotated[
        str | None, typer.Option(help="What its tools' names begin with. Default: its name.")
    ] = None,
    approval: ApprovalArgument = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="YAML or JSON: the server's fields.")
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Register a server: it is connected to at once, and its tools are listed."""
    body = read_fields(file, name=name, url=to, prefix=prefix, approval=approval_rule(approval))
    with connected(url, key) as runward, waiting("Connecting …"):
        made = runward.post("/v1/mcp_servers", body)
    _report(made, as_json=as_json)


@app.command()
def refresh(
    name: Annotated[str, SERVERS.argument],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """List the server's tools again."""
    with connected(url, key) as runward, waiting("Connecting …"):
        found = runward.post(path("mcp_servers", name, "refresh"))
    _report(found, as_json=as_json)


add_delete(app, SERVERS)


def _report(server: JsonBody, *, as_json: bool) -> None:
    if as_json:
        print_json(server)
        return
    say(f"{server['name']} has {len(server['tool_names'])} tools.")
    for name in server["tool_names"]:
        say(f"  {name}")
    for one in server["skipped"]:
        say(f"  {one['tool']} is left out: {one['reason']}", "yellow")
