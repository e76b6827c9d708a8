"""Runs and their conversations, as responses show them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Self

from pydantic import JsonValue

from runward.api.http.models import (
    APPROVAL_ID,
    DIGEST,
    EXAMPLE_TIME,
    KEY_ID,
    RUN_ID,
    ConversationPage,
    ResponseModel,
    with_example,
)
from runward.api.runs.call_models import (
    CallbackWait,
    RequiredAction,
    render_wait,
)
from runward.domain.ids import Prefix, format_id, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.run.status import RunStatus
from runward.store.access.keys import ActingKey
from runward.store.runs.views import RunView, WaitingCall


class Usage(ResponseModel):
    """Tokens that the run has used so far, as its models reported them."""

    input_tokens: int = 0
    """Read by the model."""
    output_tokens: int = 0
    """Written by the model."""
    cached_tokens: int = 0
    """Of those read, how many the vendor had cached."""
    reasoning_tokens: int = 0
    """Of those written, how many were reasoning."""
    total_tokens: int = 0
    """Read and written together."""
    cost_usd: float = 0
    """What they cost, child runs included, at the prices that this installation knows."""


class Actor(ResponseModel):
    """Who did it: an API key."""

    type: Literal["key"] = "key"
    id: str
    """The key's id."""
    name: str
    """What the key is called; it keeps its name when it is revoked."""

    @classmethod
    def from_row(cls, key: ActingKey | None) -> Self | None:
        return key and cls.from_attributes(key, id=format_id(Prefix.KEY, key.id))


class RunError(ResponseModel):
    """Why a run failed."""

    code: str
    """For a program."""
    message: str
    """For a person."""


class IncompleteDetails(ResponseModel):
    """Which limit ended the run."""

    reason: str
    """`max_turns`, `max_tool_calls`, `max_tokens`, `max_cost_usd`, `deadline`, `output_schema`,
    `guardrail` …"""
    message: str | None = None
    """For a person."""


class Run(ResponseModel):
    """One execution of an agent, from its input to its last event."""

    model_config = with_example(
        id=RUN_ID,
        status="requires_action",
        agent=None,
        model="offline:rules",
        turn=1,
        usage={
            "input_tokens": 41,
            "output_tokens": 12,
            "total_tokens": 53,
        },
        output=None,
        error=None,
        incomplete_details=None,
        created_by={"type": "key", "id": KEY_ID, "name": "shop"},
        required_actions=[
            {
                "type": "approval",
                "approval_id": APPROVAL_ID,
                "run_id": RUN_ID,
                "call_id": "call_1",
                "tool": "pay",
                "agent": None,
                "arguments": {"amount": 500},
                "digest": DIGEST,
                "expires_at": EXAMPLE_TIME,
                "allowed_decisions": ["approve", "reject", "edit", "respond"],
                "path": [],
            }
        ],
        waiting_for=[],
        last_sequence=6,
        created_at=EXAMPLE_TIME,
        started_at=EXAMPLE_TIME,
        ended_at=None,
        context=None,
        metadata={"order": "A-1017"},
    )

    id: str
    """The same across all pauses."""
    object: Literal["run"] = "run"
    status: RunStatus
    """`completed`, `failed`, `cancelled`, `incomplete` and `expired` are final. In
    `requires_action` nothing runs until someone does what `required_actions` says. A run that
    waits only for callbacks of tools is `in_progress`."""
    agent: str | None
    """The agent that has the run now; null for an inline one."""
    model: str | list[str] | None
    """As it was asked for; null for a workflow, which has none."""
    session_id: str | None = None
    """The conversation it belongs to."""
    continued_from: str | None = None
    """The run that this one goes on from."""
    parent_run_id: str | None = None
    """Of a child run: the run whose call it works on."""
    created_by: Actor | None = None
    """Who started it; of a child run, who started the first one above it."""
    turn: int
    """Model calls so far."""
    usage: Usage
    """Tokens and cost so far, those of its child runs included."""
    output: JsonValue
    """The final output: text, or what a tool that ended the run returned. Null until then."""
    output_parsed: JsonValue = None
    """The output as JSON where `output_schema` asked for it."""
    error: RunError | None
    """Of a failed run."""
    incomplete_details: IncompleteDetails | None
    """Of an incomplete run."""
    required_actions: list[RequiredAction]
    """What someone outside must do for this run or one below it, whatever the status."""
    waiting_for: list[CallbackWait]
    """Calls of this run or one below it that wait for the callback of their tool."""
    last_sequence: int
    """The number of the newest event."""
    created_at: datetime
    """When it was accepted."""
    started_at: datetime | None
    """When a worker took it first."""
    ended_at: datetime | None
    """When it ended."""
    context: JsonObject | None
    """As it was given."""
    metadata: JsonObject
    """As it was given."""

    @classmethod
    def from_row(cls, view: RunView, waiting: Sequence[WaitingCall] = ()) -> Self:
        details, error = view.incomplete_details, view.error
        entries = [render_wait(call) for call in waiting]
        return cls.construct_from_attributes(
            view,
            id=format_id(Prefix.RUN, view.id),
            model=view.config.get("model"),
            session_id=format_optional_id(Prefix.SESSION, view.session_id),
            continued_from=format_optional_id(Prefix.RUN, view.continued_from),
            parent_run_id=format_optional_id(Prefix.RUN, view.parent_run_id),
            created_by=Actor.from_row(view.created_by),
            usage=Usage.model_construct(None, **view.usage),
            error=error and RunError.model_construct(None, **error),
            incomplete_details=details and IncompleteDetails.model_construct(None, **details),
            required_actions=[one for one in entries if not isinstance(one, CallbackWait)],
            waiting_for=[one for one in entries if isinstance(one, CallbackWait)],
            last_sequence=view.last_seq,
        )


class ItemPage(ConversationPage):
    """A page of a run's conversation: messages `{role, content}`, and items with a `type` of
    `tool_call`, `tool_result`, `reasoning` or `hosted_call` (what the model's vendor ran by
    itself); each with its `id`, `agent` and `turn`. `native` is what only one vendor understands
    of an item."""

    model_config = with_example(
        data=[
            {
                "id": "item_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_1",
                "role": "user",
                "content": "Please pay(amount=500)",
                "agent": None,
                "turn": 0,
            }
        ],
        first_id="item_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_1",
        last_id="item_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_1",
        has_more=False,
    )

    data: list[JsonObject]
    """In order; the calls of a response are directly followed by their results."""
