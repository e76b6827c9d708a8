"""The output of `codex exec --json`: one event per line, documented at
https://developers.openai.com/codex/noninteractive. Unknown kinds of events and
items are ignored."""

import json
from dataclasses import dataclass, field
from typing import Any

SHOWN = 200
"""Characters of a progress message."""


@dataclass(slots=True)
class Story:
    """The state of a run of Codex. `failure` is the reason why it gave up."""

    message: str | None = None
    thread_id: str | None = None
    failure: str | None = None
    usage: dict[str, int] | None = None
    """The usage of the thread so far."""
    complaints: list[str] = field(default_factory=list[str])

    def take(self, line: bytes) -> str | None:
        """Read one line of output and return the progress to report."""
        try:
            event = json.loads(line)
            kind = event["type"]
        except (ValueError, TypeError, KeyError):
            return None
        match kind:
            case "thread.started":
                self.thread_id = event.get("thread_id")
                return "Codex has started"
            case "turn.completed":
                self.usage = event.get("usage")
            case "turn.failed":
                self.failure = _text(event.get("error"))
            case "error":
                self.complaints.append(_text(event))
                return f"problem: {_text(event)}"[:SHOWN]
            case "item.started" | "item.updated" | "item.completed":
                return self._item(kind, event.get("item") or {})
        return None

    def _item(self, kind: str, item: dict[str, Any]) -> str | None:
        done = kind == "item.completed"
        match item.get("type"):
            case "agent_message" if done:
                self.message = str(item.get("text", ""))
                return _line("says", self.message)
            case "reasoning" if done:
                return _line("thinks", item.get("text", ""))
            case "command_execution":
                result = f"exit code {item.get('exit_code')}" if done else "runs"
                return _line(result, item.get("command", ""))
            case "file_change" if done:
                paths = [str(change.get("path")) for change in item.get("changes", [])]
                return _line(f"patch {item.get('status', '')}", ", ".join(paths))
            case "todo_list":
                steps = item.get("items", [])
                finished = sum(bool(step.get("completed")) for step in steps)
                return f"{finished} of {len(steps)} steps done"
            case "mcp_tool_call" | "web_search" if not done:
                return _line(str(item["type"]), item.get("tool") or item.get("query") or "")
            case _:
                return None


def _text(told: Any) -> str:
    return str(told.get("message", "no reason given")) if isinstance(told, dict) else str(told)


def _line(label: str, text: Any) -> str:
    return f"{label}: {' '.join(str(text).split())}"[:SHOWN]
