"""What Runward POSTs to tools, guardrails and hooks, and what these may answer, for openapi.json:
types alone. `runward.tools.webhook.invoker` and `runward.loop.guard_payloads` make them."""

from typing import Annotated, Literal, NotRequired, TypeAlias

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from runward.api.openapi.item_data import (
    HostedCallItem,
    MessageItem,
    ReasoningItem,
    ShownPart,
    ToolCallItem,
    ToolResultItem,
)
from runward.domain.json import JsonObject, documented
from runward.domain.registry.guards import Moment, Stage

Item: TypeAlias = MessageItem | ToolCallItem | ToolResultItem | ReasoningItem | HostedCallItem


@documented
class CallbackAddress(TypedDict):
    """Where a tool that answers 202 says the rest."""

    url: str
    """POST a Callback there. No API key is needed."""
    token: str
    """Its last segment."""


@documented
class ToolCallRequest(TypedDict):
    """One attempt at a call."""

    type: Literal["tool_call"]
    run_id: str
    """Whose call it is."""
    call_id: str
    """The model's own id of it, unique in its run."""
    tool: str
    """The tool's name."""
    tool_version: int
    """The version that is called."""
    agent: str | None
    """The agent's name; null for an inline run."""
    arguments: JsonObject
    """They match the tool's `parameters`."""
    context: JsonObject | None
    """What the caller gave the run."""
    attempt: int
    """1, 2, 3 … of this call."""
    fence: int
    """Of two requests for one call, believe the higher."""
    deadline_ms: int
    """For how long the answer is waited for."""
    callback: CallbackAddress
    """Where to answer later."""
    input: NotRequired[JsonObject]
    """What the caller answered to `input_required`: `responses`, and your `state`."""


@documented
class ToolCallCancelled(TypedDict):
    """Nobody waits for the call's answer any more."""

    type: Literal["tool_call.cancelled"]
    run_id: str
    """Whose call it is."""
    call_id: str
    """The model's own id of it, unique in its run."""
    tool: str
    """The tool's name."""
    tool_version: int
    """The version that was called."""
    agent: str | None
    """The agent's name; null for an inline run."""
    attempt: int
    """The last attempt."""
    fence: int
    """Of two requests for one call, believe the higher."""
    reason: str
    """Why: `run_cancelled`, `run_ended` …"""


ToolRequest: TypeAlias = Annotated[ToolCallRequest | ToolCallCancelled, Field(discriminator="type")]


@documented
class GuardrailRequest(TypedDict):
    """What a guardrail is asked about. Which fields are there depends on `stage`."""

    type: Literal["guardrail"]
    stage: Stage
    """When it is asked."""
    run_id: str
    """The run."""
    agent: str | None
    """The agent's name; null for an inline run."""
    context: JsonObject | None
    """What the caller gave the run."""
    call_id: NotRequired[str]
    """Of a call: its id in its run."""
    tool: NotRequired[str]
    """Of a call: its tool."""
    tool_version: NotRequired[int | None]
    """Of a call: the tool's version."""
    arguments: NotRequired[JsonObject]
    """Of a call."""
    input: NotRequired[list[Item]]
    """Of `run_input`: the items that came in."""
    output: NotRequired[JsonValue]
    """Of `output` and `run_output`: what came of it."""
    is_error: NotRequired[bool]
    """Of `output`: whether the model is told that it failed."""
    content: NotRequired[list[ShownPart]]
    """Of `output`: the parts of a result that has any."""


@documented
class RequestedCall(TypedDict):
    """A call that a model asks for, as yet unchecked."""

    call_id: str
    """The model's own id of it."""
    name: str
    """The tool's name, as the model wrote it."""
    arguments: JsonObject
    """Empty where they are no JSON object."""
    arguments_text: NotRequired[str]
    """What the model wrote, where it was no JSON object."""


@documented
class HookRequest(TypedDict):
    """What a hook is told. Which fields are there depends on `on`."""

    type: Literal["hook"]
    on: Moment
    """What it stands before or after."""
    run_id: str
    """The run."""
    agent: str | None
    """The agent's name; null for an inline run."""
    context: JsonObject | None
    """What the caller gave the run."""
    turn: int
    """The model's turn."""
    items: NotRequired[list[Item]]
    """Of `before_model`: the conversation."""
    message: NotRequired[str]
    """Of `after_model`: the model's text."""
    calls: NotRequired[list[RequestedCall]]
    """Of `after_model`: the calls that it asks for."""
    refusal: NotRequired[str | None]
    """Of `after_model`: the model's refusal."""
    call_id: NotRequired[str]
    """Of a call: its id in its run."""
    tool: NotRequired[str]
    """Of a call: its tool."""
    tool_version: NotRequired[int | None]
    """Of a call: the tool's version."""
    arguments: NotRequired[JsonObject]
    """Of a call."""
    output: NotRequired[JsonValue]
    """Of `after_tool`: what came of it."""
    is_error: NotRequired[bool]
    """Of `after_tool`: whether the model is told that it failed."""
    content: NotRequired[list[ShownPart]]
    """Of `after_tool`: the parts of a result that has any."""


@documented
class GuardrailAllows(TypedDict):
    """Go on."""

    action: Literal["allow"]


@documented
class GuardrailRejects(TypedDict):
    """Refuse this call, or this input or output."""

    action: Literal["reject"]
    message: NotRequired[str]
    """What takes its place; a fixed text without one."""


@documented
class GuardrailFails(TypedDict):
    """End the run."""

    action: Literal["fail"]
    message: NotRequired[str]
    """Why the run fails; a fixed text without one."""


GuardrailAnswer: TypeAlias = Annotated[
    GuardrailAllows | GuardrailRejects | GuardrailFails, Field(discriminator="action")
]


@documented
class HookAnswer(TypedDict):
    """Empty: go on."""

    output: NotRequired[JsonValue]
    """Of a tool hook: the call's output, any JSON."""
    message: NotRequired[str]
    """Of a model hook: the model's message."""
    metadata: NotRequired[JsonObject]
    """Of a tool hook: stored, and never shown to the model."""
