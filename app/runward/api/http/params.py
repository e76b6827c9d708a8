"""Path, query and header parameters that several routes share."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Header, Path, Query
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_plain_validator_function

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import (
    ApprovalId,
    CallId,
    KeyId,
    Prefix,
    ProjectId,
    RunId,
    SessionId,
    parse_id,
)
from runward.domain.registry.tools import NAME_PATTERN

MAX_WAIT_SECONDS: Final = 60.0
MAX_SEQUENCE: Final = 2**31 - 1
MAX_CURSOR: Final = 32_768
"""Maximum number of characters of a cursor: enough for the positions of about 1,200 runs."""

_PREFER_WAIT: Final = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?\s*(?:$|[,;])", re.I)


@dataclass(frozen=True, slots=True)
class _PathValue:
    """The format of a path parameter. If `parse` rejects a value, the response is the same as for
    an unknown ID or name."""

    parse: Callable[[str], Any]
    pattern: str
    example: str
    error: type[not_found.NotFoundError]

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> CoreSchema:
        return no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern, "examples": [self.example]}

    def _validate(self, value: Any) -> Any:
        parsed = self.parse(str(value))
        if parsed is None:
            raise self.error
        return parsed


def _make_id(prefix: Prefix, error: type[not_found.NotFoundError]) -> _PathValue:
    example = f"{prefix}_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57"
    return _PathValue(partial(parse_id, prefix), f"^{prefix}_[0-9a-f]{{32}}$", example, error)


def _make_name(example: str, error: type[not_found.NotFoundError]) -> _PathValue:
    return _PathValue(_parse_name, NAME_PATTERN, example, error)


def _parse_name(text: str) -> str | None:
    return text if re.fullmatch(NAME_PATTERN, text) else None


def _parse_held_id(text: str) -> str | None:
    prefixes = (Prefix.RUN, Prefix.SESSION, Prefix.PROJECT)
    return text if any(parse_id(prefix, text) for prefix in prefixes) else None


_RUN: Final = _make_id(Prefix.RUN, not_found.RunNotFoundError)
_SESSION: Final = _make_id(Prefix.SESSION, not_found.SessionNotFoundError)
_CONVERSATION: Final = _make_id(Prefix.CONVERSATION, not_found.SessionNotFoundError)
_APPROVAL: Final = _make_id(Prefix.APPROVAL, not_found.ApprovalNotFoundError)
_KEY: Final = _make_id(Prefix.KEY, not_found.KeyNotFoundError)
_PROJECT: Final = _make_id(Prefix.PROJECT, not_found.ProjectNotFoundError)
_WEBHOOK_ENDPOINT: Final = _make_id(Prefix.WEBHOOK_ENDPOINT, not_found.WebhookEndpointNotFoundError)
_WEBHOOK_DELIVERY: Final = _make_id(Prefix.WEBHOOK_DELIVERY, not_found.WebhookDeliveryNotFoundError)
_ERASURE: Final = _make_id(Prefix.ERASURE, not_found.ErasureNotFoundError)
_LEGAL_HOLD: Final = _PathValue(
    _parse_held_id,
    "^(run|sess|proj)_[0-9a-f]{32}$",
    "run_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57",
    not_found.LegalHoldNotFoundError,
)
_SCHEDULE: Final = _make_id(Prefix.SCHEDULE, not_found.ScheduleNotFoundError)
_BUDGET: Final = _make_id(Prefix.BUDGET, not_found.BudgetNotFoundError)
_AGENT: Final = _make_name("clerk", not_found.AgentNotFoundError)
_MCP_SERVER: Final = _make_name("files", not_found.McpServerNotFoundError)
_SECRET: Final = _make_name("CRM_TOKEN", not_found.SecretNotFoundError)
_TOOL: Final = _make_name("pay", not_found.ToolNotFoundError)

RunPath = Annotated[RunId, _RUN, Path(description="ID of the run.")]
SessionPath = Annotated[SessionId, _SESSION, Path(description="ID of the session.")]
ConversationPath = Annotated[SessionId, _CONVERSATION, Path(description="ID of the conversation.")]
ApprovalPath = Annotated[ApprovalId, _APPROVAL, Path(description="ID of the approval.")]
KeyPath = Annotated[KeyId, _KEY, Path(description="ID of the API key.")]
ProjectPath = Annotated[ProjectId, _PROJECT, Path(description="ID of the project.")]
WebhookEndpointPath = Annotated[
    UUID, _WEBHOOK_ENDPOINT, Path(description="ID of the webhook endpoint.")
]
WebhookDeliveryPath = Annotated[
    UUID, _WEBHOOK_DELIVERY, Path(description="ID of the webhook delivery.")
]
ErasurePath = Annotated[UUID, _ERASURE, Path(description="ID of the erasure.")]
LegalHoldPath = Annotated[
    str, _LEGAL_HOLD, Path(description="ID of a run, a session or the project.")
]
SchedulePath = Annotated[UUID, _SCHEDULE, Path(description="ID of the schedule.")]
BudgetPath = Annotated[UUID, _BUDGET, Path(description="ID of the budget.")]
AgentPath = Annotated[str, _AGENT, Path(description="Name of the agent.")]
McpServerPath = Annotated[str, _MCP_SERVER, Path(description="Name of the MCP server.")]
SecretPath = Annotated[str, _SECRET, Path(description="Name of the secret.")]
ToolPath = Annotated[str, _TOOL, Path(description="Name of the tool.")]
NewSecretPath = Annotated[
    str,
    Path(description="Name of the secret.", pattern=NAME_PATTERN, examples=["CRM_TOKEN"]),
]
"""Name of a secret to create. An invalid name is rejected with 422 and not with 404."""
CallPath = Annotated[CallId, Path(description="ID of the tool call. Unique within its run.")]
"""For paths with `{call_id:path}`, because a model's ID may contain a slash."""


