"""The audit log of a project: entries whose hashes form a chain.

The hash of an entry covers everything except its content: the values `before` and `after`, and the
random `salt` of their digests. Therefore, content can be erased and the chain still verifies.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject, compact, compute_digest, is_same_json, to_compact_json

UNHASHED: Final = frozenset({"before", "after", "salt", "hash"})
"""Members of an entry that its hash does not cover. `before_digest` and `after_digest` cover the
content."""
MAX_FIELD_BYTES: Final = 16_384
"""A longer field of a resource, as JSON in UTF-8, is replaced by its digest."""
MAX_INTEGER: Final = 2**53 - 1
MIN_FRACTION: Final = 1e-4
"""All common JSON libraries write integers up to `MAX_INTEGER`, and fractions from `MIN_FRACTION`
to `MAX_INTEGER`, with the same digits and without an exponent."""


class ActorType(StrEnum):
    """Who changed something. `key`: a request with an API key. `console_session`: a person in the
    console. `operator`: a command on the database, or the configuration of the deployment."""

    KEY = "key"
    CONSOLE_SESSION = "console_session"
    OPERATOR = "operator"


class AuditAction(StrEnum):
    """What happened: the type of the resource, and a verb."""

    AGENT_CREATED = "agent.created"
    AGENT_UPDATED = "agent.updated"
    AGENT_DELETED = "agent.deleted"
    APPROVAL_APPROVED = "approval.approved"
    APPROVAL_EDITED = "approval.edited"
    APPROVAL_REJECTED = "approval.rejected"
    APPROVAL_RESPONDED = "approval.responded"
    BUDGET_CREATED = "budget.created"
    BUDGET_UPDATED = "budget.updated"
    BUDGET_DELETED = "budget.deleted"
    CONSOLE_SESSION_CREATED = "console_session.created"
    CONSOLE_SESSION_REFUSED = "console_session.refused"
    CONSOLE_SESSION_DELETED = "console_session.deleted"
    DATA_KEY_CREATED = "data_key.created"
    DATA_KEY_DELETED = "data_key.deleted"
    ERASURE_CREATED = "erasure.created"
    KEY_CREATED = "key.created"
    KEY_REVOKED = "key.revoked"
    LEGAL_HOLD_CREATED = "legal_hold.created"
    LEGAL_HOLD_UPDATED = "legal_hold.updated"
    LEGAL_HOLD_DELETED = "legal_hold.deleted"
    LIMITS_UPDATED = "limits.updated"
    MCP_SERVER_CREATED = "mcp_server.created"
    MCP_SERVER_UPDATED = "mcp_server.updated"
    MCP_SERVER_REFRESHED = "mcp_server.refreshed"
    MCP_SERVER_DELETED = "mcp_server.deleted"
    MCP_SERVER_LOGIN_STARTED = "mcp_server.login_started"
    MCP_SERVER_LOGGED_IN = "mcp_server.logged_in"
    MCP_SERVER_LOGGED_OUT = "mcp_server.logged_out"
    POLICY_UPDATED = "policy.updated"
    PROJECT_CREATED = "project.created"
    RETENTION_UPDATED = "retention.updated"
    RUN_CANCELLED = "run.cancelled"
    RUN_ERASED = "run.erased"
    SCHEDULE_CREATED = "schedule.created"
    SCHEDULE_UPDATED = "schedule.updated"
    SCHEDULE_DELETED = "schedule.deleted"
    SECRET_CREATED = "secret.created"  # noqa: S105
    SECRET_UPDATED = "secret.updated"  # noqa: S105
    SECRET_DELETED = "secret.deleted"  # noqa: S105
    SESSION_DELETED = "session.deleted"
    SESSION_ITEM_DELETED = "session.item_deleted"
    SIGNING_SECRET_ROTATED = "signing_secret.rotated"  # noqa: S105
    TOOL_CREATED = "tool.created"
    TOOL_UPDATED = "tool.updated"
    TOOL_DELETED = "tool.deleted"
    TOOL_SECRET_ROTATED = "tool.secret_rotated"  # noqa: S105
    TOOL_CALL_RESOLVED = "tool_call.resolved"
    WEBHOOK_ENDPOINT_CREATED = "webhook_endpoint.created"
    WEBHOOK_ENDPOINT_UPDATED = "webhook_endpoint.updated"
    WEBHOOK_ENDPOINT_DELETED = "webhook_endpoint.deleted"
    WEBHOOK_ENDPOINT_SECRET_ROTATED = "webhook_endpoint.secret_rotated"  # noqa: S105


class BrokenChainError(ValueError):
    """An entry does not verify. `number`: its number in the chain, as far as it can be read."""

    def __init__(self, number: JsonValue, reason: str) -> None:
        super().__init__(reason)
        self.number = number


@dataclass(frozen=True, slots=True)
class Verified:
    """A part of the chain of a project that verifies. `first` and `last`: numbers. `previous_hash`:
    the hash of the entry before the first one, or None if the chain begins here. `erased`: the
    number of entries without their content. `head`: the number of the entry with the hash that was
    stored before, or None if there is no such entry."""

    project_id: str
    entries: int
    erased: int
    first: int
    last: int
    previous_hash: str | None
    last_hash: str
    head: int | None


def select_changes(
    before: JsonObject | None, after: JsonObject | None
) -> tuple[JsonObject | None, JsonObject | None]:
    """Return the content of an entry. For an update, only the fields that differ."""
    if before is not None and after is not None:
        same = {n for n, one in before.items() if n in after and is_same_json(one, after[n])}
        before = {name: one for name, one in before.items() if name not in same}
        after = {name: one for name, one in after.items() if name not in same}
    return _shorten(before), _shorten(after)


def _shorten(content: JsonObject | None) -> JsonObject | None:
    return content and {
        name: compute_digest(value)
        if len(to_compact_json(value)) > MAX_FIELD_BYTES
        else make_portable(value)
        for name, value in content.items()
    }


def make_portable(value: JsonValue) -> JsonValue:
    """Return the value without numbers that JSON libraries write in different ways, so that
    programs in other languages compute the same digest. A text with the number replaces them."""
    match value:
        case dict():
            return {name: make_portable(one) for name, one in value.items()}
        case list():
            return [make_portable(one) for one in value]
        case float() if value.is_integer() and abs(value) <= MAX_INTEGER:
            return int(value)
        case float() if not MIN_FRACTION <= abs(value) <= MAX_INTEGER:
            return compact(value)
        case int() if abs(value) > MAX_INTEGER:
            return compact(value)
        case _:
            return value


def digest_content(salt: str, content: JsonObject | None) -> str | None:
    """Return the digest of `before` or `after`. None: there is no content."""
    return None if content is None else compute_digest([salt, content])


def hash_entry(entry: Mapping[str, JsonValue]) -> str:
    """Return the hash of an entry as the API shows it, with or without its own hash."""
    return compute_digest({name: one for name, one in entry.items() if name not in UNHASHED})


def verify_chain(entries: Iterable[JsonObject], head: str | None = None) -> Verified | None:
    """Verify entries in the order of their numbers. `head`: a hash that was stored before. Returns
    None if there are no entries. Raises BrokenChainError."""
    count, erased, first, last, known = 0, 0, None, None, None
    for entry in entries:
        link = _verify_entry(entry)
        if last is not None and link.number != last.number + 1:
            reason = f"the entry before it has the number {last.number}"
            raise BrokenChainError(link.number, reason)
        if last is not None and link.project_id != last.project_id:
            raise BrokenChainError(link.number, f"the entry before it is of {last.project_id}")
        if last is not None and link.previous_hash != last.hash:
            reason = "its `previous_hash` is not the hash of the entry before it"
            raise BrokenChainError(link.number, reason)
        count, erased, first, last = count + 1, erased + link.is_erased, first or link, link
        known = link.number if link.hash == head else known
    if first is None or last is None:
        return None
    ends = first.number, last.number, first.previous_hash, last.hash
    return Verified(first.project_id, count, erased, *ends, known)


@dataclass(frozen=True, slots=True)
class _Link:
    project_id: str
    number: int
    previous_hash: str | None
    hash: str
    is_erased: bool


def _verify_entry(entry: JsonObject) -> _Link:
    """Verify the hash and the content of an entry. Raises BrokenChainError."""
    match entry:
        case {
            "project_id": str(project),
            "number": int(number),
            "previous_hash": str() | None as previous,
            "hash": str(hash_),
        } if entry.keys() >= UNHASHED:
            pass
        case _:
            raise BrokenChainError(entry.get("number"), "it is not an entry of an audit log")
    if hash_entry(entry) != hash_:
        raise BrokenChainError(number, "its `hash` does not match it")
    if (previous is None) != (number == 1):
        raise BrokenChainError(number, "only the first entry of a log has no `previous_hash`")
    return _Link(project, number, previous, hash_, _verify_content(number, entry))


def _verify_content(number: int, entry: JsonObject) -> bool:
    """Verify `before` and `after`, and return whether they were erased. Erased content has no
    salt, and its entry belongs to a run."""
    salt = entry["salt"]
    contents = {name: entry[name] for name in ("before", "after")}
    has_content = any(content is not None for content in contents.values())
    if salt is None and not has_content:
        erased = any(entry.get(f"{name}_digest") is not None for name in contents)
        if erased and entry.get("run_id") is None:
            raise BrokenChainError(number, "its content is missing, and it belongs to no run")
        return erased
    if not has_content:
        raise BrokenChainError(number, "it has a `salt`, and no content")
    for name, content in contents.items():
        if (
            not isinstance(salt, str)
            or not isinstance(content, dict | None)
            or digest_content(salt, content) != entry.get(f"{name}_digest")
        ):
            raise BrokenChainError(number, f"its `{name}` does not match `{name}_digest`")
    return False
