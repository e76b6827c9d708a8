"""`runward runs`: start, list, show, watch, input, continue, cancel, delete, and their calls."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from runward.cli import calls
from runward.cli.connection import JsonBody, Runward, build_path, connect
from runward.cli.event_printer import EventPrinter
from runward.cli.event_stream import follow_run
from runward.cli.exits import Exit, fail
from runward.cli.options import (
    AsJson,
    KeyOption,
    Limit,
    RunId,
    Url,
    complete_from,
    format_examples,
    read_fields,
    read_object,
    read_text,
)
from runward.cli.printing import (
    Columns,
    format_age,
    format_json,
    format_short,
    format_time,
    print_fields,
    print_json,
    print_list,
    print_result,
    print_table,
    print_text,
)
from runward.cli.registry import ResourceKind, add_delete_command

app = typer.Typer(no_args_is_help=True, help="Start, list, watch and continue runs.")

FAILED_STATUSES: Final = frozenset({"failed", "cancelled", "incomplete", "expired"})
COLUMNS: Final[Columns] = {
    "run": lambda run: run["id"],
    "status": lambda run: run["status"],
    "agent or model": lambda run: run["agent"] or format_short(run["model"]),
    "turn": lambda run: str(run["turn"]),
    "tokens": lambda run: str(run["usage"]["total_tokens"]),
    "created": lambda run: format_age(run["created_at"]),
}

RUNS: Final = ResourceKind(
    path="runs",
    noun="run",
    columns=COLUMNS,
    empty_text="There are no runs.",
    delete_warning="Its content is erased and cannot be restored. An open run is cancelled first.",
    id_field="id",
)

Status = Literal[
    "queued",
    "in_progress",
    "requires_action",
    "completed",
    "failed",
    "cancelled",
    "incomplete",
    "expired",
]
Agent = Annotated[
    str | None,
    typer.Option(
        "--agent",
        "-a",
        help="Name of a registered agent.",
        autocompletion=complete_from("/v1/agents"),
    ),
]
Session = Annotated[
    str | None,
    typer.Option(
        help="ID of a session (sess_…).",
        autocompletion=complete_from("/v1/sessions", "id"),
    ),
]
Instructions = Annotated[
    str | None, typer.Option(help="Instructions for the model, as text or @FILE.")
]
Priority = Annotated[
    int | None,
    typer.Option(min=-100, max=100, help="Priority. Runs with a higher priority start first."),
]
StartAt = Annotated[
    str | None,
    typer.Option(help="Time before which the run does not start, such as 2026-01-31T08:00Z."),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Follow the run until it ends.")]
UntilIdle = Annotated[
    bool,
    typer.Option(
        "--until-idle",
        help="Follow the run until it ends or waits for an action of a person or a client.",
    ),
]


@app.command(
    epilog=format_examples(
        "runward runs start 'Where is order A-1017?' --agent desk --watch",
        "runward runs start - -m openai:gpt-5.2 --tool lookup_order -f limits.yaml < question.txt",
        "RUN=$(runward runs start 'Hello' -m offline:rules)",
    )
)
def start(
    said: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="Text of the message. Use `-` for standard input."),
    ],
    agent: Agent = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="Model as provider:model. Use this option instead of --agent."
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a tool. Repeat the option for more tools.",
            autocompletion=complete_from("/v1/tools"),
        ),
    ] = None,
    instructions: Instructions = None,
    session: Session = None,
    context: Annotated[
        str | None, typer.Option(help="Context for tools: a JSON object or @FILE.")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Maximum number of turns.")] = None,
    priority: Priority = None,
    start_at: StartAt = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="YAML or JSON file with more fields of the run."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="Idempotency key. Two requests with the same key start only one run."),
    ] = None,
    watch: Watch = False,
    until_idle: UntilIdle = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Start a run and print its ID. With --watch, follow the run."""
    body = read_fields(
        file,
        agent=agent,
        model=model,
        tools=tool,
        instructions=read_text(instructions) if instructions else None,
        session_id=session,
        context=read_object(context, "--context") if context else None,
        priority=priority,
        start_at=start_at,
        input=read_text(said),
    )
    if max_turns is not None:
        body["limits"] = {**(body.get("limits") or {}), "max_turns": max_turns}
    with connect(url, key) as runward:
        run = runward.post("/v1/runs", body, idempotency_key=idempotency_key)
        _print_or_watch(runward, run, watch=watch, until_idle=until_idle, as_json=as_json)


