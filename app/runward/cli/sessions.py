"""`runward sessions`: conversations across runs."""

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

app = typer.Typer(no_args_is_help=True, help="Conversations that runs have in common.")

SESSIONS = ResourceKind(
    path="sessions",
    noun="session",
    columns={
        "session": lambda one: one["id"],
        "name": lambda one: one["name"] or "",
        "on conflict": lambda one: one["on_conflict"],
        "changed": lambda one: format_age(one["updated_at"]),
    },
    empty_text="There are no sessions. `runward sessions create` begins one.",
    delete_warning="The conversation is gone then; its runs stay.",
    id_field="id",
)


@app.command()
def create(
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    on_conflict: Annotated[
        Literal["queue", "reject", "cancel_previous"] | None,
        typer.Option(help="What a run does that is started while another one is open."),
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Begin a conversation and say its id, for `runs start --session`."""
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
    items: Annotated[int, typer.Option(min=0, max=10_000, help="The last ones.")] = 20,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a session and what was said last."""
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
    """Who, and what."""
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
