"""`runward mcp`: the MCP servers whose tools models may call."""

from pathlib import Path
from typing import Annotated

import typer

from runward.cli.connection import JsonBody, build_path, connect
from runward.cli.options import (
    ApprovalArgument,
    AsJson,
    KeyOption,
    Url,
    format_examples,
    parse_approval,
    read_fields,
)
from runward.cli.printing import format_age, print_json, print_text, show_spinner
from runward.cli.registry import (
    ResourceKind,
    add_delete_command,
    add_list_command,
    add_show_command,
)

app = typer.Typer(no_args_is_help=True, help="Manage MCP servers.")

SERVERS = ResourceKind(
    path="mcp_servers",
    noun="server",
    columns={
        "server": lambda one: one["name"],
        "where": lambda one: one["url"] or " ".join([one["command"], *one["args"]]),
        "tools": lambda one: str(len(one["tool_names"])),
        "skipped": lambda one: str(len(one["skipped"])),
        "listed": lambda one: format_age(one["listed_at"]),
    },
    empty_text="There are no MCP servers. Register one with `runward mcp register`.",
    delete_warning="The tools of the server are deleted too.",
)

add_list_command(app, SERVERS)
add_show_command(app, SERVERS)


@app.command(
    epilog=format_examples(
        "runward mcp register crm --to https://crm.example/mcp",
        "runward mcp register -f crm.yaml",
    )
)
def register(
    name: Annotated[
        str | None, typer.Argument(metavar="SERVER", help="Name of the server.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="URL of the server.")] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Prefix of the tool names. Default: the name of the server.")
    ] = None,
    approval: ApprovalArgument = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="YAML or JSON file with the fields of the server."),
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Register an MCP server. Runward connects to it and reads its list of tools."""
    body = read_fields(file, name=name, url=to, prefix=prefix, approval=parse_approval(approval))
    with connect(url, key) as runward, show_spinner("Connecting …"):
        made = runward.post("/v1/mcp_servers", body)
    _report_server(made, as_json=as_json)


@app.command()
def refresh(
    name: Annotated[str, SERVERS.argument],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Read the list of tools of an MCP server again, and update the tools."""
    with connect(url, key) as runward, show_spinner("Connecting …"):
        found = runward.post(build_path("mcp_servers", name, "refresh"))
    _report_server(found, as_json=as_json)


add_delete_command(app, SERVERS)


def _report_server(server: JsonBody, *, as_json: bool) -> None:
    if as_json:
        print_json(server)
        return
    print_text(f"{server['name']} has {len(server['tool_names'])} tools.")
    for name in server["tool_names"]:
        print_text(f"  {name}")
    for one in server["skipped"]:
        print_text(f"  {one['tool']} was skipped: {one['reason']}", "yellow")
