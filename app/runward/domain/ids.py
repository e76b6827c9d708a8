"""Identifiers. Inside Runward they are UUIDs, and at the API they are texts with a prefix.

In `run_0198c2…`, the prefix and an underscore precede the UUID's 32 lower-case hexadecimal digits.
Creating an ID needs a clock and randomness, so `runward.store.postgres.db` does it.
"""

from enum import StrEnum
from typing import Final, NewType
from uuid import UUID

ProjectId = NewType("ProjectId", UUID)
RunId = NewType("RunId", UUID)
ApprovalId = NewType("ApprovalId", UUID)
SessionId = NewType("SessionId", UUID)
KeyId = NewType("KeyId", UUID)
CallId = NewType("CallId", str)
"""The model's own ID of a call, unique within its run."""

_HEX_DIGITS: Final = frozenset("0123456789abcdef")


class Prefix(StrEnum):
    RUN = "run"
    APPROVAL = "apr"
    TOOL = "tool"
    CALL = "call"
    KEY = "key"
    PROJECT = "proj"
    EVENT = "evt"
    ITEM = "item"
    SESSION = "sess"
    CONVERSATION = "conv"
    """A session at /v1/conversations. The digits are the same."""
    MCP_SERVER = "mcp"
    WORKER = "wrk"
    WEBHOOK_ENDPOINT = "we"
    WEBHOOK_DELIVERY = "wd"
    ERASURE = "era"
    SCHEDULE = "sched"
    SCHEDULE_SLOT = "slot"
    AUDIT_ENTRY = "aud"
    BUDGET = "bud"


def format_id(prefix: Prefix, value: UUID) -> str:
    return f"{prefix}_{value.hex}"


def read_creation(value: UUID) -> float:
    """Return the Unix time at which an ID was created, in seconds. UUIDv7 (RFC 9562) begins with it
    in milliseconds."""
    return (value.int >> 80) / 1000


def format_optional_id(prefix: Prefix, value: UUID | None) -> str | None:
    return None if value is None else format_id(prefix, value)


def parse_id(prefix: Prefix, text: str) -> UUID | None:
    """Return the UUID, or None if `text` is not an ID of this kind. Callers treat such a text like
    an unknown ID."""
    return parse_any_id(text) if text.startswith(f"{prefix}_") else None


def parse_any_id(text: str) -> UUID | None:
    """Return the UUID, or None if `text` is not an ID of any kind."""
    _, _, digits = text.partition("_")
    if len(digits) != 32 or not _HEX_DIGITS.issuperset(digits):
        return None
    return UUID(hex=digits)
