"""`runward webhooks`: webhook endpoints and their deliveries."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import typer

from runward.cli.connection import build_path, connect
from runward.cli.options import AsJson, KeyOption, Limit, Url, format_examples, read_fields
from runward.cli.printing import Columns, format_age, print_list, print_result
from runward.cli.registry import (
    ResourceKind,
    add_delete_command,
    add_list_command,
    add_show_command,
)

app = typer.Typer(
    no_args_is_help=True, help="Manage webhook endpoints, which Runward notifies of events."
)


def _format_state(endpoint: dict[str, Any]) -> str:
    """Return the state for a table: whether Runward notifies the endpoint."""
    if not endpoint["enabled"]:
        reason = endpoint["disabled_reason"]
        return f"disabled: {reason}" if reason else "disabled"
    return "failing" if endpoint["failing_since"] else "enabled"


def _format_response(delivery: dict[str, Any]) -> str:
    """Return the status code or the error of the last attempt for a table."""
    if not delivery["attempts"]:
        return ""
    last = delivery["attempts"][-1]
    return str(last["status_code"] or last["error"])


ENDPOINTS = ResourceKind(
    path="webhook_endpoints",
    noun="webhook endpoint",
    columns={
        "endpoint": lambda one: one["id"],
        "URL": lambda one: one["url"],
        "events": lambda one: ", ".join(one["events"]),
        "state": _format_state,
    },
    empty_text="There are no webhook endpoints. Create one with `runward webhooks create`.",
    delete_warning="Its deliveries are deleted too.",
    id_field="id",
)
INCLUDE: Final[Mapping[bool | None, list[str] | None]] = {None: None, True: ["output"], False: []}
IncludeOutput = Annotated[
    bool | None,
    typer.Option(help="Whether notifications of the end of a run contain its output."),
]
DELIVERIES: Final[Columns] = {
    "delivery": lambda one: one["id"],
    "URL": lambda one: one["request"]["url"],
    "event": lambda one: one["type"],
    "status": lambda one: one["status"],
    "attempts": lambda one: str(len(one["attempts"])),
    "response": _format_response,
    "created": lambda one: format_age(one["created_at"]),
}


@app.command(
    epilog=format_examples(
        "runward webhooks create https://example.com/hooks --event run.completed"
    )
)
def create(
    to: Annotated[str, typer.Argument(metavar="URL", help="URL of the endpoint.")],
    event: Annotated[
        list[str] | None,
        typer.Option(help="Event type that the endpoint receives. Repeatable. Default: all types."),
    ] = None,
    include_output: IncludeOutput = None,
    description: Annotated[str | None, typer.Option(help="Description of the endpoint.")] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a webhook endpoint and print its ID and signing secret."""
    body = read_fields(
        None,
        url=to,
        events=event or None,
        include=INCLUDE[include_output],
        description=description,
    )
    with connect(url, key) as runward:
        made = runward.post("/v1/webhook_endpoints", body)
    print_result(made, f"{made['id']}\nsigning secret: {made['secret']}", as_json=as_json)


@app.command(
    epilog=format_examples(
        "runward webhooks update WEBHOOK_ENDPOINT --enable",
        "runward webhooks update WEBHOOK_ENDPOINT --event run.completed --event run.failed",
    )
)
def update(
    endpoint: Annotated[str, ENDPOINTS.argument],
    to: Annotated[str | None, typer.Option(metavar="URL", help="New URL of the endpoint.")] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(
            help="Event type that the endpoint receives instead of the previous ones. Repeatable."
        ),
    ] = None,
    include_output: IncludeOutput = None,
    description: Annotated[str | None, typer.Option(help="Description of the endpoint.")] = None,
    enabled: Annotated[
        bool | None,
        typer.Option("--enable/--disable", help="Send notifications to the endpoint, or stop."),
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Change the URL, events or description of an endpoint, or enable or disable it."""
    changes = read_fields(
        None,
        url=to,
        events=event or None,
        include=INCLUDE[include_output],
        description=description,
        enabled=enabled,
    )
    with connect(url, key) as runward:
        changed = runward.patch(build_path("webhook_endpoints", endpoint), changes)
    state = _format_state(changed)
    print_result(changed, f"{changed['id']} was updated ({state}).", as_json=as_json)


add_list_command(app, ENDPOINTS, order="desc", limit=20)
add_show_command(app, ENDPOINTS)
add_delete_command(app, ENDPOINTS)


@app.command()
def rotate_secret(
    endpoint: Annotated[str, ENDPOINTS.argument],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Replace the signing secret and print the new one."""
    with connect(url, key) as runward:
        made = runward.post(build_path("webhook_endpoints", endpoint, "rotate_secret"))
    print_result(made, f"signing secret: {made['secret']}", as_json=as_json)


@app.command()
def test(
    endpoint: Annotated[str, ENDPOINTS.argument],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Send a test notification and print the ID of its delivery."""
    with connect(url, key) as runward:
        made = runward.post(build_path("webhook_endpoints", endpoint, "test"))
    print_result(made, made["id"], as_json=as_json)


@app.command()
def deliveries(
    endpoint: Annotated[str | None, ENDPOINTS.argument] = None,
    run: Annotated[
        str | None, typer.Option(help="Only deliveries of this run, also to its own webhook.")
    ] = None,
    status: Annotated[
        Literal["pending", "delivered", "failed"] | None,
        typer.Option(help="Only deliveries with this status."),
    ] = None,
    limit: Limit = 20,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """List the deliveries of all webhooks or of one webhook endpoint, newest first."""
    wanted = read_fields(None, webhook_endpoint_id=endpoint, run_id=run, status=status)
    with connect(url, key) as runward:
        found = runward.list_all("/v1/webhook_deliveries", limit, order="desc", **wanted)
    print_list(found, DELIVERIES, empty_text="There are no deliveries.", as_json=as_json)


@app.command()
def redeliver(
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="ID of the delivery.")],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Send the notification of a delivery again and print the ID of the delivery."""
    with connect(url, key) as runward:
        made = runward.post(build_path("webhook_deliveries", delivery, "redeliver"))
    print_result(made, made["id"], as_json=as_json)
