"""Types for openapi.json: the requests that Runward sends to tools, guardrails and hooks, and their
responses. `runward.tools.webhook.invoker` and `runward.loop.guard_payloads` build the requests."""

from typing import Annotated, Literal, NotRequired, TypeAlias

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from runward.api.runs.item_types import (
    Item,
    ItemPart,
)
from runward.domain.events.run_data import RequestedCallData
from runward.domain.json import JsonObject, documented
from runward.domain.registry.guards import HookPoint, Stage
from runward.domain.run.changed_calls import HookCall


@documented
class CallbackAddress(TypedDict):
    """Callback address of a call. A tool that returns 202 submits the result to this address."""

    url: str
    """URL for POST requests with a Callback as body. No API key is needed."""
    token: str
    """Callback token, which is the last segment of the URL."""


@documented
class ToolCallRequest(TypedDict):
    """The request for one attempt at a tool call."""

    type: Literal["tool_call"]
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the call, as the model's provider generated it. Unique within its run."""
    tool: str
    """Name of the tool."""
    tool_version: int
    """Version of the tool."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    arguments: JsonObject
    """Arguments of the call. They match the tool's `parameters`."""
    context: JsonObject | None
    """Context that the client set when it started the run. Null if the client set no context."""
    attempt: int
    """Number of the attempt, counted from 1 for each call."""
    fence: int
    """Number that increases each time a worker claims the run. If two requests for one call differ,
    trust the request with the higher number."""
    deadline_ms: int
    """Number of milliseconds that Runward waits for the response."""
    callback: CallbackAddress
    """Callback address for tools that return 202 and submit the result later."""
    input: NotRequired[JsonObject]
    """Input that the client submitted for an `input_required` request from the tool. It contains
    the client's `responses` and the tool's `state`. Set only if the tool requested input."""
    state: NotRequired[JsonObject]
    """State of the session or, without a session, of the run, when the call started. Set only if
    the tool has `"response": "envelope"`."""


@documented
class ToolCallCancellation(TypedDict):
    """A notification that Runward no longer waits for the result of a call."""

    type: Literal["tool_call.cancelled"]
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the call, as the model's provider generated it. Unique within its run."""
    tool: str
    """Name of the tool."""
    tool_version: int
    """Version of the tool."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    attempt: int
    """Number of the last attempt, counted from 1 for each call."""
    fence: int
    """Number that increases each time a worker claims the run. If two requests for one call differ,
    trust the request with the higher number."""
    reason: str
    """Why Runward no longer waits: `run_cancelled`, `run_ended`, or `timed_out`."""


@documented
class Notification(TypedDict):
    """A notification of an event to a webhook endpoint."""

    type: str
    """Type of the notification, such as `run.completed`. docs/how-to/webhook-endpoints.md lists the
    types."""
    id: str
    """ID of the event, and the `webhook-id` of the request. Use it to recognize a repeated
    notification."""
    timestamp: str
    """When the event was committed, according to the database's clock."""
    data: JsonObject
    """Data of the event: `run_id`, `sequence`, and the fields of the event that contain no texts or
    values of clients, models, tools, and approvers. With `include`, the data of the last event of a
    run is complete."""


ToolRequest: TypeAlias = Annotated[
    ToolCallRequest | ToolCallCancellation,
    Field(discriminator="type", description="A request to a webhook tool."),
]


@documented
class GuardrailRequest(TypedDict):
    """The request to a guardrail. Its fields depend on `stage`."""

    type: Literal["guardrail"]
    stage: Stage
    """Stage at which Runward calls the guardrail."""
    run_id: str
    """ID of the run."""
    agent: str | None
    """Name of the agent that currently executes the run. Null if the run uses no registered
    agent."""
    context: JsonObject | None
    """Context that the client set when it started the run. Null if the client set no context."""
    call_id: NotRequired[str]
    """ID of the tool call. Unique within its run. Set only for the stages `input` and `output`."""
    tool: NotRequired[str]
    """Name of the tool. Set only for the stages `pre_approval`, `input`, and `output`."""
    tool_version: NotRequired[int | None]
    """Version of the tool. Set only for the stages `pre_approval`, `input`, and `output`."""
    arguments: NotRequired[JsonObject]
    """Arguments of the call. Set only for the stages `pre_approval`, `input`, and `output`."""
    input: NotRequired[list[Item]]
    """Items of the run's input. Set only for the stage `run_input`."""
    output: NotRequired[JsonValue]
    """Output of the call or the run. Set only for the stages `output` and `run_output`."""
    is_error: NotRequired[bool]
    """Whether the model reads the output as an error. Set only for the stage `output`."""
    content: NotRequired[list[ItemPart]]
    """Parts of the result: text, images, and files. Set only for the stage `output` if the tool
    returned parts."""
    detail: NotRequired[str]
    """Technical details of the error, for operators. The model does not see them. Set only for
    the stage `output` if the call failed."""
    child_run_id: NotRequired[str]
    """ID of the call's last child run. Set only for the stage `output` if the call has child
    runs."""


