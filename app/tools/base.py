"""One attempt at one call, whatever executes it: a webhook now, a plugin or MCP server later."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from pydantic import JsonValue

from app.domain.ids import CallId, ProjectId, RunId
from app.domain.json import JsonObject
from app.domain.outcomes import Done, Failed, Outcome, Waits, Why
from app.domain.tools import ToolSpec

__all__ = ["Done", "Failed", "Invocation", "Outcome", "Tool", "Waits", "Why"]


@dataclass(frozen=True, slots=True)
class Invocation:
    """Everything an attempt may know. `seconds` is what is left for it, DNS to last byte."""

    project_id: ProjectId
    run_id: RunId
    call_id: CallId
    call_uuid: UUID
    tool: ToolSpec
    tool_version: int
    agent: str | None
    arguments: JsonObject
    context: Mapping[str, JsonValue] | None
    attempt: int
    fence: int
    seconds: float
    callback_url: str
    callback_token: str
    secrets: tuple[str, ...]
    """The tool's `whsec_…` signing secrets that are valid now, newest first."""


class Tool(Protocol):
    async def invoke(self, call: Invocation) -> Outcome:
        """One attempt, never more; returns within `call.seconds` + 1."""
        ...
