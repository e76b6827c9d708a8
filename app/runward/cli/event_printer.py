"""Print a run's events in a terminal: one line for each event, and the model's text as it
arrives."""

import sys
from collections.abc import Callable
from typing import Any, Final

from rich.text import Text

from runward.cli.connection import JsonBody
from runward.cli.escaping import escape_line, escape_text
from runward.cli.printing import create_console, format_short

MAX_VALUE_CHARACTERS: Final = 2000
"""Maximum number of characters of arguments and outputs. `runs show` prints them completely."""
CALL_ENDINGS: Final = {
    "tool_call.completed": ("✓", "green", ""),
    "tool_call.failed": ("✗", "red", "failed: "),
    "tool_call.timed_out": ("✗", "red", "timed out: "),
    "tool_call.rejected": ("✗", "yellow", "rejected: "),
    "tool_call.outcome_unknown": ("?", "red", "outcome unknown: "),
    "tool_call.cancelled": ("✗", "dim", "cancelled "),
}
ENDING_COMMANDS: Final = {"tool_result": "result", "resolve": "resolve"}
"""The command that performs each required action."""
RUN_STATUSES: Final = {
    "run.started": ("started", "dim"),
    "run.resumed": ("resumed", "dim"),
    "run.completed": ("completed", "green"),
    "run.failed": ("failed", "red"),
    "run.cancelled": ("cancelled", "yellow"),
    "run.incomplete": ("incomplete", "yellow"),
    "run.expired": ("expired", "red"),
}


class EventPrinter:
    """Prints events to standard output. Each piece of text is printed once, also after a
    reconnect."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._out = create_console()
        self._tools: dict[str, str] = {}
        self._told = 0
        """Number of characters of this turn's text that are already printed."""

    def print_event(self, event: JsonBody) -> None:
        data = event["data"]
        match event["type"]:
            case "message.delta":
                self._print_delta(event["run_id"], data)
            case "message.restarted":
                self._end_text()
                self._print_line(
                    event, "  (the model's response was interrupted and starts again)", "yellow"
                )
            case "message.completed":
                self._print_message(event)
            case kind if "sequence" in event:
                self._end_text()
                self._print_stored(kind, event, data)
            case _:
                pass  # deltas of reasoning and arguments: later events contain the complete values

    def _print_delta(self, run_id: str, data: JsonBody) -> None:
        if run_id != self._run_id:
            return
        fresh = data["text"][max(0, self._told - data["offset"]) :]
        if fresh:
            self._write(("" if self._told else "  ") + _indent(fresh))
            self._told = data["offset"] + len(data["text"])

    def _print_message(self, event: JsonBody) -> None:
        text = event["data"]["text"] or event["data"].get("refusal") or ""
        if event["run_id"] != self._run_id:
            if text:
                self._print_line(event, f"  {text}")
        elif text[self._told :]:
            self._write(("" if self._told else "  ") + _indent(text[self._told :]))
            self._told = len(text)
        self._end_text()

    def _end_text(self) -> None:
        if self._told:
            self._write("\n")
            self._told = 0

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _print_line(self, event: JsonBody, text: str, style: str = "none") -> None:
        child = "" if event["run_id"] == self._run_id else f"[{event['run_id'][-8:]}] "
        self._out.print(Text(escape_line(child + text), style=style), soft_wrap=True)

    def _print_stored(self, kind: str, event: JsonBody, data: JsonBody) -> None:
        if kind in CALL_ENDINGS:
            mark, style, word = CALL_ENDINGS[kind]
            said = data.get("detail") or data.get("output")
            tool = data.get("tool") or self._tools.get(str(data.get("call_id")), "")
            self._print_line(event, f"{mark} {tool} {word}{_truncate(said)}", style)
        elif kind in RUN_STATUSES:
            word, style = RUN_STATUSES[kind]
            why: JsonBody = data.get("error") or data.get("incomplete_details") or {}
            text = f": {why.get('message') or why.get('reason')}" if why else ""
            self._print_line(event, f"● {word}{text}", style)
        elif (line := _format_event(kind, event, data)) is not None:
            self._print_line(event, *line)
        if "tool" in data and "call_id" in data:
            self._tools[data["call_id"]] = data["tool"]


def _format_event(kind: str, event: JsonBody, data: JsonBody) -> tuple[str, str] | None:
    """Return the text and its style, or None if the event is not printed."""
    make = _FORMATS.get(kind)
    if make is None or (kind == "tool_call.progress" and not _read_progress(data)):
        return None
    text, style = make
    return text(event, data), style


def _format_waiting(event: JsonBody, data: JsonBody) -> str:
    waits = [_format_requirement(event["run_id"], one) for one in data["waiting_for"]]
    return f"● waiting for {', '.join(waits)}"


def _format_requirement(run_id: str, requirement: JsonBody) -> str:
    """Return the requirement and the command for it. Approvals printed their command earlier."""
    what = f"{requirement['type']} of {requirement['tool']}"
    if requirement["type"] not in ENDING_COMMANDS:
        return what
    command = f"runward runs {ENDING_COMMANDS[requirement['type']]} {run_id}"
    return f"{what} ({command} {requirement['call_id']})"


def _read_progress(data: JsonBody) -> Any:
    return data.get("message") or data.get("progress")


def _format_created(event: JsonBody, data: JsonBody) -> str:
    return f"● {event['run_id']} {data.get('agent') or format_short(data.get('model'))}"


def _format_call(_: JsonBody, data: JsonBody) -> str:
    return f"→ {data['tool']} {_truncate(data.get('arguments') or data.get('arguments_text'))}"


def _format_approval_request(_: JsonBody, data: JsonBody) -> str:
    how = f"runward approvals decide {data['approval_id']}"
    return f"? {data['tool']} needs a decision: {how}"


def _format_decision(_: JsonBody, data: JsonBody) -> str:
    return f"! {data.get('decision')} by {data.get('decided_by') or 'a remembered decision'}"


def _format_model_problem(event: JsonBody, data: JsonBody) -> str:
    return f"! {event['type']}: {data.get('message') or data.get('reason')}"


_FORMATS: Final[dict[str, tuple[Callable[[JsonBody, JsonBody], str], str]]] = {
    "run.created": (_format_created, "bold"),
    "run.waiting": (_format_waiting, "yellow"),
    "tool_call.created": (_format_call, "cyan"),
    "tool_call.approval_requested": (_format_approval_request, "yellow"),
    "tool_call.approval_decided": (_format_decision, "none"),
    "tool_call.progress": (lambda _, data: f"… {_truncate(_read_progress(data))}", "dim"),
    "handoff.completed": (
        lambda _, data: f"● handed over from {data['from']} to {data['to']}",
        "none",
    ),
    "model.retried": (_format_model_problem, "yellow"),
    "model.setting_dropped": (_format_model_problem, "yellow"),
    "model.calls_changed": (lambda _, data: f"! tool calls changed by {data['hook']}", "yellow"),
}


def _indent(text: str) -> str:
    return escape_text(text).replace("\n", "\n  ")


def _truncate(value: Any) -> str:
    text = "" if value is None else format_short(value)
    return (
        text
        if len(text) <= MAX_VALUE_CHARACTERS
        else f"{text[:MAX_VALUE_CHARACTERS]}… ({len(text)} characters)"
    )
