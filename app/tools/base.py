"""One attempt at one call, whatever executes it: a webhook now, a plugin or MCP server later."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias
from uuid import UUID

from pydantic import JsonValue

from app.domain.ids import CallId, ProjectId, RunId
from app.domain.items import Part
from app.domain.json import JsonObject
from app.domain.tools import ToolSpec


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


class Why(StrEnum):
    NOT_SENT = "not_sent"  # surely: DNS, connect, TLS, a refused address
    UNKNOWN = "unknown"  # sent, and no complete answer
    TIMEOUT = "timeout"  # sent or not, our clock ran out
    UNAVAILABLE = "unavailable"  # answered 408, 425, 429, 502, 503 or 504
    ERROR = "error"  # answered with another error status, or is_error
    INVALID_RESPONSE = "invalid_response"  # answered 2xx with what cannot be a result


@dataclass(frozen=True, slots=True)
class Done:
    """`parts` are the text, image and file parts of a result that had a `content` array."""

    output: JsonValue
    parts: tuple[Part, ...] = ()
    metadata: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """`message`, where the tool itself sent one meant for the model; `detail` is for operators
    (no secrets); `status` the HTTP status; `retry_after` in seconds."""

    why: Why
    detail: str
    message: str | None = None
    status: int | None = None
    retry_after: float | None = None
    permanent: bool = False
    """Trying again cannot help, e.g. an address that may not be reached."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The tool answers later, through its callback."""


Outcome: TypeAlias = Done | Failed | Waits


class Tool(Protocol):
    async def invoke(self, call: Invocation) -> Outcome:
        """One attempt, never more; returns within `call.seconds` + 1."""
        ...
