"""`runward schedules`: runs that start at certain times."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from runward.cli.connection import build_path, connect
from runward.cli.options import (
    AsJson,
    KeyOption,
    Url,
    format_examples,
    read_fields,
    read_text,
)
from runward.cli.printing import format_age, print_result
from runward.cli.registry import (
    ResourceKind,
    add_delete_command,
    add_list_command,
    add_show_command,
)
from runward.cli.runs import Agent

Cron: TypeAlias = Annotated[str | None, typer.Option(help="Cron expression with five fields.")]
TimeZone: TypeAlias = Annotated[
    str | None, typer.Option(help="Time zone of --cron, such as Europe/Berlin. Default: UTC.")
]
At: TypeAlias = Annotated[
    str | None, typer.Option(help="Time of a single run, such as 2027-01-15T09:00:00+01:00.")
]
AfterSeconds: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Number of seconds until a single run.")
]
Overlap: TypeAlias = Annotated[
    Literal["skip", "queue", "replace"] | None,
    typer.Option(
        help="What happens if an earlier run of the schedule has not ended. Default of a new"
        " schedule: skip."
    ),
]
Misfires: TypeAlias = Annotated[
    Literal["skip", "once", "all"] | None,
    typer.Option(
        help="What happens with times at which no worker was available. Default of a new"
        " schedule: once."
    ),
]

app = typer.Typer(no_args_is_help=True, help="Manage schedules, which start runs.")


def _format_state(schedule: dict[str, Any]) -> str:
    """Return the state for a table: whether the schedule starts runs, and its last problem."""
    if not schedule["enabled"]:
        return "paused"
    if schedule["last_error"] is not None:
        return f"failed: {schedule['last_error']['code']}"
    return "active" if schedule["next_at"] else "ended"


SCHEDULES = ResourceKind(
    path="schedules",
    noun="schedule",
    columns={
        "schedule": lambda one: one["id"],
        "name": lambda one: one["name"],
        "time": lambda one: one["cron"] or one["at"],
        "time zone": lambda one: one["time_zone"] or "",
        "state": _format_state,
        "next": lambda one: format_age(one["next_at"]),
    },
    empty_text="There are no schedules. Create one with `runward schedules create`.",
    delete_warning="Its runs are kept.",
    id_field="id",
)


@app.command(
    epilog=format_examples(
        "runward schedules create Report 'Write the report.' -a clerk --cron '0 7 * * MON-FRI'",
        "runward schedules create Reminder 'Remind me.' -m offline:rules --after-seconds 3600",
    )
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule, for people.")],
    said: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="Input of each run. Use `-` for standard input."),
    ],
    cron: Cron = None,
    time_zone: TimeZone = None,
    at: At = None,
    after_seconds: AfterSeconds = None,
    agent: Agent = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="Model as provider:model. Use this option instead of --agent."
        ),
    ] = None,
    overlap: Overlap = None,
    misfires: Misfires = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="YAML or JSON file with more fields of the run."),
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a schedule and print its ID."""
    body = read_fields(
        None,
        name=name,
        cron=cron,
        time_zone=time_zone,
        at=at,
        after_seconds=after_seconds,
        overlap=overlap,
        misfires=misfires,
        run=read_fields(file, agent=agent, model=model, input=read_text(said)),
    )
    with connect(url, key) as runward:
        made = runward.post("/v1/schedules", body)
    print_result(made, made["id"], as_json=as_json)


@app.command(
    epilog=format_examples(
        "runward schedules update SCHEDULE --cron '0 8 * * MON-FRI' --time-zone Europe/Berlin",
        "runward schedules update SCHEDULE --file run.yaml",
    )
)
def update(
    schedule: Annotated[str, SCHEDULES.argument],
    name: Annotated[str | None, typer.Option(help="New name of the schedule.")] = None,
    cron: Cron = None,
    time_zone: TimeZone = None,
    at: At = None,
    after_seconds: AfterSeconds = None,
    overlap: Overlap = None,
    misfires: Misfires = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="YAML or JSON file with the complete new request of each run."
        ),
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Change a schedule. New times replace all previous times."""
    changes = read_fields(
        None,
        name=name,
        cron=cron,
        time_zone=time_zone,
        at=at,
        after_seconds=after_seconds,
        overlap=overlap,
        misfires=misfires,
        run=read_fields(file) or None,
    )
    with connect(url, key) as runward:
        changed = runward.patch(build_path("schedules", schedule), changes)
    print_result(changed, f"{changed['id']} was updated.", as_json=as_json)


add_list_command(app, SCHEDULES, order="desc", limit=20)
add_show_command(app, SCHEDULES)


@app.command()
def pause(
    schedule: Annotated[str, SCHEDULES.argument],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Pause a schedule, so that it starts no runs."""
    _set_enabled(schedule, url, key, enabled=False, as_json=as_json)


@app.command()
def resume(
    schedule: Annotated[str, SCHEDULES.argument],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Resume a paused schedule with its first time in the future."""
    _set_enabled(schedule, url, key, enabled=True, as_json=as_json)


add_delete_command(app, SCHEDULES)


def _set_enabled(
    schedule: str, url: str | None, key: str | None, *, enabled: bool, as_json: bool
) -> None:
    with connect(url, key) as runward:
        changed = runward.patch(build_path("schedules", schedule), {"enabled": enabled})
    state = "resumed" if enabled else "paused"
    print_result(changed, f"{changed['id']} was {state}.", as_json=as_json)
