"""Envelopes: results of webhook tools that contain more than an output."""

from typing import Annotated, Final

from pydantic import Field, JsonValue, ValidationError

from runward.domain.errors import FieldError
from runward.domain.json import JsonObject
from runward.domain.registry.tools import Frozen, ToolSpec
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.domain.run.state import RunState

MAX_PROBLEM: Final = 300
"""Maximum number of characters of a problem. A tool chooses the names of unknown fields."""


class _EnvelopeOutput(Frozen):
    output: JsonValue = None
    """Result of the call: any JSON value. The model reads it."""


class EnvelopeFields(Frozen):
    """The fields of an envelope besides its output."""

    state: JsonObject | None = None
    """Changes to the state of the session or, without a session, of the run. Null removes a key.
    Null instead of an object: the state does not change."""
    transfer_to: Annotated[str, Field(max_length=64)] | None = None
    """Name of the agent that continues the run. It must be one of the `handoffs` of the current
    agent. Null: the current agent continues."""
    escalate: bool = False
    """Whether the current agent ends after this turn."""
    metadata: JsonObject | None = None
    """Metadata of the call. Runward stores it and never shows it to the model. Null: no
    metadata."""


class ToolEnvelope(EnvelopeFields, _EnvelopeOutput):
    """The result of a tool with `"response": "envelope"`. All fields are optional. Unknown fields
    are not allowed."""


class EnvelopeError(ValueError):
    """The value is not an envelope. The text is the problem."""


def parse_envelope(value: JsonValue) -> ToolEnvelope:
    """Return the envelope. Raises EnvelopeError."""
    try:
        return ToolEnvelope.model_validate(value)
    except ValidationError as error:
        raise EnvelopeError(_describe(error)[:MAX_PROBLEM]) from None


def _describe(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"the envelope has the unknown field `{field}`"
    if not field:
        return "the envelope must be a JSON object"
    return f"the field `{field}` of the envelope is not valid: {first['msg']}"


def make_done(output: JsonValue, fields: EnvelopeFields) -> Done:
    return Done(
        output,
        metadata=fields.metadata or None,
        state=fields.state or None,
        transfer_to=fields.transfer_to,
        escalate=fields.escalate,
    )


def find_envelope_errors(fields: EnvelopeFields, spec: ToolSpec) -> list[FieldError]:
    """Return an error for each field that only a tool with envelopes can send."""
    if spec.response == "envelope":
        return []
    message = "is allowed only for a tool with `response` set to `envelope`"
    given = EnvelopeFields.model_fields.keys() & fields.model_fields_set
    return [FieldError(name, message) for name in sorted(given)]


def check_handoff(state: RunState, outcome: Outcome) -> Outcome:
    """Return the outcome, or a failure if its tool hands off the run to an agent that is not in the
    `handoffs` of the current agent."""
    if not isinstance(outcome, Done) or outcome.transfer_to in (None, *state.config.handoffs):
        return outcome
    known = ", ".join(state.config.handoffs) or "none"
    detail = (
        f"The tool cannot hand off the run to the agent '{outcome.transfer_to}'. The current agent "
        f"can hand off only to: {known}."
    )
    return Failed(FailureKind.INVALID_RESPONSE, detail)
