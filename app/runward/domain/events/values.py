"""The possible values of fields in events."""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field


class CallReason(StrEnum):
    """Why a call failed or was not run, as a stable code."""

    TOOL_ERROR = "tool_error"
    NOT_SENT = "not_sent"
    INVALID_RESPONSE = "invalid_response"
    INVALID_OUTPUT = "invalid_output"
    INVALID_ARGUMENTS = "invalid_arguments"
    TRUNCATED = "truncated_response"
    UNKNOWN_TOOL = "unknown_tool"
    REPEATED = "repeated_call"
    LIMIT = "max_tool_calls"
    DECLINED = "declined"
    DECLINED_BEFORE = "declined_before"
    APPROVAL_EXPIRED = "approval_expired"
    GUARDRAIL = "guardrail"
    RESPONDED = "responded"
    RESOLVED = "resolved"
    RUN_ENDED = "run_ended"
    RUN_CANCELLED = "run_cancelled"
    RETURNED_TO_CLIENT = "returned_to_client"


class RunErrorCode(StrEnum):
    """Stable code of the error that a run failed with."""

    MODEL_UNREACHABLE = "model_unreachable"
    MODEL_TIMEOUT = "model_timeout"
    MODEL_STREAM_BROKEN = "model_stream_broken"
    MODEL_UNAVAILABLE = "model_unavailable"
    MODEL_RATE_LIMITED = "model_rate_limited"
    MODEL_CIRCUIT_OPEN = "model_circuit_open"
    MODEL_UNAUTHORIZED = "model_unauthorized"
    MODEL_NOT_FOUND = "model_not_found"
    MODEL_MISCONFIGURED = "model_misconfigured"
    MODEL_REFUSED_REQUEST = "model_refused_request"
    MODEL_INVALID_RESPONSE = "model_invalid_response"
    MODEL_RESPONSE_TOO_LARGE = "model_response_too_large"
    MODEL_FAILED = "model_failed"
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_PRICE = "unknown_price"
    CALL_ID_REUSED = "call_id_reused"
    TOOL_ERROR = "tool_error"
    INVALID_ARGUMENTS = "invalid_arguments"
    TOOL_TIMEOUT = "tool_timeout"
    GUARDRAIL = "guardrail"
    HOOK_FAILED = "hook_failed"
    MAX_TURNS = "max_turns"
    STEP_FAILED = "step_failed"
    CRASH_LOOP = "crash_loop"
    RUN_UNREADABLE = "run_unreadable"
    INTERNAL_ERROR = "internal_error"


class ApprovalStatus(StrEnum):
    """Status of an approval. `pending`: a person must decide. `approved`, `rejected`, `edited`, and
    `responded`: a person has decided. `expired`: nobody decided in time. `cancelled`: the run ended
    first. `superseded`: the tool changed, and Runward created a new approval."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EDITED = "edited"
    RESPONDED = "responded"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


DecisionKind: TypeAlias = Literal["approve", "reject", "edit", "respond"]
CallProgress: TypeAlias = Literal[
    "accepted",
    "awaiting_result",
    "input_required",
    "input_given",
    "received",
    "progress",
    "retried_by_person",
    "child_started",
]
"""Progress of a call while it was open."""

RunCallId: TypeAlias = Annotated[
    str, Field(description="ID of the tool call. Unique within its run.")
]
CalledTool: TypeAlias = Annotated[str, Field(description="Name of the tool that the call is for.")]
EventTurn: TypeAlias = Annotated[
    int, Field(description="Number of the current turn, counted from 1 in each run.")
]
TurnsSoFar: TypeAlias = Annotated[
    int, Field(description="Number of turns that the run has had so far.")
]
Owner: TypeAlias = Annotated[
    str | None,
    Field(
        description="Name of the agent that executes the turn. Null if the run uses no registered "
        "agent."
    ),
]
ArgumentsBytes: TypeAlias = Annotated[
    int,
    Field(
        description="Size of `arguments` in bytes. Set only if `arguments` is too large for the "
        "event."
    ),
]
"""Fields that several kinds of events have."""
