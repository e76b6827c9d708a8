"""Requests of MCP servers for input (elicitation). They become input requests of the call, and the
client of the run answers them.

A server of the protocol of 2026 ends the call with an InputRequiredResult. A server of 2025 can end
it with a URLElicitationRequiredError. In both cases, Runward sends the call again with the answers.
A server of 2025 can also ask while the call is open: see `runward.tools.mcp.open_calls`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from runward.domain.json import JsonObject, UnstorableError, clean_json, compact
from runward.domain.run.outcomes import Failed, FailureKind, NeedsInput, Outcome
from runward.tools.mcp.outcome import result_outcome

if TYPE_CHECKING:
    from mcp.types import InputRequiredResult

ELICITATION: Final = "elicitation/create"
URL_REQUIRED: Final = -32_042
"""The code of URLElicitationRequiredError (MCP 2025-11-25, elicitation)."""
MAX_BYTES: Final = 65_536
_ACTIONS: Final = frozenset({"accept", "decline", "cancel"})
_DECLINED: Final = "The user did not agree to open the address that the tool requires."


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
        return _invalid("The server requested input that Runward cannot provide.")
    params = {key: one["params"] for key, one in asked.items()}
    return request_input(params, {"request_state": result.request_state})


def required_urls(data: Any) -> Outcome | None:
    """Return the URLs in the data of a URLElicitationRequiredError as an input request. None: the
    data contain no URL."""
    given: Any = cast(Any, data).get("elicitations") if isinstance(data, dict) else None
    asked = cast(list[Any], given) if isinstance(given, list) else []
    params = {str(number): one for number, one in enumerate(asked, 1) if _has_url(one)}
    return request_input(params, {"urls": True}) if params else None


def request_input(questions: Mapping[str, JsonValue], more: JsonObject) -> Outcome:
    """Return an input request with the parameters of the questions. `more`: the rest of its
    state."""
    try:
        state, _ = clean_json({"elicitations": dict(questions), **more})
    except UnstorableError as error:
        return _invalid(f"The request cannot be stored: {error}.")
    assert isinstance(state, dict)
    if len(compact(state).encode()) > MAX_BYTES:
        return _invalid(f"The server's request for input has more than {MAX_BYTES} bytes.")
    return NeedsInput({"elicitations": state["elicitations"]}, state)


def answers_open_call(given: JsonObject | None) -> bool:
    """Return whether the input answers an open call. Otherwise, Runward sends the call again."""
    return given is not None and "answered" in cast(JsonObject, given["state"])


def read_answers(given: JsonObject) -> dict[str, JsonObject]:
    """Return the answer to each question, as an `ElicitResult`."""
    state = cast(JsonObject, given["state"])
    questions = cast(dict[str, JsonObject], state["elicitations"])
    return {key: _read_answer(questions, key, given["responses"]) for key in questions}


def read_answered(given: JsonObject) -> list[JsonValue]:
    """Return all questions of an open call that have an answer: `{"question", "answer"}`."""
    state = cast(JsonObject, given["state"])
    questions = cast(JsonObject, state["elicitations"])
    answers = read_answers(given)
    latest: list[JsonValue] = [
        {"question": questions[key], "answer": answer} for key, answer in answers.items()
    ]
    return [*cast(list[JsonValue], state["answered"]), *latest]


def read_input(given: JsonObject | None) -> dict[str, Any] | Failed:
    """Return the parameters that continue a call with the client's input, or the failure of a call
    whose URLs the user declined."""
    from mcp.types import ElicitResult  # noqa: PLC0415

    if given is None or answers_open_call(given):
        return {}
    answers = read_answers(given)
    state = cast(JsonObject, given["state"])
    if "urls" not in state:
        responses = {key: ElicitResult.model_validate(one) for key, one in answers.items()}
        return {"input_responses": responses, "request_state": state["request_state"]}
    if all(one["action"] == "accept" for one in answers.values()):
        return {}
    return Failed(FailureKind.ERROR, _DECLINED, message=_DECLINED)


def _read_answer(questions: Mapping[str, JsonObject], key: str, responses: JsonValue) -> JsonObject:
    """Return the answer to one question: an `ElicitResult` under its key, or for a single question
    the result itself or the content of the form. A missing answer declines."""
    given = responses
    if isinstance(responses, dict) and key in responses:
        given = responses[key]
    elif len(questions) > 1:
        given = None
    if not isinstance(given, dict):
        return {"action": "decline"}
    action, content = "accept", given
    if given.get("action") in _ACTIONS:
        action, content = str(given["action"]), given.get("content") or {}
    schema = questions[key].get("requestedSchema")
    if action != "accept" or schema is None:
        return {"action": action}
    return {"action": action, "content": _complete(schema, content)}


def _complete(schema: JsonValue, content: JsonValue) -> JsonValue:
    """Add the defaults of the form's fields that the answer leaves out (MCP 2025-11-25,
    elicitation)."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict) or not isinstance(content, dict):
        return content
    defaults: JsonObject = {
        name: field["default"]
        for name, field in fields.items()
        if isinstance(field, dict) and "default" in field
    }
    return {**defaults, **content}


def _has_url(question: Any) -> bool:
    return isinstance(question, dict) and isinstance(cast(Any, question).get("url"), str)


def _invalid(detail: str) -> Failed:
    return Failed(FailureKind.INVALID_RESPONSE, detail)
