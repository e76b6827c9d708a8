"""`runward tools`: list, show, register, test."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.connection import Json, connected
from app.cli.exits import Exit, fail
from app.cli.options import AsJson, Key, Limit, Url, read_object, read_yaml_object
from app.cli.shown import print_fields, print_json, print_table, say, short, shown

app = typer.Typer(no_args_is_help=True, help="The tools that models may call.")

Name = Annotated[str, typer.Argument(metavar="TOOL")]


@app.command("list")
def list_tools(
    limit: Limit = 1000, url: Url = None, key: Key = None, as_json: AsJson = False
) -> None:
    """List tools by name."""
    with connected(url, key) as runward:
        found = list(runward.every("/v1/tools", limit, order="asc"))
    if as_json:
        print_json(found)
        return
    rows = (
        [
            one["name"],
            one["type"],
            str(one["version"]),
            short(one.get("approval", "never")),
            one.get("url") or "",
            one.get("description", ""),
        ]
        for one in found
    )
    columns = ["tool", "type", "version", "approval", "url", "description"]
    print_table(columns, rows, none="There are no tools. `runward tools register` makes one.")


@app.command()
def show(name: Name, url: Url = None, key: Key = None, as_json: AsJson = False) -> None:
    """Show a tool with every field."""
    with connected(url, key) as runward:
        tool = runward.get(f"/v1/tools/{name}")
    if as_json:
        print_json(tool)
    else:
        print_fields((field, shown(value)) for field, value in tool.items() if field != "object")


@app.command()
def register(
    name: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="Its name.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="The URL that it is called at.")] = None,
    description: Annotated[str | None, typer.Option(help="What it does, for models.")] = None,
    parameters: Annotated[
        str | None, typer.Option(help="A JSON Schema of an object, or @FILE.")
    ] = None,
    approval: Annotated[
        str | None, typer.Option(help="never, always, or a rule such as 'args.amount > 100'.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="YAML or JSON: the tool's fields.")
    ] = None,
    url: Url = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Register a tool. Its signing secret is printed this once."""
    body: Json = read_yaml_object(file) if file else {}
    rule = approval if approval in {None, "never", "always"} else {"when": approval}
    named = {
        "name": name,
        "url": to,
        "description": description,
        "parameters": read_object(parameters, "--parameters") if parameters else None,
        "approval": rule,
    }
    body |= {field: value for field, value in named.items() if value is not None}
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
def test(
    name: Name,
    arguments: Annotated[str, typer.Argument(metavar="[ARGUMENTS]", help="JSON, or @FILE.")] = "{}",
    context: Annotated[str | None, typer.Option(help="A JSON object, or @FILE.")] = None,
    url: Url = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Call a tool for real, outside of any run. Ends with 1 if it failed."""
    body: Json = {"arguments": read_object(arguments, "The arguments")}
    if context is not None:
        body["context"] = read_object(context, "--context")
    with connected(url, key) as runward:
        tried = runward.post(f"/v1/tools/{name}/test", body)
    if as_json:
        print_json(tried)
    else:
        print_fields(
            [
                ("outcome", tried["outcome"]),
                ("status", shown(tried.get("status"))),
                ("seconds", f"{tried['seconds']:.3f}"),
                ("detail", tried.get("detail") or ""),
                ("output", shown(tried.get("output"))),
            ]
        )
    if tried["outcome"] == "failed":
        raise typer.Exit(int(Exit.FAILED))
