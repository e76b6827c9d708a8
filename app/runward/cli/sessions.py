"""`runward sessions`: conversations of several runs."""

from typing import Annotated, Literal

import typer

from runward.cli.connection import JsonBody, build_path, connect
from runward.cli.options import AsJson, KeyOption, Url
from runward.cli.printing import (
    format_age,
    format_short,
    print_fields,
    print_json,
    print_resource,
    print_result,
)
from runward.cli.registry import ResourceKind, add_delete_command, add_list_command

app = typer.Typer(
    no_args_is_help=True, help="Manage sessions, which are conversations of several runs."
)

SESSIONS = ResourceKind(
    path="sessions",
    noun="session",
    columns={
        "session": lambda one: one["id"],
        "name": lambda one: one["name"] or "",
        "on conflict": lambda one: one["on_conflict"],
        "changed": lambda one: format_age(one["updated_at"]),
    },
    empty_text="There are no sessions. Create one with `runward sessions create`.",
    delete_warning="The conversation is deleted. Its runs are kept.",
    id_field="id",
)


@app.command()
def create(
    name: Annotated[str | None, typer.Option(help="Display name of the session.")] = None,
    on_conflict: Annotated[
        Literal["queue", "reject", "cancel_previous"] | None,
        typer.Option(
            help="How Runward handles a new run while another run of the session has not ended."
        ),
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a session and print its ID, which you can pass to `runs start --session`."""
    body: JsonBody = {"name": name} if name is not None else {}
    if on_conflict is not None:
        body["on_conflict"] = on_conflict
    with connect(url, key) as runward:
        made = runward.post("/v1/sessions", body)
    print_result(made, made["id"], as_json=as_json)


add_list_command(app, SESSIONS, order="desc", limit=20)


@app.command()
def show(
    session: Annotated[str, SESSIONS.argument],
    items: Annotated[
        int, typer.Option(min=0, max=10_000, help="Number of the latest items to show.")
    ] = 20,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a session and the latest items of its conversation."""
    with connect(url, key) as runward:
        found = runward.get(build_path("sessions", session))
        said = runward.list_all(build_path("sessions", session, "items"), items, order="desc")[::-1]
    if as_json:
        print_json(found | {"items": said})
        return
    print_resource(found, as_json=False)
    if said:
        typer.echo()
        print_fields(_format_item(item) for item in said)


add_delete_command(app, SESSIONS)


def _format_item(item: JsonBody) -> tuple[str, str]:
    """Return the author of the item and its text."""
    match item:
        case {"role": role, "content": content}:
            return role, _format_content(content)
        case {"type": "tool_call", "name": name, "arguments": arguments}:
            return "call", f"{name} {format_short(arguments)}"
        case {"type": "tool_result", "output": output}:
            return "result", format_short(output)
        case _:
            return item.get("type", ""), format_short(item)


def _format_content(content: str | list[JsonBody]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or f"[{part['type']}]") for part in content)
