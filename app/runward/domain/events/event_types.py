"""The event types of a run, with what each one's `data` says. `docs/events.md` lists the same."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject, compact

MAX_VALUE_BYTES: Final = 32_768
"""A larger value is not repeated in an event; the ledger has it whole. An event of 64 KiB holds
one of them and all else."""
MAX_PER_RUN: Final = 10_000
"""Events after which nobody outside may add more to a run."""

STORED: Final[Mapping[str, str]] = {
    "run.created": "The run was accepted: its agent, model and tools.",
    "run.started": "A worker took it for the first time.",
    "run.waiting": "Nothing can run until someone acts: `waiting_for` names what. A run that"
    " waits only for callbacks has no such event.",
    "run.resumed": "A worker took it again, after a wait or after its former worker was lost.",
    "run.completed": "Last event: the run has its `output`.",
    "run.failed": "Last event: `error` has a code and a message.",
    "run.cancelled": "Last event: someone cancelled it.",
    "run.incomplete": "Last event: a limit was reached; `incomplete_details` names it.",
    "run.expired": "Last event: its deadline passed while it waited.",
    "message.completed": "The model's whole text of one turn.",
    "reasoning.completed": "The model's reasoning of one turn, as far as the vendor shows it.",
    "tool_call.created": "The model asked for a call; its exact arguments.",
    "tool_call.approval_requested": "A person is asked: approval id and digest.",
    "tool_call.approval_decided": "Who decided what, or that a remembered decision covered it.",
    "tool_call.started": "Committed before the first byte is sent: attempt and digest.",
    "tool_call.progress": "The tool accepted the call for later, or reported progress.",
    "tool_call.completed": "The call's output.",
    "tool_call.failed": "The call has an error result, with its `reason`.",
    "tool_call.timed_out": "No complete answer within the call's time.",
    "tool_call.rejected": "A person or a guardrail refused it, or nobody answered in time.",
    "tool_call.outcome_unknown": "It was sent and may or may not have taken effect.",
    "tool_call.cancelled": "The run ended before the call had a result.",
    "agent.changed": "The run was handed over: `from` one agent `to` another.",
    "state.updated": "What a call changed of the shared state, null for what it removed.",
    "input.received": "Somebody sent another message while the run was open.",
    "usage.updated": "Tokens used by the run so far.",
    "model.retried": "A model request failed and is tried again, or with the next model.",
    "model.downgraded": "The model cannot be told a part of what was asked, which is left out.",
}

TRANSIENT: Final[Mapping[str, str]] = {
    "message.delta": "A piece of the model's text, as it comes.",
    "reasoning.delta": "A piece of the model's reasoning, as it comes.",
    "tool_call.arguments.delta": "A piece of a call's arguments, as it comes.",
    "message.restarted": "The model's stream broke and starts again: what was shown is void.",
}
"""Streamed while they happen, without an SSE `id`; never stored."""


def bounded_field(name: str, value: JsonValue) -> JsonObject:
    """`value` under `name` for an event's data, or null and how large it is."""
    size = len(compact(value).encode())
    if size <= MAX_VALUE_BYTES:
        return {name: value}
    return {name: None, f"{name}_bytes": size, "truncated": True}
