"""`runward sessions`: conversations across runs."""

from typing import Annotated, Literal

import typer

from runward.cli.connection import JsonBody, connected, path
from runward.cli.options import AsJson, KeyOption, Url
from runward.cli.printing import ago, print_fields, print_json, print_one, report, short
from runward.cli.registry import ResourceKind, add_delete, add_list

app = typer.Typer(no_args_is_help=True, help="Conversations that runs have in common.")

SESSIONS = ResourceKind(
    where="sessions",
    word="session",
    columns={
        "session": lambda one: one["id"],
        "name": lambda one: one["name"] or "",
        "on conflict": lambda one: one["on_conflict"],
        "changed": lambda one: ago(one["updated_at"]),
    },
    begin="There are no sessions. `runward sessions create` begins one.",
    lost="The conversation is gone then; its runs stay.",
    field="id",
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
    with connected(url, key) as runward:
        made = runward.post("/v1/sessions", body)
    report(made, made["id"], as_json=as_json)


add_list(app, SESSIONS, order="desc", at_most=20)


@app.command()
def show(
    session: Annotated[str, SESSIONS.argument],
    items: Annotated[int, typer.Option(min=0, max=10_000, help="The last ones.")] = 20,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a session and what was said last."""
    with connected(url, key) as runward:
        found = runward.get(path("sessions", session))
        said = list(runward.every(path("sessions", session, "items"), items, order="desc"))[::-1]
    if as_json:
        print_json(found | {"items": said})
        return
    print_one(found, as_json=False)
    if said:
        typer.echo()
        print_fields(_line(item) for item in said)


add_delete(app, SESSIONS)


def _line(item: JsonBody) -> tuple[str, str]:
    """Who, and what."""
    match item:
        case {"role": role, "content": content}:
            return role, _text(content)
        case {"type": "tool_call", "name": name, "arguments": arguments}:
            return "call", f"{name} {short(arguments)}"
        case {"type": "tool_result", "output": output}:
            return "result", short(output)
        case _:
            return item.get("type", ""), short(item)


def _text(content: str | list[JsonBody]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or f"[{part['type']}]") for part in content)
