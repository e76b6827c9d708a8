"""`runward mcp`: the MCP servers whose tools models may call."""

import os
import sys
import webbrowser
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import Annotated, Final

import typer

from runward.cli.connection import JsonBody, Runward, build_path, connect
from runward.cli.escaping import escape_text
from runward.cli.exits import Exit, fail
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

POLL_SECONDS: Final = 1.0
DISPLAYS: Final = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""Environment variables of which one is set if this machine can show a browser. On macOS and
Windows, no variable is necessary."""


def get_oauth(server: JsonBody) -> JsonBody:
    return server["oauth"] or {}


def describe_login(server: JsonBody) -> str:
    status: str | None = get_oauth(server).get("login_status")
    return "-" if status is None else status.replace("_", " ")


SERVERS = ResourceKind(
    path="mcp_servers",
    noun="server",
    columns={
        "server": lambda one: one["name"],
        "where": lambda one: one["url"] or " ".join([one["command"], *one["args"]]),
        "tools": lambda one: str(len(one["tool_names"])),
        "skipped": lambda one: str(len(one["skipped"])),
        "login": describe_login,
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
    login: Annotated[
        bool, typer.Option("--login", help="A person logs in with `runward mcp login`.")
    ] = False,
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
    if login:
        body["oauth"] = {"grant_type": "authorization_code", **get_oauth({"oauth": None, **body})}
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


@app.command(
    epilog=format_examples(
        "runward mcp login notes", 'runward mcp login notes --scope "notes:write"'
    )
)
def login(
    name: Annotated[str, SERVERS.argument],
    scope: Annotated[
        str | None, typer.Option(help="Additional scopes to request, separated by spaces.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the login page in a browser.")
    ] = True,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Log in to an MCP server in a browser, and wait for the result."""
    path = build_path("mcp_servers", name)
    with connect(url, key) as runward:
        before = runward.get(path)
        ensure_has_login(before)
        with show_spinner("Looking for the login page …"):
            started = runward.post(f"{path}/login", {"scope": scope} if scope else None)
        typer.echo(escape_text(f"Log in on this page:\n\n  {started['url']}\n"), err=True)
        if browser:
            open_page(started["url"])
        with show_spinner("Waiting for the login …"):
            after = wait_for_login(runward, path, before, started["expires_at"])
    _report_server(after, as_json=as_json)


@app.command()
def logout(
    name: Annotated[str, SERVERS.argument],
    url: Url = None,
    key: KeyOption = None,
) -> None:
    """Delete the tokens of a login to an MCP server. Its tools stay registered."""
    with connect(url, key) as runward:
        runward.delete(f"{build_path('mcp_servers', name)}/login")
    print_text(f"Logged out of {name}. Calls of its tools fail until a person logs in again.")


add_delete_command(app, SERVERS)


def ensure_has_login(server: JsonBody) -> None:
    """End the command if people cannot log in to the server."""
    if get_oauth(server).get("grant_type") != "authorization_code":
        fail(
            f"People cannot log in to {server['name']}, because its `oauth.grant_type` is not "
            "authorization_code. To change it, send PATCH "
            f"/v1/mcp_servers/{server['name']} with "
            '{"oauth": {"grant_type": "authorization_code"}}.',
            Exit.USAGE,
        )


def open_page(url: str) -> None:
    """Open a page in the browser of this machine, if there is one."""
    shown = sys.platform in {"darwin", "win32"} or any(map(os.environ.get, DISPLAYS))
    if shown and url.startswith(("https://", "http://")):
        with suppress(webbrowser.Error):
            webbrowser.open(url)


def wait_for_login(runward: Runward, path: str, before: JsonBody, expires_at: str) -> JsonBody:
    """Return the server after the login. End the command if the login fails or its page expires."""
    end = datetime.fromisoformat(expires_at)
    while True:
        server = runward.get(path)
        oauth = get_oauth(server)
        if oauth.get("login_error"):
            fail(
                f"The login failed: {oauth['login_error']}\n"
                f"To try again, run: runward mcp login {server['name']}",
                Exit.FAILED,
            )
        if oauth.get("logged_in_at") not in (None, get_oauth(before).get("logged_in_at")):
            return server
        if datetime.now(UTC) >= end:
            fail(
                "The login page has expired. To open a new one, run: "
                f"runward mcp login {server['name']}",
                Exit.FAILED,
            )
        sleep(POLL_SECONDS)


def _report_server(server: JsonBody, *, as_json: bool) -> None:
    if as_json:
        print_json(server)
        return
    if describe_login(server) in {"required", "pending", "expired"}:
        print_text(f"To log in to {server['name']}, run: runward mcp login {server['name']}")
        return
    print_text(f"{server['name']} has {len(server['tool_names'])} tools.")
    for name in server["tool_names"]:
        print_text(f"  {name}")
    for one in server["skipped"]:
        print_text(f"  {one['tool']} was skipped: {one['reason']}", "yellow")
