"""A run's events, told in a terminal: one line each, and what the model says as it comes."""

import sys
from collections.abc import Callable
from typing import Any, Final

from rich.text import Text

from runward.cli.connection import JsonBody
from runward.cli.escaping import visible, visible_line
from runward.cli.printing import console, short

MAX_SHOWN: Final = 2000
"""Characters of arguments and outputs in a line; `runs show` has them whole."""
ENDED: Final = {
    "tool_call.completed": ("✓", "green", ""),
    "tool_call.failed": ("✗", "red", "failed: "),
    "tool_call.timed_out": ("✗", "red", "timed out: "),
    "tool_call.rejected": ("✗", "yellow", "rejected: "),
    "tool_call.outcome_unknown": ("?", "red", "outcome unknown: "),
    "tool_call.cancelled": ("✗", "dim", "cancelled "),
}
HOW: Final = {"tool_result": "result", "resolve": "resolve"}
"""The command that ends a wait."""
RUNS: Final = {
    "run.started": ("started", "dim"),
    "run.resumed": ("resumed", "dim"),
    "run.completed": ("completed", "green"),
    "run.failed": ("failed", "red"),
    "run.cancelled": ("cancelled", "yellow"),
    "run.incomplete": ("incomplete", "yellow"),
    "run.expired": ("expired", "red"),
}


class EventPrinter:
    """Prints to standard output. Pieces of text are told once, also after a reconnect."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._out = console()
        self._tools: dict[str, str] = {}
        self._told = 0
        """Characters of this turn's text that stand there already."""

    def tell(self, event: JsonBody) -> None:
        data = event["data"]
        match event["type"]:
            case "message.delta":
                self._piece(event["run_id"], data)
            case "message.restarted":
                self._end_text()
                self._line(event, "  (the model's answer broke off and begins again)", "yellow")
            case "message.completed":
                self._message(event)
            case kind if "sequence" in event:
                self._end_text()
                self._stored(kind, event, data)
            case _:
                pass  # pieces of reasoning and of arguments, which come whole later

    def _piece(self, run_id: str, data: JsonBody) -> None:
        if run_id != self._run_id:
            return
        fresh = data["text"][max(0, self._told - data["offset"]) :]
        if fresh:
            self._write(("" if self._told else "  ") + _indented(fresh))
            self._told = data["offset"] + len(data["text"])

    def _message(self, event: JsonBody) -> None:
        text = event["data"]["text"] or event["data"].get("refusal") or ""
        if event["run_id"] != self._run_id:
            if text:
                self._line(event, f"  {text}")
        elif text[self._told :]:
            self._write(("" if self._told else "  ") + _indented(text[self._told :]))
            self._told = len(text)
        self._end_text()

    def _end_text(self) -> None:
        if self._told:
            self._write("\n")
            self._told = 0

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _line(self, event: JsonBody, text: str, style: str = "none") -> None:
        child = "" if event["run_id"] == self._run_id else f"[{event['run_id'][-8:]}] "
        self._out.print(Text(visible_line(child + text), style=style), soft_wrap=True)

    def _stored(self, kind: str, event: JsonBody, data: JsonBody) -> None:
        if kind in ENDED:
            mark, style, word = ENDED[kind]
            said = data.get("detail") or data.get("output")
            tool = data.get("tool") or self._tools.get(str(data.get("call_id")), "")
            self._line(event, f"{mark} {tool} {word}{_cut(said)}", style)
        elif kind in RUNS:
            word, style = RUNS[kind]
            why: JsonBody = data.get("error") or data.get("incomplete_details") or {}
            text = f": {why.get('message') or why.get('reason')}" if why else ""
            self._line(event, f"● {word}{text}", style)
        elif (line := _line_of(kind, event, data)) is not None:
            self._line(event, *line)
        if "tool" in data and "call_id" in data:
            self._tools[data["call_id"]] = data["tool"]


def _line_of(kind: str, event: JsonBody, data: JsonBody) -> tuple[str, str] | None:
    """Text and style; None: nothing a watcher needs."""
    make = _LINES.get(kind)
    if make is None or (kind == "tool_call.progress" and not _progress(data)):
        return None
    text, style = make
    return text(event, data), style


def _waiting(event: JsonBody, data: JsonBody) -> str:
    return (
        f"● waiting for {', '.join(_awaited(event['run_id'], one) for one in data['waiting_for'])}"
    )


def _awaited(run_id: str, one: JsonBody) -> str:
    """And what ends the wait; approvals have said so already."""
    what = f"{one['type']} of {one['tool']}"
    if one["type"] not in HOW:
        return what
    return f"{what} (runward runs {HOW[one['type']]} {run_id} {one['call_id']})"


def _progress(data: JsonBody) -> Any:
    return data.get("message") or data.get("progress")


def _created(event: JsonBody, data: JsonBody) -> str:
    return f"● {event['run_id']} {data.get('agent') or short(data.get('model'))}"


def _called(_: JsonBody, data: JsonBody) -> str:
    return f"→ {data['tool']} {_cut(data.get('arguments') or data.get('arguments_text'))}"


def _asked(_: JsonBody, data: JsonBody) -> str:
    how = f"runward approvals decide {data['approval_id']}"
    return f"? {data['tool']} needs a decision: {how}"


def _decided(_: JsonBody, data: JsonBody) -> str:
    return f"! {data.get('decision')} by {data.get('decided_by') or 'a remembered decision'}"


def _trouble(event: JsonBody, data: JsonBody) -> str:
    return f"! {event['type']}: {data.get('message') or data.get('why')}"


_LINES: Final[dict[str, tuple[Callable[[JsonBody, JsonBody], str], str]]] = {
    "run.created": (_created, "bold"),
    "run.waiting": (_waiting, "yellow"),
    "tool_call.created": (_called, "cyan"),
    "tool_call.approval_requested": (_asked, "yellow"),
    "tool_call.approval_decided": (_decided, "none"),
    "tool_call.progress": (lambda _, data: f"… {_cut(_progress(data))}", "dim"),
    "agent.changed": (lambda _, data: f"● handed over from {data['from']} to {data['to']}", "none"),
    "model.retried": (_trouble, "yellow"),
    "model.downgraded": (_trouble, "yellow"),
}


def _indented(text: str) -> str:
    return visible(text).replace("\n", "\n  ")


def _cut(value: Any) -> str:
    text = "" if value is None else short(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"
