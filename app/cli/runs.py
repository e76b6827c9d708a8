"""`runward runs`: start, list, show, watch, cancel."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.connection import Json, Runward, connected
from app.cli.exits import Exit, fail
from app.cli.following import follow
from app.cli.options import (
    AsJson,
    Key,
    Limit,
    Url,
    read_object,
    read_text,
    read_yaml_object,
)
from app.cli.shown import pretty, print_fields, print_json, print_table, say, short, when
from app.cli.telling import Teller

app = typer.Typer(no_args_is_help=True, help="Start runs, look at them, follow them, cancel them.")

BAD_ENDS: Final = frozenset({"failed", "cancelled", "incomplete", "expired"})
MAX_CALLS: Final = 10_000

RunId = Annotated[str, typer.Argument(metavar="RUN", help="run_…")]
Settled = Annotated[
    bool, typer.Option("--settled", help="Stop also when the run waits for someone.")
]


@app.command()
def start(
    said: Annotated[str, typer.Argument(metavar="INPUT", help="Text; `-` reads it from stdin.")],
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="A registered agent.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="vendor:model, without an agent.")
    ] = None,
    tool: Annotated[list[str] | None, typer.Option(help="A tool's name; repeat it.")] = None,
    instructions: Annotated[str | None, typer.Option(help="For the model; or @FILE.")] = None,
    session: Annotated[str | None, typer.Option(help="ses_…: a conversation to go on.")] = None,
    context: Annotated[str | None, typer.Option(help="A JSON object for tools; or @FILE.")] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Model answers at most.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="YAML or JSON: further fields of the run.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same one twice starts one run.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow it to its end.")] = False,
    settled: Settled = False,
    url: Url = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Start a run and say its id; with --watch, follow it."""
    body: Json = read_yaml_object(file) if file else {}
    named = {
        "agent": agent,
        "model": model,
        "tools": tool,
        "instructions": read_text(instructions) if instructions else None,
        "session_id": session,
        "context": read_object(context, "--context") if context else None,
    }
    body |= {name: value for name, value in named.items() if value is not None}
    if max_turns is not None:
        body["limits"] = {**(body.get("limits") or {}), "max_turns": max_turns}
    body["input"] = read_text(said)
    with connected(url, key) as runward:
        run = runward.post("/v1/runs", body, once=idempotency_key)
        if watch or settled:
            _watch(runward, run["id"], "0", settled=settled, children=False, as_json=as_json)
        elif as_json:
            print_json(run)
        else:
            say(run["id"])


@app.command("list")
def list_runs(
    status: Annotated[str | None, typer.Option(help="Such as requires_action.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only those of one agent.")] = None,
    limit: Limit = 20,
    url: Url = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    with connected(url, key) as runward:
        found = list(runward.every("/v1/runs", limit, status=status, agent=agent, order="desc"))
    if as_json:
        print_json(found)
        return
    rows = (
        [
            run["id"],
            run["status"],
            run["agent"] or short(run["model"]),
            str(run["turn"]),
            str(run["usage"]["total_tokens"]),
            when(run["created_at"]),
        ]
        for run in found
    )
    columns = ["run", "status", "agent or model", "turn", "tokens", "created"]
    print_table(columns, rows, none="There are no such runs.")


@app.command()
def show(run_id: RunId, url: Url = None, key: Key = None, as_json: AsJson = False) -> None:
    """Show a run, its calls and what it waits for."""
    with connected(url, key) as runward:
        run = runward.get(f"/v1/runs/{run_id}")
        calls = list(runward.every(f"/v1/runs/{run_id}/tool_calls", MAX_CALLS, order="asc"))
    if as_json:
        print_json(run | {"tool_calls": calls})
        return
    print_fields(_facts(run))
    if calls:
        say("")
        rows = (
            [
                call["call_id"],
                call["tool"],
                call["outcome"] or call["phase"],
                short(call["arguments"]),
                short(call["output"]) if call["output"] is not None else call["detail"] or "",
            ]
            for call in calls
        )
        print_table(["call", "tool", "outcome", "arguments", "output"], rows, none="")


@app.command()
def watch(
    run_id: RunId,
    after: Annotated[str, typer.Option(help="The last event you have seen.")] = "0",
    settled: Settled = False,
    children: Annotated[bool, typer.Option("--children", help="Child runs too.")] = False,
    url: Url = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Follow a run to its end: what the model says, calls, approvals. Comes back after a break.

    With --json each event is a line.
    """
    if not after.isascii() or not after.strip():
        fail("--after takes an event's sequence number, or a cursor.", Exit.USAGE)
    with connected(url, key) as runward:
        _watch(runward, run_id, after, settled=settled, children=children, as_json=as_json)


@app.command()
def cancel(
    run_id: RunId,
    after_turn: Annotated[
        bool, typer.Option("--after-turn", help="Let the turn in progress finish.")
    ] = False,
    url: Url = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a run."""
    mode = "after_turn" if after_turn else "immediate"
    with connected(url, key) as runward:
        run = runward.post(f"/v1/runs/{run_id}/cancel", {"mode": mode})
    if as_json:
        print_json(run)
    else:
        say(f"{run['id']} {run['status']}")


def _watch(
    runward: Runward, run_id: str, after: str, *, settled: bool, children: bool, as_json: bool
) -> None:
    """Ends with the run's exit code."""
    teller = Teller(run_id)
    for event in follow(runward, run_id, after=after, settled=settled, children=children):
        if as_json:
            print_json(event)
        else:
            teller.tell(event)
    if runward.get(f"/v1/runs/{run_id}")["status"] in BAD_ENDS:
        raise typer.Exit(int(Exit.FAILED))


def _facts(run: Json) -> list[tuple[str, str]]:
    usage: dict[str, Any] = run["usage"]
    why: Json = run["error"] or run["incomplete_details"] or {}
    waits = [
        one.get("approval_id") or f"{one['type']} of {one['call_id']}"
        for one in run["required_actions"]
    ]
    cost = f", ${usage['cost_usd']:g}" if usage.get("cost_usd") else ""
    return [
        ("run", run["id"]),
        ("status", run["status"]),
        ("why", f"{why.get('code') or why.get('reason')}: {why.get('message')}" if why else ""),
        ("waits for", ", ".join(waits)),
        ("agent", run["agent"] or ""),
        ("model", short(run["model"]) if run["model"] else ""),
        ("session", run["session_id"] or ""),
        ("turn", str(run["turn"])),
        ("tokens", f"{usage['total_tokens']}{cost}"),
        ("created", when(run["created_at"])),
        ("ended", when(run["ended_at"])),
        ("metadata", pretty(run["metadata"]) if run["metadata"] else ""),
        ("output", "" if run["output"] is None else short(run["output"])),
    ]
