"""Names for what FastAPI writes out at each place: enumerations and unions. A generated client
then has one type for each, with a name that means something."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, TypeAdapter

from runward.api.openapi.item_data import ShownPart
from runward.api.openapi.tidy import Json
from runward.api.responses.inputs import ItemIn, PartIn
from runward.api.responses.models import JsonSchemaIn, PlainText, ToolIn
from runward.api.runs.call_models import RequiredAction
from runward.api.runs.request_models import Input, InputPart
from runward.domain.events.values import CallProgress, DecisionKind
from runward.domain.json import JsonObject
from runward.domain.registry.guards import Guardrail, Hook, Moment, RunStage, ToolStage
from runward.domain.registry.mcp_auth import AuthMethod
from runward.domain.registry.tools import ExecutorKind, HostedKind, OnUnknown, ToolType
from runward.domain.run.config import AgentKind
from runward.domain.run.decisions import Decision
from runward.domain.run.items import Role
from runward.domain.run.resolve import Callback, Resolution
from runward.domain.run.sessions import OnConflict

NAMED: Final[Mapping[str, tuple[Any, str]]] = {
    "AgentKind": (AgentKind, "What an agent does: ask a model, or run other agents."),
    "ApprovalMode": (Literal["never", "always"], "Whether a person is asked before a call."),
    "AuthMethod": (AuthMethod, "How a client's secret is sent to an authorization server."),
    "ActionType": (
        Literal["approval", "resolve", "tool_result"],
        "What a call waits for: a decision, a record of its outcome, or a result.",
    ),
    "Callback": (Callback, "What a tool says that answered 202."),
    "CallProgress": (
        CallProgress,
        "What happened to a call on its way.",
    ),
    "CancelMode": (
        Literal["immediate", "after_turn"],
        "Whether what has started may still finish.",
    ),
    "ChildOutput": (Literal["final", "json"], "What of a child run is a call's output."),
    "Decision": (Decision, "What a person says about a call."),
    "DecisionKind": (DecisionKind, "What may be decided about a call."),
    "ExecutorKind": (ExecutorKind, "A kind of vendors' own tool that is carried out here."),
    "FailureMode": (
        Literal["return_error", "fail_run"],
        "Whether the model is told, or the run ends.",
    ),
    "Guardrail": (Guardrail, "What is asked whether something may go on."),
    "Hook": (Hook, "What is told, and may answer instead."),
    "HostedKind": (HostedKind, "A kind of tool that models' vendors run."),
    "FormatIn": (
        Annotated[PlainText | JsonSchemaIn, Field(discriminator="type")],
        "What the answer is to be: any text, or JSON of a schema.",
    ),
    "Input": (Input, "A text, or messages of a conversation."),
    "InputPart": (InputPart, "A part of a message: text, an image or a file."),
    "ItemIn": (ItemIn, "An item of a conversation, in OpenAI's words."),
    "ItemPart": (ShownPart, "A part of an item: text, an image or a file."),
    "ItemRole": (
        Literal["user", "assistant", "system", "developer"],
        "Who said a message, in OpenAI's words.",
    ),
    "JsonObject": (JsonObject, "Any JSON object."),
    "MaxTurnsMode": (
        Literal["incomplete", "summarise", "fail"],
        "What happens when a run has used its turns.",
    ),
    "MessagePhase": (
        Literal["commentary", "final_answer"],
        "Whether a message is the answer or on the way to it.",
    ),
    "Moment": (Moment, "What a hook stands before or after."),
    "OnConflict": (OnConflict, "What a run does while another one of its session is open."),
    "OnUnknown": (OnUnknown, "What happens when nobody knows whether a call took effect."),
    "Order": (Literal["asc", "desc"], "`asc`: the oldest first; `desc`: the newest first."),
    "PartIn": (PartIn, "A part of a message, in OpenAI's words."),
    "RegisteredToolType": (
        Literal["webhook", "agent", "client", "hosted"],
        "How a tool that a project registers is executed.",
    ),
    "RememberScope": (Literal["run", "session"], "For what a decision is remembered."),
    "RequiredAction": (RequiredAction, "What someone outside must do for a run."),
    "Resolution": (Resolution, "What became of a call whose outcome was unknown."),
    "ResponseStatus": (
        Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"],
        "How far a response is.",
    ),
    "ResponseToolKind": (Literal["function", "mcp"], "A client's function or a registered tool."),
    "Role": (Role, "Who said a message."),
    "RunStage": (RunStage, "What of a run a guardrail is asked about."),
    "TextPartKind": (Literal["input_text", "output_text"], "Whose text it is."),
    "ToolChoiceMode": (
        Literal["auto", "none", "required"],
        "Whether the model may, must not or must call a tool.",
    ),
    "ToolIn": (ToolIn, "A client's function, or registered tools, in OpenAI's words."),
    "ToolStage": (ToolStage, "When a guardrail is asked about a call."),
    "ToolType": (ToolType, "How a tool is executed."),
    "ToolUseMode": (
        Literal["run_llm_again", "stop_on_first_tool"],
        "Whether the model sees the results of calls.",
    ),
    "TrialOutcome": (
        Literal["completed", "accepted", "failed"],
        "How one call of a tool ended; `accepted`: it would call back.",
    ),
    "Truncation": (Literal["auto", "disabled"], "As in OpenAI's API; only `disabled` is done."),
    "Verbosity": (Literal["low", "medium", "high"], "How much the model is to say."),
    "WaitingKind": (
        Literal["approval", "callback", "tool_result", "resolve", "child_run"],
        "Whom a call waits for.",
    ),
}
"""Name -> the type as the code has it, and what it is."""

_SHAPES: Final = frozenset({"enum", "oneOf", "anyOf", "additionalProperties"})
_WORDS: Final = frozenset({"title", "description", "default", "examples"})


def give_names(document: Json) -> Json:
    """Everywhere in the document the name stands for the type."""
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
