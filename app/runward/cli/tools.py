"""`runward tools`: list, show, register, change, test, calls, delete."""

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from runward.cli.connection import JsonBody, connected, path
from runward.cli.exits import Exit, fail
from runward.cli.options import (
    ApprovalArgument,
    AsJson,
    KeyOption,
    Limit,
    Url,
    approval_rule,
    examples,
    read_fields,
    read_object,
)
from runward.cli.printing import (
    Columns,
    ago,
    format_value,
    print_fields,
    print_json,
    print_list,
    report,
    say,
    short,
    waiting,
)
from runward.cli.registry import ResourceKind, add_delete, add_list, add_show

app = typer.Typer(no_args_is_help=True, help="The tools that models may call.")


def _rule(tool: JsonBody) -> str:
    rule: JsonBody | str = tool["approval"]
    return rule.get("when") or short(rule) if isinstance(rule, dict) else rule


TOOLS = ResourceKind(
    where="tools",
    word="tool",
    columns={
        "tool": lambda one: one["name"],
        "type": lambda one: one["type"],
        "version": lambda one: str(one["version"]),
        "approval": _rule,
        "url": lambda one: one.get("url") or "",
        "description": lambda one: one.get("description", ""),
    },
    begin="There are no tools. `runward tools register` makes one.",
)

CALLS: Final[Columns] = {
    "run": lambda one: one["run_id"],
    "call": lambda one: one["call_id"],
    "outcome": lambda one: one["outcome"] or one["phase"],
    "attempt": lambda one: str(one["attempt"]),
    "ms": lambda one: "" if one["duration_ms"] is None else f"{one['duration_ms']:.0f}",
    "asked for": lambda one: ago(one["created_at"]),
    "error": lambda one: (
        f"{one['error']['code']}: {one['error']['message']}" if one["error"] else ""
    ),
}

To: TypeAlias = Annotated[str | None, typer.Option("--to", help="The URL that it is called at.")]
Description: TypeAlias = Annotated[str | None, typer.Option(help="What it does, for models.")]
Parameters: TypeAlias = Annotated[
    str | None, typer.Option(help="A JSON Schema of an object, or @FILE.")
]
Fields: TypeAlias = Annotated[
    Path | None, typer.Option("--file", "-f", help="YAML or JSON: the tool's fields.")
]

add_list(app, TOOLS)
add_show(app, TOOLS)


@app.command(
    epilog=examples(
        "runward tools register pay --to https://shop.example/pay --approval 'args.amount > 100' "
        "--parameters @pay.schema.json",
        "runward tools register -f pay.yaml",
    )
)
def register(
    name: Annotated[str | None, typer.Argument(metavar="TOOL", help="Its name.")] = None,
    to: To = None,
    description: Description = None,
    parameters: Parameters = None,
    approval: ApprovalArgument = None,
    file: Fields = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Register a tool. Its signing secret is printed this once."""
    body = _fields(file, to, description, parameters, approval)
    if name is not None:
        body["name"] = name
    if "name" not in body:
        fail("Say the tool's name, or a --file that does.", Exit.USAGE)
    with connected(url, key) as runward:
        made = runward.post("/v1/tools", body)
    if as_json:
        print_json(made)
        return
    say(f"{made['name']}, version {made['version']}, is registered.")
    say(f"secret  {made['secret']}")
    typer.echo("Requests are signed with this secret. It is shown this once.", err=True)


@app.command()
def change(
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
    """Change the fields that are named; all else stays."""
    body = _fields(file, to, description, parameters, approval)
    if not body:
        fail("Say what to change, with options or a --file.", Exit.USAGE)
    with connected(url, key) as runward:
        changed = runward.patch(path("tools", name), body)
    report(changed, f"{changed['name']} is at version {changed['version']}.", as_json=as_json)


@app.command(epilog=examples("""runward tools test lookup_order '{"order": "A-1017"}'"""))
def test(
    name: Annotated[str, TOOLS.argument],
    arguments: Annotated[str, typer.Argument(metavar="ARGUMENTS", help="JSON, or @FILE.")] = "{}",
    context: Annotated[str | None, typer.Option(help="A JSON object, or @FILE.")] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool for real, outside of any run. Ends with 1 if it failed."""
    body: JsonBody = {"arguments": read_object(arguments, "The arguments")}
    if context is not None:
        body["context"] = read_object(context, "--context")
    with connected(url, key) as runward, waiting("Calling …"):
        tried = runward.post(path("tools", name, "test"), body)
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
    """List a tool's calls in all runs, newest first, with times and errors."""
    with connected(url, key) as runward:
        found = list(runward.every(path("tools", name, "calls"), limit))
    print_list(found, CALLS, none="It was not called yet.", as_json=as_json)


add_delete(app, TOOLS)


def _fields(
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
        approval=approval_rule(approval),
    )
