"""`runward tools`: list, show, register, update, test, calls, delete."""

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from runward.cli.connection import JsonBody, build_path, connect
from runward.cli.exits import Exit, fail
from runward.cli.options import (
    ApprovalArgument,
    AsJson,
    KeyOption,
    Limit,
    Url,
    format_examples,
    parse_approval,
    read_fields,
    read_object,
)
from runward.cli.printing import (
    Columns,
    format_age,
    format_short,
    format_value,
    print_fields,
    print_json,
    print_list,
    print_result,
    print_text,
    show_spinner,
)
from runward.cli.registry import (
    ResourceKind,
    add_delete_command,
    add_list_command,
    add_show_command,
)

app = typer.Typer(no_args_is_help=True, help="Manage tools.")


def _format_approval(tool: JsonBody) -> str:
    rule: JsonBody | str = tool["approval"]
    return rule.get("when") or format_short(rule) if isinstance(rule, dict) else rule


TOOLS = ResourceKind(
    path="tools",
    noun="tool",
    columns={
        "tool": lambda one: one["name"],
        "type": lambda one: one["type"],
        "version": lambda one: str(one["version"]),
        "approval": _format_approval,
        "url": lambda one: one.get("url") or "",
        "description": lambda one: one.get("description", ""),
    },
    empty_text="There are no tools. Register one with `runward tools register`.",
)

CALLS: Final[Columns] = {
    "run": lambda one: one["run_id"],
    "call": lambda one: one["call_id"],
    "outcome": lambda one: one["outcome"] or one["phase"],
    "attempt": lambda one: str(one["attempt"]),
    "ms": lambda one: "" if one["duration_ms"] is None else f"{one['duration_ms']:.0f}",
    "requested": lambda one: format_age(one["created_at"]),
    "error": lambda one: (
        f"{one['error']['code']}: {one['error']['message']}" if one["error"] else ""
    ),
}

To: TypeAlias = Annotated[str | None, typer.Option("--to", help="URL of the tool.")]
Description: TypeAlias = Annotated[
    str | None, typer.Option(help="Description of the tool for models.")
]
Parameters: TypeAlias = Annotated[
    str | None, typer.Option(help="JSON Schema of the arguments, as JSON or @FILE.")
]
Fields: TypeAlias = Annotated[
    Path | None, typer.Option("--file", "-f", help="YAML or JSON file with the fields of the tool.")
]

add_list_command(app, TOOLS)
add_show_command(app, TOOLS)


@app.command(
    epilog=format_examples(
        "runward tools register pay --to https://shop.example/pay --approval 'args.amount > 100' "
        "--parameters @pay.schema.json",
        "runward tools register -f pay.yaml",
    )
)
def register(
    name: Annotated[str | None, typer.Argument(metavar="TOOL", help="Name of the tool.")] = None,
    to: To = None,
    description: Description = None,
    parameters: Parameters = None,
    approval: ApprovalArgument = None,
    file: Fields = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Register a tool and print its signing secret. The secret is not shown again."""
    body = _build_body(file, to, description, parameters, approval)
    if name is not None:
        body["name"] = name
    if "name" not in body:
        fail("Set the name of the tool, as an argument or in the file of --file.", Exit.USAGE)
    with connect(url, key) as runward:
        made = runward.post("/v1/tools", body)
    if as_json:
        print_json(made)
        return
    print_text(f"{made['name']} was registered with version {made['version']}.")
    print_text(f"secret  {made['secret']}")
    typer.echo("Runward signs requests with this secret. The secret is not shown again.", err=True)


@app.command()
def update(
    name: Annotated[str, TOOLS.argument],
    to: To = None,
    description: Description = None,
    parameters: Parameters = None,
    approval: ApprovalArgument = None,
    file: Fields = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Update the given fields of a tool. Other fields do not change."""
    body = _build_body(file, to, description, parameters, approval)
    if not body:
        fail("Set the fields to update, with options or with --file.", Exit.USAGE)
    with connect(url, key) as runward:
        updated = runward.patch(build_path("tools", name), body)
    print_result(updated, f"{updated['name']} has version {updated['version']}.", as_json=as_json)


@app.command(epilog=format_examples("""runward tools test lookup_order '{"order": "A-1017"}'"""))
def test(
    name: Annotated[str, TOOLS.argument],
    arguments: Annotated[
        str, typer.Argument(metavar="ARGUMENTS", help="Arguments of the call, as JSON or @FILE.")
    ] = "{}",
    context: Annotated[
        str | None,
        typer.Option(help="Context for the tool: a JSON object or @FILE."),
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool once, outside of any run. The exit code is 1 if the call fails."""
    body: JsonBody = {"arguments": read_object(arguments, "The arguments")}
    if context is not None:
        body["context"] = read_object(context, "--context")
    with connect(url, key) as runward, show_spinner("Calling …"):
        tried = runward.post(build_path("tools", name, "test"), body)
    if as_json:
        print_json(tried)
    else:
        print_fields(
            [
                ("outcome", tried["outcome"]),
                ("status", format_value(tried.get("status"))),
                ("seconds", f"{tried['seconds']:.3f}"),
                ("detail", tried.get("detail") or ""),
                ("output", format_value(tried.get("output"))),
            ]
        )
    if tried["outcome"] == "failed":
        raise typer.Exit(int(Exit.FAILED))


@app.command("calls")
def list_calls(
    name: Annotated[str, TOOLS.argument],
    limit: Limit = 20,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """List the calls of a tool in all runs, newest first, with durations and errors."""
    with connect(url, key) as runward:
        found = runward.list_all(build_path("tools", name, "calls"), limit)
    print_list(found, CALLS, empty_text="This tool has not been called yet.", as_json=as_json)


add_delete_command(app, TOOLS)


def _build_body(
    file: Path | None,
    to: str | None,
    description: str | None,
    parameters: str | None,
    approval: str | None,
) -> JsonBody:
    return read_fields(
        file,
        url=to,
        description=description,
        parameters=read_object(parameters, "--parameters") if parameters else None,
        approval=parse_approval(approval),
    )
