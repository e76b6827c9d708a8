"""`runward runs calls|resolve|result`: list the tool calls of a run, record an unknown outcome,
and submit a result."""

from datetime import datetime
from typing import Annotated, Final

import typer

from runward.cli.connection import JsonBody, build_path, connect
from runward.cli.exits import Exit, fail
from runward.cli.options import (
    AsJson,
    KeyOption,
    Limit,
    RunId,
    Url,
    format_examples,
    read_json,
    read_text,
)
from runward.cli.printing import Columns, format_short, print_list, print_result


def _format_output(call: JsonBody) -> str:
    return format_short(call["output"]) if call["output"] is not None else call["detail"] or ""


def _format_seconds(call: JsonBody) -> str:
    """Return the seconds between the last attempt's start and the end of the call."""
    if call["started_at"] is None or call["ended_at"] is None:
        return ""
    begun, ended = (datetime.fromisoformat(call[one]) for one in ("started_at", "ended_at"))
    return f"{(ended - begun).total_seconds():.3f}"


MAX_CALLS: Final = 10_000
COLUMNS: Final[Columns] = {
    "call": lambda one: one["call_id"],
    "tool": lambda one: one["tool"],
    "outcome": lambda one: one["outcome"] or one["phase"],
    "arguments": lambda one: format_short(one["arguments"]),
    "output": _format_output,
}
DETAILED_COLUMNS: Final[Columns] = {
    "call": COLUMNS["call"],
    "turn": lambda one: str(one["turn"]),
    "tool": COLUMNS["tool"],
    "outcome": COLUMNS["outcome"],
    "attempt": lambda one: str(one["attempt"]),
    "seconds": _format_seconds,
    "arguments": COLUMNS["arguments"],
    "output": COLUMNS["output"],
}

CallId = Annotated[
    str, typer.Argument(metavar="CALL", help="ID of the tool call. `runs calls` shows the IDs.")
]


RESOLVE_EXAMPLES: Final = format_examples(
    """runward runs resolve RUN call_1 --completed '{"refund": "R-1"}'""",
    "runward runs resolve RUN call_1 --failed 'The bank did not receive the payment.'",
    "runward runs resolve RUN call_1 --retry",
)
RESULT_EXAMPLES: Final = format_examples(
    """runward runs result RUN call_1 --output '{"cm": 12}'""",
    "runward runs result RUN call_1 --error 'No ruler is available.'",
)


def list_calls(
    run_id: RunId,
    limit: Limit = MAX_CALLS,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """List the tool calls of a run, with their attempts and outcomes."""
    with connect(url, key) as runward:
        found = runward.list_all(build_path("runs", run_id, "tool_calls"), limit, order="asc")
    print_list(found, DETAILED_COLUMNS, empty_text="This run has no tool calls.", as_json=as_json)


def resolve(
    run_id: RunId,
    call_id: CallId,
    completed: Annotated[
        str | None,
        typer.Option(
            metavar="OUTPUT",
            help="The call took effect. OUTPUT is its result, as JSON or @FILE.",
        ),
    ] = None,
    failed: Annotated[
        str | None,
        typer.Option(
            metavar="MESSAGE",
            help=("The call did not take effect. The model reads MESSAGE, which is text or @FILE."),
        ),
    ] = None,
    retry: Annotated[
        bool,
        typer.Option("--retry", help="The call did not take effect. Runward sends the call again."),
    ] = False,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Record the outcome of a tool call whose outcome is unknown.

    Set exactly one of --completed, --failed and --retry.
    """
    bodies: list[JsonBody] = []
    if completed is not None:
        bodies.append({"resolution": "completed", "output": read_json(completed, "--completed")})
    if failed is not None:
        bodies.append({"resolution": "failed", "message": read_text(failed)})
    if retry:
        bodies.append({"resolution": "retry"})
    _post_outcome("resolve", run_id, call_id, bodies, url, key, as_json=as_json)


def give_result(
    run_id: RunId,
    call_id: CallId,
    output: Annotated[
        str | None, typer.Option(help="Output of the tool, as JSON or @FILE.")
    ] = None,
    error: Annotated[
        str | None, typer.Option(help="Error message for the model, as text or @FILE.")
    ] = None,
    url: Url = None,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Submit the result of a client tool, or the input that a tool requested.

    Set exactly one of --output and --error.
    """
    bodies: list[JsonBody] = []
    if output is not None:
        bodies.append({"output": read_json(output, "--output")})
    if error is not None:
        bodies.append({"error": read_text(error)})
    _post_outcome("result", run_id, call_id, bodies, url, key, as_json=as_json)


def _post_outcome(
    command: str,
    run_id: str,
    call_id: str,
    bodies: list[JsonBody],
    url: str | None,
    key: str | None,
    *,
    as_json: bool,
) -> None:
    if len(bodies) != 1:
        fail(
            f"Set exactly one of the options that `runward runs {command} --help` lists.",
            Exit.USAGE,
        )
    with connect(url, key) as runward:
        call = runward.post(build_path("runs", run_id, "tool_calls", call_id, command), bodies[0])
    print_result(call, f"{call['call_id']} {call['outcome'] or call['phase']}", as_json=as_json)
