"""Names for enumerations and unions, which FastAPI repeats at each place. With names, a generated
client has one type for each."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from pydantic import TypeAdapter

from runward.api.completions.request_models import CompletionFormat, CompletionTool
from runward.api.completions.response_models import FinishReason
from runward.api.openapi.tidy import Json
from runward.api.registry.agent_fields import ToolChoiceInput
from runward.api.registry.function_tools import ToolDefinition
from runward.api.registry.inline_models import ToolEntry
from runward.api.responses.inputs import ResponseInputItem, ResponseInputPart
from runward.api.responses.models import (
    Includable,
    ResponseFormat,
    ResponseTool,
)
from runward.api.responses.output_types import ItemStatus, ResponseOutputItem, ResponseOutputPart
from runward.api.runs.call_models import RequiredAction
from runward.api.runs.input_models import Input, InputMessage, UserRole
from runward.api.runs.input_parts import (
    ImageDetail,
    InputAssistantPart,
    InputPart,
    InputTextType,
)
from runward.api.runs.item_types import Item, ItemPart
from runward.domain.events.values import CallProgress, DecisionKind
from runward.domain.json import JsonObject
from runward.domain.registry.guards import (
    Guardrail,
    Hook,
    HookPoint,
    Stage,
)
from runward.domain.registry.mcp_auth import AuthMethod, Grant, LoginStatus
from runward.domain.registry.tools import (
    ComputerEnvironment,
    ExecutorKind,
    HostedToolKind,
    ToolResponse,
    ToolType,
    UnknownOutcomeMode,
)
from runward.domain.run.config import AgentKind
from runward.domain.run.decisions import Decision
from runward.domain.run.items import MessageRole
from runward.domain.run.notifications import NotificationPattern
from runward.domain.run.resolve import Callback, Resolution
from runward.domain.run.sessions import ConflictMode

NAMED: Final[Mapping[str, tuple[Any, str]]] = {
    "AgentKind": (
        AgentKind,
        "Kind of an agent: `llm` calls a model, and the other kinds are workflows that run other "
        "agents.",
    ),
    "ApprovalMode": (Literal["never", "always"], "Whether calls of a tool need approval."),
    "AuthMethod": (AuthMethod, "How a client secret is sent to an authorization server."),
    "GrantType": (Grant, "An OAuth grant with which Runward gets access tokens."),
    "LoginStatus": (LoginStatus, "Status of a person's login to an MCP server."),
    "ActionType": (
        Literal["approval", "resolve", "tool_result"],
        "What a tool call waits for: a decision (`approval`), a record of its outcome "
        "(`resolve`), or a result (`tool_result`).",
    ),
    "Callback": (
        Callback,
        "The body of a callback: progress, a result, a failure, or a request for input.",
    ),
    "CallProgress": (
        CallProgress,
        "Progress of a tool call. `accepted`: the tool returned 202. `awaiting_result`: the "
        "client must submit the result. `input_required`: the tool requests input. `input_given`: "
        "the client submitted the input. `received`: a result arrived and is being checked. "
        "`progress`: the tool reported progress. `retried_by_person`: a person chose to send the "
        "call again. `child_started`: a child run was started.",
    ),
    "CancelMode": (
        Literal["immediate", "after_turn"],
        "Whether the model's current response and running calls can finish before the run ends.",
    ),
    "ChildOutput": (
        Literal["final", "json"],
        "Which part of a child run becomes the result of the tool call.",
    ),
    "Decision": (Decision, "A person's decision about a tool call."),
    "DecisionKind": (DecisionKind, "Kind of a decision about a tool call."),
    "ComputerEnvironment": (
        ComputerEnvironment,
        "Kind of environment that the screen of a computer shows.",
    ),
    "ExecutorKind": (
        ExecutorKind,
        "Kind of tool that providers define and that a webhook or plugin tool runs instead.",
    ),
    "FailureMode": (
        Literal["return_error", "fail_run"],
        "What happens after a failure: the model reads an error, or the run fails.",
    ),
    "Guardrail": (
        Guardrail,
        "A check that may reject a tool call, a run's input, or a run's output.",
    ),
    "Hook": (
        Hook,
        "A hook that Runward calls before or after a model request or a tool call. The "
        "response can replace data.",
    ),
    "HostedToolKind": (HostedToolKind, "Kind of tool that model providers run."),
    "ResponseFormat": (
        ResponseFormat,
        "Format of the model's output: text, a JSON object, or JSON that matches a schema.",
    ),
    "Input": (Input, "A string, or the messages of a conversation."),
    "ImageDetail": (ImageDetail, "Level of detail of an image, in OpenAI's format."),
    "InputTextType": (
        InputTextType,
        "Kind of a text part. `input_text` has the same meaning as `text`.",
    ),
    "InputUserRole": (
        UserRole,
        "Role of the author of a message that no model wrote. `developer` has the same meaning as "
        "`system`.",
    ),
    "InputAssistantPart": (
        InputAssistantPart,
        "A part of a message of the assistant: text, an image, a file, or a refusal.",
    ),
    "InputMessage": (
        InputMessage,
        "A message of a conversation, in the format of OpenAI's Chat Completions API.",
    ),
    "InputPart": (InputPart, "A part of a message: text, an image, or a file."),
    "Item": (Item, "An item of a conversation."),
    "ResponseInputItem": (ResponseInputItem, "An item of a conversation, in OpenAI's format."),
    "ItemPart": (ItemPart, "A part of an item: text, an image, or a file."),
    "ItemRole": (
        Literal["user", "assistant", "system", "developer"],
        "Role of a message's author, in OpenAI's format. `developer` has the same meaning as "
        "`system`.",
    ),
    "JsonObject": (JsonObject, "Any JSON object."),
    "MaxTurnsMode": (
        Literal["incomplete", "summarise", "fail"],
        "What happens when a run reaches its maximum number of turns.",
    ),
    "MessagePhase": (
        Literal["commentary", "final_answer"],
        "Whether a message is the final answer or an intermediate comment.",
    ),
    "GuardrailStage": (
        Stage,
        "Stage at which a guardrail checks a tool call or a run.",
    ),
    "HookPoint": (
        HookPoint,
        "Point at which a hook is called: before or after a model request, or before or after a "
        "tool call.",
    ),
    "CompletionFinishReason": (FinishReason, "Why a chat completion ended."),
    "CompletionFormat": (
        CompletionFormat,
        "Format of a completion's output: text, any JSON object, or JSON that matches a schema.",
    ),
    "CompletionTool": (
        CompletionTool,
        "A function that the client runs, or registered tools, in OpenAI's format.",
    ),
    "ConflictMode": (
        ConflictMode,
        "What happens to a run that is started while another run of its session is open.",
    ),
    "UnknownOutcomeMode": (
        UnknownOutcomeMode,
        "What happens if it is unknown whether a call took effect.",
    ),
    "SortOrder": (
        Literal["asc", "desc"],
        "Order of a list: ascending or descending.",
    ),
    "ResponseOutputItem": (ResponseOutputItem, "An item of a response."),
    "ResponseItemStatus": (ItemStatus, "Status of an output item."),
    "ResponseOutputPart": (ResponseOutputPart, "A part of a message of a response."),
    "ResponseInputPart": (ResponseInputPart, "A part of a message, in OpenAI's format."),
    "NotificationPattern": (
        NotificationPattern,
        "A type of notification, or all types with a prefix.",
    ),
    "RegisteredToolType": (
        Literal["webhook", "agent", "client", "hosted"],
        "How Runward executes a tool that a project registers.",
    ),
    "RememberScope": (
        Literal["run", "session"],
        "Where a remembered decision applies: the rest of the run, or also later runs of the "
        "session.",
    ),
    "RequiredAction": (
        RequiredAction,
        "An action that a person or a client must perform for a run.",
    ),
    "Resolution": (Resolution, "A person's record of a tool call's outcome."),
    "ResponseStatus": (
        Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"],
        "Status of a response.",
    ),
    "ResponseInclude": (
        Includable,
        "Additional output data that a client of OpenAI's API can request.",
    ),
    "ResponseToolKind": (
        Literal["function", "mcp"],
        "Kind of a tool: a function that the client runs, or a registered tool (`mcp`).",
    ),
    "MessageRole": (MessageRole, "Role of a message's author."),
    "ResponseTextPartType": (
        Literal["input_text", "output_text"],
        "Kind of a text part: `input_text` for text sent to the model, `output_text` for text "
        "from the assistant.",
    ),
    "ToolChoiceInput": (
        ToolChoiceInput,
        "Whether the model must call a tool, or the tool that it must call. The formats of "
        "OpenAI's APIs are accepted.",
    ),
    "ToolEntry": (
        ToolEntry,
        "A tool of a run or an agent: the name of a registered tool, tools of an MCP server, the "
        "definition of a tool, or a namespace with definitions.",
    ),
    "ToolDefinition": (
        ToolDefinition,
        "A tool in Runward's format, or in the format of one of OpenAI's APIs.",
    ),
    "ToolChoiceMode": (
        Literal["auto", "none", "required"],
        "Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool.",
    ),
    "ResponseTool": (
        ResponseTool,
        "A function or a namespace of functions that the client runs, or registered tools, in "
        "OpenAI's format.",
    ),
    "ToolResponseMode": (
        ToolResponse,
        "How Runward reads the response of a webhook tool: as the output of the call, or as an "
        "envelope that contains the output.",
    ),
    "ToolType": (ToolType, "How Runward executes a tool."),
    "ToolUseMode": (
        Literal["run_llm_again", "stop_on_first_tool"],
        "Whether the model reads the results of tool calls or the first result ends the run.",
    ),
    "ToolMedia": (
        Literal["in_result", "after_results"],
        "Where a model receives images and files of a tool. `in_result`: in the result of the tool "
        "call. `after_results`: in a user message after the results.",
    ),
    "ToolTestOutcome": (
        Literal["completed", "accepted", "failed"],
        "Outcome of a test call. `accepted`: the tool returned 202 and would submit the result "
        "later.",
    ),
    "Truncation": (
        Literal["auto", "disabled"],
        "What happens if the input exceeds the model's context window. `auto`: Runward drops the "
        "oldest items. `disabled`: the request to the model fails.",
    ),
    "Verbosity": (Literal["low", "medium", "high"], "How detailed the model's answer should be."),
    "WaitingKind": (
        Literal["approval", "callback", "tool_result", "resolve", "child_run"],
        "What a tool call waits for. `approval`: a decision. `callback`: a callback from the tool. "
        "`tool_result`: a result or input from the client. `resolve`: a person who records the "
        "outcome. `child_run`: a child run.",
    ),
}
"""Name -> the type in the code, and its description."""

_SHAPES: Final = frozenset({"enum", "oneOf", "anyOf", "additionalProperties"})
_WORDS: Final = frozenset({"title", "description", "default", "examples"})


def give_names(document: Json) -> Json:
    """Replace each type in NAMED by a reference to its name, everywhere in the document."""
    schemas: Json = document["components"]["schemas"]
    named: Json = {}
    shape: Any
    for name, (shape, text) in NAMED.items():
        made = TypeAdapter[Any](shape).json_schema(ref_template="#/components/schemas/{model}")
        made.pop("$defs", None)
        named[name] = {"description": text} | schemas.get(name, {}) | _bare(made)
    ids = {_id(schema): name for name, schema in named.items()}
    shown = _replaced(document, ids)
    components: Json = shown["components"]["schemas"]
    for name, schema in named.items():
        inner = {key: _replaced(value, ids) for key, value in schema.items()}
        components[name] = inner
    return shown


def _replaced(node: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_replaced(each, ids) for each in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    found = cast("Json", node)
    if not _SHAPES.isdisjoint(found) and (name := ids.get(_id(found))):
        words = {key: value for key, value in found.items() if key in _WORDS}
        return {"$ref": f"#/components/schemas/{name}", **words}
    return {
        key: value if key == "examples" else _replaced(value, ids) for key, value in found.items()
    }


def _bare(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if key not in _WORDS}


def _id(schema: Json) -> str:
    return json.dumps(_bare(schema), sort_keys=True)
