"""The outcomes of one attempt at a call."""

from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import JsonValue

from runward.domain.immutable import immutable
from runward.domain.json import JsonObject, compute_digest
from runward.domain.run.items import Part


class FailureKind(StrEnum):
    NOT_SENT = "not_sent"  # the call was not sent: DNS, connect, TLS, or a forbidden address
    UNKNOWN = "unknown"  # the call was sent, and no complete response arrived
    TIMEOUT = "timeout"  # Runward's timeout passed, whether or not the call was sent
    UNAVAILABLE = "unavailable"  # the response has the status 408, 425, 429, 502, 503 or 504
    ERROR = "error"  # the response has another error status, or `is_error`
    INVALID_RESPONSE = "invalid_response"  # the response is 2xx and cannot be a result
    GUARDRAIL = "guardrail"  # a guardrail rejected the call; the model reads `message`
    WITHHELD = "withheld"  # the call was sent, and a guardrail rejected its result


@immutable
class Done:
    """The attempt succeeded. `parts`: the text, image and file parts of a result with a `content`
    array. `state`: the tool's changes to the session's state, null for removed keys. `transfer_to`:
    the agent that continues the run. `escalate`: the agent ends after this turn."""

    output: JsonValue
    parts: tuple[Part, ...] = ()
    metadata: JsonObject | None = None
    state: JsonObject | None = None
    transfer_to: str | None = None
    escalate: bool = False


@immutable
class Failed:
    """The attempt failed. `message`: the tool's own message for the model, if there is one.
    `detail` is for operators and has no secrets. `status`: the HTTP status. `retry_after` is in
    seconds."""

    reason: FailureKind
    detail: str
    message: str | None = None
    status: int | None = None
    retry_after: float | None = None
    permanent: bool = False
    """Whether a retry cannot succeed, for example because the address is forbidden."""
    fails_run: bool = False
    """Whether a guardrail or the tool's `on_error` function decided that the run must fail."""


@immutable
class AgentRequest:
    """A plugin function's request for a child run. `max_turns` and `output_schema` override the
    agent's configuration."""

    agent: str
    input: str
    max_turns: int | None = None
    output_schema: JsonObject | None = None

    @property
    def digest(self) -> str:
        """Return the digest by which a repeated attempt recognizes the request."""
        return compute_digest(
            {
                "agent": self.agent,
                "input": self.input,
                "max_turns": self.max_turns,
                "output_schema": self.output_schema,
            }
        )


@immutable
class Waits:
    """The result arrives later: through the tool's callback, from a child run, or from the client.
    `agents`: the child runs that a plugin function requests. Runward runs the function again after
    all of these child runs."""

    on: Literal["callback", "child", "client"] = "callback"
    agents: tuple[AgentRequest, ...] = ()


@immutable
class NeedsInput:
    """The tool needs input from the client before it can continue. Runward returns `state` to the
    tool together with the input."""

    requests: JsonValue
    state: JsonValue = None


Outcome: TypeAlias = Done | Failed | Waits | NeedsInput


@immutable
class InputRequest:
    """A tool's request for input from the client, or a plugin function's request for child runs.
    `number` counts the requests of the call. Runward returns `state` to the tool together with the
    input. If the request is for child runs, `requests` identifies those that have no result yet,
    and `state` contains the results of the others. `responses`: the input, after the client
    has submitted it. `attempt`: the attempt that sent the request."""

    number: int
    attempt: int
    requests: JsonValue
    state: JsonValue
    answered: bool = False
    responses: JsonValue = None

    @property
    def input(self) -> JsonObject:
        """Return the input that Runward sends to the tool."""
        return {"responses": self.responses, "state": self.state}