MaxArgumentsBytes = Annotated[
    int | None,
    Query(
        ge=0,
        le=2**31,
        description="Maximum total size of each call's arguments, in bytes of JSON. Runward omits "
        "the arguments that do not fit and lists them in `omitted_arguments`. By default, Runward "
        "returns all arguments.",
    ),
]


def _read_wait(
    wait: Annotated[
        float | None,
        Query(
            ge=0,
            le=MAX_WAIT_SECONDS,
            allow_inf_nan=False,
            description="Maximum number of seconds to wait before responding. A request for a run "
            "waits until the run has ended or has the status `requires_action`. A request for "
            "events waits until there is a new event.",
        ),
    ] = None,
    prefer: Annotated[
        str | None,
        Header(
            alias="Prefer",
            max_length=256,
            description="Preferences of the client (RFC 7240). `wait=30` is the same as "
            "`?wait=30`.",
        ),
    ] = None,
) -> float:
    if wait is not None:
        return wait
    found = _PREFER_WAIT.search(prefer) if prefer else None
    return min(float(found[1]), MAX_WAIT_SECONDS) if found else 0.0


WaitSeconds = Annotated[float, Depends(_read_wait)]
"""Number of seconds to wait. 0: do not wait. Read from `?wait=`, or from `Prefer: wait=` if
`?wait=` is missing."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a reader of events. `0` is the beginning. `parameter` is the parameter that
    it came from."""

    text: str
    parameter: str

    @property
    def sequence(self) -> int:
        """The position as a sequence number of one run. Raises InvalidRequestError."""
        if not re.fullmatch(r"[0-9]{1,10}", self.text) or int(self.text) > MAX_SEQUENCE:
            raise self.make_error(f"must be a sequence number from 0 to {MAX_SEQUENCE}")
        return int(self.text)

    def make_error(self, message: str) -> e.InvalidRequestError:
        return e.InvalidRequestError(errors=[e.FieldError(self.parameter, message)])


def _read_cursor(
    after: Annotated[
        str | None,
        Query(
            max_length=MAX_CURSOR,
            description="Sequence number of the last event that the client received. With "
            "`include=children`, use the `last_id` of the previous page.",
        ),
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            max_length=MAX_CURSOR,
            description="ID of the last event that the client received. A browser's `EventSource` "
            "sends it when it reconnects. It overrides `after`.",
        ),
    ] = None,
) -> Cursor:
    if last_event_id is not None:
        return Cursor(last_event_id, "header.Last-Event-ID")
    return Cursor("0" if after is None else after, "query.after")


EventCursor = Annotated[Cursor, Depends(_read_cursor)]
"""Last-Event-ID overrides `?after=`, because a reconnecting EventSource repeats the old URL."""

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Key that makes retries safe. If a client sends the same key and body again "
        "within 24 hours, Runward creates nothing and returns the first response.",
    ),
]
"""A handler's parameter, named `idempotency_key`. Default: None."""
