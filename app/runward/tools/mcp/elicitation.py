"""Requests of MCP servers for input (InputRequiredResult of the protocol of 2026). They become
input requests of the call. The client of the run answers them, and the call is then sent again."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from runward.domain.json import JsonObject, UnstorableError, clean_json, compact
from runward.domain.run.outcomes import Failed, FailureKind, NeedsInput, Outcome
from runward.tools.mcp.outcome import result_outcome

if TYPE_CHECKING:
    from mcp.types import InputRequiredResult

ELICITATION: Final = "elicitation/create"
MAX_BYTES: Final = 65_536
_ACTIONS: Final = frozenset({"accept", "decline", "cancel"})


def call_outcome(result: Any) -> Outcome:
    """Return the outcome of a CallToolResult or an InputRequiredResult."""
    from mcp.types import InputRequiredResult  # noqa: PLC0415

    if isinstance(result, InputRequiredResult):
        return required_input(result)
    return result_outcome(result)


def required_input(result: "InputRequiredResult") -> Outcome:
    """Return the server's questions as an input request. Runward answers only elicitations."""
    asked = {
        key: one.model_dump(mode="json", by_alias=True, exclude_none=True)
        for key, one in (result.input_requests or {}).items()
    }
    if not asked or any(one["method"] != ELICITATION for one in asked.values()):
        return Failed(
            FailureKind.INVALID_RESPONSE, "The server requested input that Runward cannot provide."
        )
    said: JsonObject = {
        "elicitations": {key: one["params"] for key, one in asked.items()},
        "request_state": result.request_state,
    }
    try:
        state = cast(JsonObject, clean_json(said)[0])
    except UnstorableError as error:
        return Failed(FailureKind.INVALID_RESPONSE, f"The request cannot be stored: {error}.")
    if len(compact(state).encode()) > MAX_BYTES:
        detail = f"The server's request for input has more than {MAX_BYTES} bytes."
        return Failed(FailureKind.INVALID_RESPONSE, detail)
    return NeedsInput({"elicitations": state["elicitations"]}, state)


def read_input(given: JsonObject | None) -> dict[str, Any]:
    """Return the parameters that continue a call with the client's input."""
    from mcp.types import ElicitResult  # noqa: PLC0415

    if given is None:
        return {}
    state = cast(JsonObject, given["state"])
    questions = cast(dict[str, JsonObject], state["elicitations"])
    answers = {
        key: ElicitResult.model_validate(_read_answer(questions, key, given["responses"]))
        for key in questions
    }
    return {"input_responses": answers, "request_state": state["request_state"]}


def _read_answer(questions: Mapping[str, JsonObject], key: str, responses: JsonValue) -> JsonObject:
    """Return the answer to one question: an `ElicitResult` under its key, or for a single question
    the result itself or the content of the form. A missing answer declines."""
    given = responses
    if isinstance(responses, dict) and key in responses:
        given = responses[key]
    elif len(questions) > 1:
        given = None
    if isinstance(given, dict) and given.get("action") in _ACTIONS:
        content = given.get("content")
        answer: JsonObject = {"action": given["action"]}
        return {**answer, "content": _complete(questions[key], content)} if content else answer
    if isinstance(given, dict):
        return {"action": "accept", "content": _complete(questions[key], given)}
    return {"action": "decline"}


def _complete(question: JsonObject, content: JsonValue) -> JsonValue:
    """Add the defaults of the form's fields that the answer leaves out (MCP 2025-11-25,
    elicitation)."""
    schema = question.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict) or not isinstance(content, dict):
        return content
    defaults: JsonObject = {
        name: field["default"]
        for name, field in fields.items()
        if isinstance(field, dict) and "default" in field
    }
    return {**defaults, **content}