@documented
class HookRequest(TypedDict):
    """The request to a hook. Its fields depend on `on`."""

    type: Literal["hook"]
    on: HookPoint
    """Point at which Runward calls the hook."""
    run_id: str
    """ID of the run."""
    agent: str | None
    """Name of the agent that currently executes the run. Null if the run uses no registered
    agent."""
    context: JsonObject | None
    """Context that the client set when it started the run. Null if the client set no context."""
    turn: int
    """Number of the current turn, counted from 1 in each run."""
    items: NotRequired[list[Item]]
    """Items of the conversation that the model is about to read. Set only for `before_model`."""
    message: NotRequired[str]
    """Text of the model's response. Set only for `after_model`."""
    calls: NotRequired[list[RequestedCallData]]
    """Tool calls that the model requests. Set only for `after_model`."""
    refusal: NotRequired[str | None]
    """The model's refusal. Null if the model did not refuse. Set only for `after_model`."""
    call_id: NotRequired[str]
    """ID of the tool call. Unique within its run. Set only for `before_tool` and `after_tool`."""
    tool: NotRequired[str]
    """Name of the tool. Set only for `before_tool` and `after_tool`."""
    tool_version: NotRequired[int | None]
    """Version of the tool. Set only for `before_tool` and `after_tool`."""
    arguments: NotRequired[JsonObject]
    """Arguments of the call. Set only for `before_tool` and `after_tool`."""
    output: NotRequired[JsonValue]
    """Output of the call. Set only for `after_tool`."""
    is_error: NotRequired[bool]
    """Whether the model reads the output as an error. Set only for `after_tool`."""
    content: NotRequired[list[ItemPart]]
    """Parts of the result: text, images, and files. Set only for `after_tool` if the tool returned
    parts."""
    detail: NotRequired[str]
    """Technical details of the error, for operators. The model does not see them. Set only for
    `after_tool` if the call failed."""
    child_run_id: NotRequired[str]
    """ID of the call's last child run. Set only for `after_tool` if the call has child
    runs."""


@documented
class GuardrailAllow(TypedDict):
    """The guardrail allows the call, input, or output."""

    action: Literal["allow"]


@documented
class GuardrailReject(TypedDict):
    """The guardrail rejects the call, input, or output."""

    action: Literal["reject"]
    message: NotRequired[str]
    """Message that replaces the rejected content. If it is missing, Runward uses a built-in
    message."""


@documented
class GuardrailFail(TypedDict):
    """The guardrail fails the run."""

    action: Literal["fail"]
    message: NotRequired[str]
    """Error message of the failed run. If it is missing, Runward uses a built-in message."""


GuardrailResponse: TypeAlias = Annotated[
    GuardrailAllow | GuardrailReject | GuardrailFail,
    Field(discriminator="action", description="The verdict of a guardrail."),
]


@documented
class HookResponse(TypedDict):
    """The response of a hook. An empty object changes nothing."""

    output: NotRequired[JsonValue]
    """Output that replaces the call's output: any JSON value. Only for `before_tool` and
    `after_tool`."""
    message: NotRequired[str]
    """Message that replaces the model's message. If the response has no `calls`, the message also
    replaces the tool calls. Only for `before_model` and `after_model`."""
    calls: NotRequired[list[HookCall]]
    """Tool calls that replace the calls of the model. Runward drops the calls that are not in this
    list. Only for `after_model`."""
    metadata: NotRequired[JsonObject]
    """Metadata of the call. Runward stores it and never shows it to the model. Only for
    `before_tool` and `after_tool`."""