@app.command("list")
def list_runs(
    status: Annotated[Status | None, typer.Option(help="List only runs with this status.")] = None,
    agent: Agent = None,
    session: Session = None,
    search: Annotated[
        str | None, typer.Option(help="Text to search for in user messages, outputs and metadata.")
    ] = None,
    limit: Limit = 20,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    with connect(url, key) as runward:
        found = runward.list_all(
            "/v1/runs", limit, status=status, agent=agent, session_id=session, q=search
        )
    print_list(found, COLUMNS, empty_text="No runs match these options.", as_json=as_json)


@app.command()
def show(run_id: RunId, url: Url = None, key: KeyOption = None, as_json: AsJson = False) -> None:
    """Show a run, its tool calls, and the actions that it requires."""
    with connect(url, key) as runward:
        run = runward.get(build_path("runs", run_id))
        path = build_path("runs", run_id, "tool_calls")
        made: list[JsonBody] = []
        if run.get("erased_at") is None:
            made = runward.list_all(path, calls.MAX_CALLS, order="asc")
    if as_json:
        print_json(run | {"tool_calls": made})
        return
    print_fields(_list_fields(run))
    if made:
        print_text("")
        print_table(calls.COLUMNS, made)


@app.command()
def watch(
    run_id: RunId,
    after: Annotated[
        str, typer.Option(help="Sequence number of the last event that you have seen.")
    ] = "0",
    until_idle: UntilIdle = False,
    children: Annotated[
        bool, typer.Option("--children", help="Also show the events of child runs.")
    ] = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Show model output, tool calls and approvals of a run until it ends.

    If the connection is lost, the command reconnects and continues after the last event that it
    printed. With --json, it prints one event per line.
    """
    if not after.isascii() or not after.strip():
        fail("--after requires the sequence number of an event, or a cursor.", Exit.USAGE)
    with connect(url, key) as runward:
        _watch_run(
            runward, run_id, after, until_idle=until_idle, children=children, as_json=as_json
        )


@app.command()
def cancel(
    run_id: RunId,
    after_turn: Annotated[
        bool,
        typer.Option("--after-turn", help="Cancel the run after the current turn has finished."),
    ] = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a run."""
    mode = "after_turn" if after_turn else "immediate"
    with connect(url, key) as runward:
        run = runward.post(build_path("runs", run_id, "cancel"), {"mode": mode})
    print_result(run, f"{run['id']} {run['status']}", as_json=as_json)


add_delete_command(app, RUNS)


@app.command("input")
def send_input(
    run_id: RunId,
    said: Annotated[
        str,
        typer.Argument(metavar="MESSAGE", help="Text of the message. Use `-` for standard input."),
    ],
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Send a message to a run that has not ended.

    The model reads the message in its next turn.
    """
    with connect(url, key) as runward:
        run = runward.post(build_path("runs", run_id, "input"), {"input": read_text(said)})
    print_result(run, f"{run['id']} {run['status']}", as_json=as_json)


@app.command("continue")
def continue_run(
    run_id: RunId,
    said: Annotated[
        str | None,
        typer.Argument(metavar="MESSAGE", help="Message for the model before the run continues."),
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of additional turns.")
    ] = None,
    watch: Watch = False,
    until_idle: UntilIdle = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Continue a run that a limit stopped: start a new run and print its ID."""
    body = read_fields(None, max_turns=max_turns, input=read_text(said) if said else None)
    with connect(url, key) as runward:
        run = runward.post(build_path("runs", run_id, "continue"), body)
        _print_or_watch(runward, run, watch=watch, until_idle=until_idle, as_json=as_json)


app.command("calls")(calls.list_calls)
app.command("resolve", epilog=calls.RESOLVE_EXAMPLES)(calls.resolve)
app.command("result", epilog=calls.RESULT_EXAMPLES)(calls.give_result)


def _print_or_watch(
    runward: Runward, run: JsonBody, *, watch: bool, until_idle: bool, as_json: bool
) -> None:
    if watch or until_idle:
        _watch_run(runward, run["id"], "0", until_idle=until_idle, children=False, as_json=as_json)
    else:
        print_result(run, run["id"], as_json=as_json)


def _watch_run(
    runward: Runward, run_id: str, after: str, *, until_idle: bool, children: bool, as_json: bool
) -> None:
    """Follow the run and end with the exit code for its status."""
    teller = EventPrinter(run_id)
    for event in follow_run(runward, run_id, after=after, until_idle=until_idle, children=children):
        if as_json:
            print_json(event)
        else:
            teller.print_event(event)
    if runward.get(build_path("runs", run_id))["status"] in FAILED_STATUSES:
        raise typer.Exit(int(Exit.FAILED))


def _list_fields(run: JsonBody) -> list[tuple[str, str]]:
    usage: dict[str, Any] = run["usage"]
    why: JsonBody = run["error"] or run["incomplete_details"] or {}
    waits = [
        one.get("approval_id") or f"{one['type']} of {one['call_id']}"
        for one in (*run["required_actions"], *run["waiting_for"])
    ]
    starter: JsonBody | None = run["created_by"]
    cost = f", ${usage['cost_usd']:g}" if usage.get("cost_usd") else ""
    return [
        ("run", run["id"]),
        ("status", run["status"]),
        ("why", f"{why.get('code') or why.get('reason')}: {why.get('message')}" if why else ""),
        ("waiting for", ", ".join(waits)),
        ("agent", run["agent"] or ""),
        ("model", format_short(run["model"]) if run["model"] else ""),
        ("session", run["session_id"] or ""),
        ("started by", starter["name"] if starter else ""),
        ("turn", str(run["turn"])),
        ("tokens", f"{usage['total_tokens']}{cost}"),
        ("created", format_time(run["created_at"])),
        ("ended", format_time(run["ended_at"])),
        ("erased", format_time(run.get("erased_at"))),
        ("metadata", format_json(run["metadata"]) if run["metadata"] else ""),
        ("output", "" if run["output"] is None else format_short(run["output"])),
    ]
