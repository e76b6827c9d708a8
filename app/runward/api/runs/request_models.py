"""The bodies of requests about runs."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from runward.api.http.models import Metadata, RequestModel, UtcDatetime, with_example
from runward.api.registry.agent_fields import AgentFields
from runward.api.runs.input_models import Input, build_items
from runward.domain.ids import Prefix, SessionId, parse_id
from runward.domain.json import JsonObject
from runward.domain.not_found import SessionNotFoundError
from runward.domain.registry.tools import ToolName
from runward.domain.run.config import ModelNames
from runward.domain.run.items import Item
from runward.domain.run.notifications import RunWebhook
from runward.domain.run.resolve import Answer, CallbackCompleted, CallbackFailed
from runward.domain.run.sessions import ConflictMode

_RUN_FIELDS = {
    "agent",
    "input",
    "context",
    "limits",
    "metadata",
    "session_id",
    "on_conflict",
    "priority",
    "start_at",
    "webhook",
}
"""Fields that a request may set together with `agent`. The agent defines all others."""


class _RunFields(RequestModel):
    """The fields that are first in openapi.json. `AgentFields` describes the last two."""

    input: Input
    """Input of the run: a string, or a chat history in the format of OpenAI's Chat Completions API.
    Runward does not run the tool calls of a history."""
    agent: ToolName | None = None
    """Name of a registered agent. If `agent` is set, the request must not set fields that configure
    an agent, such as `model` or `tools`. Null: the request itself contains the configuration."""
    model: ModelNames | None = None
    instructions: str = ""


class StartRun(AgentFields, _RunFields):
    """A run to start: either with a registered `agent`, or with a `model` and its configuration."""

    model_config = with_example(
        model="offline:rules",
        instructions="Pay what is asked for.",
        input="Please pay(amount=500)",
        tools=["pay"],
        limits={"max_turns": 5},
        metadata={"order": "A-1017"},
    )

    session_id: Annotated[str, Field(max_length=64)] | None = None
    """ID of the session that the run belongs to. The model sees the session's earlier conversation.
    Null: the run belongs to no session."""
    on_conflict: Literal["queue", "reject", "cancel_previous"] | None = None
    """What happens if another run of the session is open. Null: the session's `on_conflict`
    applies."""
    context: JsonObject | None = None
    """Context for rules and tools. The model never sees it. Null: no context."""
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    """Custom metadata of the run: up to 64 keys and 16 KiB as JSON."""
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    """Priority in the queue. Runs with a higher priority start first within the project. It does
    not affect the runs of other projects. Child runs have the priority of their parent run."""
    start_at: UtcDatetime | None = None
    """Time before which the run does not start, at most one year ahead. Until then, the run is
    `queued`. The deadline of the run counts from this time. Null: the run starts as soon as
    possible."""
    webhook: RunWebhook | None = None
    """Webhook for notifications of this run, including the approvals of its child runs. Null: only
    the project's webhook endpoints get notifications."""

    @model_validator(mode="after")
    def _check_agent_or_model(self) -> Self:
        if (self.agent is None) == (self.model is None and self.kind == "llm"):
            raise ValueError("must have either agent or model")
        own = self.model_fields_set - _RUN_FIELDS - {"model"}
        if self.agent is not None and own:
            raise ValueError(f"{min(own)} is defined by the agent and must be omitted")
        return self

    def to_items(self) -> tuple[Item, ...]:
        return build_items(self.input)

    def find_session(self) -> tuple[SessionId, ConflictMode | None] | None:
        """Return the session of the run, and what happens to its other runs. Raises
        SessionNotFoundError."""
        if self.session_id is None:
            return None
        value = parse_id(Prefix.SESSION, self.session_id)
        if value is None:
            raise SessionNotFoundError
        on_conflict = None if self.on_conflict is None else ConflictMode(self.on_conflict)
        return SessionId(value), on_conflict


class SendInput(RequestModel):
    """A message for a run that has not ended."""

    model_config = with_example(input="And send me the receipt.")

    input: Input
    """Input for the model: a string, or a list of messages. The model reads it in its next turn,
    after all open tool calls have results."""


class ContinueRun(RequestModel):
    """How to continue a run that a limit has ended."""

    model_config = with_example(max_turns=5)

    max_turns: Annotated[int, Field(ge=1, le=50)] | None = None
    """Maximum number of additional turns. Null: the `max_turns` of the previous run."""
    input: Input | None = None
    """Message that the model reads before the run continues. Null: no message."""


class CancelRun(RequestModel):
    """Options for canceling a run. If there is no body, the mode is `immediate`."""

    mode: Literal["immediate", "after_turn"] = "immediate"
    """`immediate`: the run ends before Runward responds, and running calls are recorded as
    cancelled. `after_turn`: the model's current response and the calls that have started can finish
    first."""


class SubmitToolResult(RequestModel):
    """The result of a tool that the client runs, or the input that a tool requests. Set either
    `output` or `error`."""

    model_config = with_example(output={"temperature": 21.5})

    output: JsonValue = None
    """Output of the call: any JSON value, including null. The model reads text unchanged and other
    values as JSON."""
    error: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """Error message that the model reads."""

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if ("output" in self.model_fields_set) == (self.error is not None):
            raise ValueError("must have either output or error")
        return self

    def to_answer(self) -> Answer:
        if self.error is not None:
            return CallbackFailed(status="failed", message=self.error)
        return CallbackCompleted(status="completed", output=self.output)
