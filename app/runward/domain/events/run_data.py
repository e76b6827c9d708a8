"""The `data` of events about runs and models."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from runward.domain.events.values import CalledTool, EventTurn, Owner, RunCallId, TurnsSoFar
from runward.domain.json import JsonObject, documented


class RunOrigin(TypedDict, total=False):
    """What a run was started by, if not by a request alone."""

    parent_call_id: str
    continued_from: str


@documented
class RunCreatedData(TypedDict):
    agent: str | None
    """The agent; null for an inline run."""
    model: str | list[str] | None
    """As it was asked for; null for a workflow."""
    tools: list[str]
    """The names of its tools."""
    parent_call_id: NotRequired[str]
    """Of a child run: the call that it works on."""
    continued_from: NotRequired[str]
    """The run that it goes on from."""


@documented
class NothingData(TypedDict):
    """Nothing: the type says it all."""


@documented
class WaitingFor(TypedDict):
    """One call that waits for someone."""

    type: Literal["approval", "callback", "tool_result", "resolve", "child_run"]
    """Whom it waits for."""
    call_id: RunCallId
    tool: CalledTool
    approval_id: NotRequired[str]
    """Of an approval."""
    run_id: NotRequired[str]
    """Of a child run."""


@documented
class RunWaitingData(TypedDict):
    waiting_for: list[WaitingFor]
    """Each call that waits."""


@documented
class ErrorSaid(TypedDict):
    """Why a run failed."""

    code: str
    """For a program."""
    message: str | None
    """For a person."""


@documented
class LimitSaid(TypedDict):
    """Which limit ended a run."""

    reason: str
    """`max_turns`, `deadline` and so on."""
    message: str | None
    """For a person."""


@documented
class RunEndedData(TypedDict):
    output: NotRequired[JsonValue]
    """The final output, cut where it is longer than 32 KiB."""
    truncated: NotRequired[Literal[True]]
    """It was cut; the run has it whole."""
    error: NotRequired[ErrorSaid]
    """Of a failed run."""
    incomplete_details: NotRequired[LimitSaid]
    """Of a run that a limit ended."""


@documented
class MessageCompletedData(TypedDict):
    turn: EventTurn
    agent: Owner
    text: str
    """The whole text."""
    refusal: bool
    """Whether it is the model's refusal."""


@documented
class ReasoningCompletedData(TypedDict):
    turn: EventTurn
    agent: Owner
    reasoning: JsonObject
    """As the vendor gave it."""


@documented
class AgentChangedData(
    TypedDict("_From", {"from": Annotated[str | None, Field(description="Who had the run.")]})
):
    to: str
    """Who has the run now."""
    turn: TurnsSoFar


@documented
class StateUpdatedData(TypedDict):
    call_id: str
    """The call that changed it."""
    changes: JsonObject | None
    """The new values, null for what was removed; null as a whole where it is larger than 32 KiB."""
    changes_bytes: NotRequired[int]
    """How large changes are that are left out."""
    truncated: NotRequired[Literal[True]]
    """The session has its state whole."""


@documented
class InputReceivedData(TypedDict):
    turn: TurnsSoFar
    messages: int
    """How many there were."""


class UsageOrigin(TypedDict, total=False):
    call_id: str


@documented
class UsageUpdatedData(TypedDict):
    turn: TurnsSoFar
    call_id: NotRequired[str]
    """The call whose child run's usage was added."""
    input_tokens: int
    """Read by the model, in all."""
    output_tokens: int
    """Written by the model, in all."""
    cached_tokens: int
    """Of those read, how many the vendor had cached."""
    reasoning_tokens: int
    """Of those written, how many were reasoning."""
    total_tokens: int
    """Read and written together."""
    cost_usd: float
    """What they cost, in US dollars."""


@documented
class ModelRetriedData(TypedDict):
    code: str
    """Why, for a program."""
    message: str
    """Why, for a person."""
    model: NotRequired[str]
    """Which model is asked next, where a request failed."""
    after_seconds: NotRequired[float]
    """After how long, where a request failed."""


@documented
class ModelDowngradedData(TypedDict):
    model: str
    """The model that cannot be told."""
    what: str
    """The part that is left out."""
    why: str
    """Why it is."""


@documented
class PieceData(TypedDict):
    turn: EventTurn
    agent: Owner
    text: Annotated[str, Field(description="The piece.")]
    offset: Annotated[int, Field(description="How many characters come before it.")]


@documented
class ArgumentsPieceData(PieceData):
    call_id: str | None
    """The call's id, as soon as the model says it."""
    tool: str | None
    """Its tool, as soon as the model says it."""


@documented
class RestartedData(TypedDict):
    turn: EventTurn
    agent: Owner
