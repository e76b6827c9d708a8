"""Runs and their conversations, as responses show them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Self

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
from runward.api.registry.inline_models import AgentTool, list_tools
from runward.api.runs.call_models import (
    CallbackWait,
    RequiredAction,
    render_wait,
)
from runward.api.runs.item_types import Item
from runward.domain.events.values import RunErrorCode
from runward.domain.ids import Prefix, format_id, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.run.config import Limits
from runward.domain.run.status import RunStatus
from runward.store.access.keys import ActingKey
from runward.store.codec import config_from_json
from runward.store.runs.views import RunView, WaitingCall


class Usage(ResponseModel):
    """Tokens that the run has used so far, as the providers of its models reported them."""

    input_tokens: int = 0
    """Number of input tokens."""
    output_tokens: int = 0
    """Number of output tokens."""
    cached_tokens: int = 0
    """Number of input tokens that the provider read from its cache."""
    reasoning_tokens: int = 0
    """Number of output tokens that the model used for reasoning."""
    total_tokens: int = 0
    """Number of input and output tokens together."""
    cost_usd: float = 0
    """Cost in US dollars, including child runs. Models without a known price do not count."""


class Actor(ResponseModel):
    """The API key that performed an action."""

    type: Literal["key"] = "key"
    id: str
    """ID of the API key."""
    name: str
    """Name of the API key. A revoked key keeps its name."""

    @classmethod
    def from_row(cls, key: ActingKey | None) -> Self | None:
        return key and cls.from_attributes(key, id=format_id(Prefix.KEY, key.id))


class RunError(ResponseModel):
    """The error that a run failed with."""

    code: RunErrorCode
    """Stable error code, for programs."""
    message: str
    """Description of the error, for people."""


class IncompleteDetails(ResponseModel):
    """The limit that ended a run."""

    reason: str
    """Code of the limit, such as `max_turns`, `max_tool_calls`, `max_tokens`, `max_cost_usd`,
    `budget`, `deadline`, `output_schema`, or `guardrail`."""
    message: str | None = None
    """Description of the limit, for people."""


class RunConfig(ResponseModel):
    """The input and the configuration that a run was started with."""

    input: list[Item]
    """Items that the run was started with: messages, and earlier tool calls with their results. For
    a continued run, only the items that the client added."""
    instructions: str
    """Instructions that the model reads before the input."""
    tools: list[str | AgentTool]
    """Tools that the run may call: names of registered tools, and tools that only this run or its
    agent has."""
    limits: Limits
    """Limits of the run, including default values."""

    @classmethod
    def from_row(cls, view: RunView, given: Sequence[JsonObject]) -> Self:
        config: dict[str, Any] = view.config
        return cls.model_construct(
            None,
            input=given,
            instructions=config.get("instructions", ""),
            tools=list_tools(config_from_json(config)),
            limits=Limits.model_construct(None, **config.get("limits", {})),
        )


class Run(ResponseModel):
    """One execution of an agent or a model, from its input to a final status."""

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
    """ID of the run. It stays the same while the run pauses and resumes."""
    object: Literal["run"] = "run"
    status: RunStatus
    """Status of the run. `completed`, `failed`, `cancelled`, `incomplete`, and `expired` are final.
    `requires_action` means that the run continues only after a person or a client performs one of
    its `required_actions`. A run that waits only for callbacks has the status `in_progress`."""
    agent: str | None
    """Name of the agent that currently executes the run. Null if the run uses no registered
    agent."""
    model: str | list[str] | None
    """Model of the run, or a list of models in order of preference. Null for a workflow, because
    workflows have no model."""
    session_id: str | None = None
    """ID of the session that the run belongs to. Null if the run belongs to no session."""
    continued_from: str | None = None
    """ID of the run that this run continues. Null for other runs."""
    schedule_id: str | None = None
    """ID of the schedule that started the run. Null for other runs."""
    parent_run_id: str | None = None
    """ID of the parent run. Set only for child runs."""
    created_by: Actor | None = None
    """API key that started the run. For a child run, the API key that started its topmost
    ancestor."""
    turn: int
    """Number of turns that the run has had so far."""
    usage: Usage
    """Number of tokens and cost of the run so far, including child runs."""
    output: JsonValue
    """Final output: the text of the model, or the result of the tool that ended the run. Null until
    the run has an output."""
    output_parsed: JsonValue = None
    """Final output parsed as JSON. Null if the run has no `output_schema` or no output yet."""
    error: RunError | None
    """The error that the run failed with. Set only for the status `failed`."""
    incomplete_details: IncompleteDetails | None
    """The limit that ended the run. Null if no limit ended it."""
    required_actions: list[RequiredAction]
    """Actions that a person or a client must perform for this run or its child runs at any depth.
    The list may contain actions even if `status` is not `requires_action`."""
    waiting_for: list[CallbackWait]
    """Tool calls that wait for a callback of their tool. The list covers this run and its child
    runs at any depth."""
    last_sequence: int
    """Sequence number of the newest event of the run."""
    created_at: datetime
    """When the run was accepted."""
    started_at: datetime | None
    """When a worker first claimed the run. Null until then."""
    ended_at: datetime | None
    """When the run ended. Null while it is open."""
    erased_at: datetime | None = None
    """When the content of the run was erased. Null if the content has not been erased."""
    context: JsonObject | None
    """Context that the client set when it started the run. Rules and tools can read it. The model
    never sees it."""
    metadata: JsonObject
    """Custom metadata that the client set when it started the run."""
    config: RunConfig | None = None
    """Input and configuration that the run was started with. Null if the request does not contain
    `include=config`."""

    @classmethod
    def from_row(
        cls,
        view: RunView,
        waiting: Sequence[WaitingCall] = (),
        config: RunConfig | None = None,
    ) -> Self:
        details, error = view.incomplete_details, view.error
        entries = [render_wait(call) for call in waiting]
        return cls.construct_from_attributes(
            view,
            id=format_id(Prefix.RUN, view.id),
            model=view.config.get("model"),
            session_id=format_optional_id(Prefix.SESSION, view.session_id),
            continued_from=format_optional_id(Prefix.RUN, view.continued_from),
            schedule_id=format_optional_id(Prefix.SCHEDULE, view.schedule_id),
            parent_run_id=format_optional_id(Prefix.RUN, view.parent_run_id),
            created_by=Actor.from_row(view.created_by),
            usage=Usage.model_construct(None, **view.usage),
            error=error and RunError.model_construct(None, **error),
            incomplete_details=details and IncompleteDetails.model_construct(None, **details),
            required_actions=[one for one in entries if not isinstance(one, CallbackWait)],
            waiting_for=[one for one in entries if isinstance(one, CallbackWait)],
            last_sequence=view.last_seq,
            config=config,
        )


class RunItemList(ConversationPage):
    """A page of a run's conversation: messages, tool calls, tool results, reasoning, and hosted
    tool calls. `native` contains data that only one provider understands."""

    model_config = with_example(
        data=[
            {
                "id": "item_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_1",
                "type": "message",
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
    """Items in the requested order. Tool calls are followed by their results."""
