"""The scopes of API keys, and the scopes that each kind of request requires. No scope includes
another scope."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from runward.domain.ids import KeyId, ProjectId
from runward.domain.limits import NO_KEY_LIMITS, NO_LIMITS, KeyLimits, ProjectLimits


class Scope(StrEnum):
    """Permission of an API key. `runs:read`: read all resources except API keys, webhook
    endpoints, budgets, limits, the retention, legal holds and the audit log. `runs:write`: start,
    change and erase runs and sessions. `tools:write`: change tools, agents, MCP servers, secrets,
    and the policy. `approvals:decide`: decide on approvals and record unknown outcomes. `admin`:
    manage API keys, webhook endpoints, budgets, limits, the retention and legal holds, and read the
    audit log."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"  # start, continue and cancel runs; sessions, input, client results
    TOOLS_WRITE = "tools:write"  # tools, agents, MCP servers
    APPROVALS_DECIDE = "approvals:decide"  # decide on approvals, record unknown outcomes
    ADMIN = "admin"  # all else, such as keys, limits and the audit log; see `Principal.operator`


READ_RUNS: Final = (Scope.RUNS_READ, Scope.RUNS_WRITE)
READ_TOOLS: Final = (Scope.RUNS_READ, Scope.TOOLS_WRITE)
READ_APPROVALS: Final = (Scope.RUNS_READ, Scope.APPROVALS_DECIDE)
"""The scopes for GET requests: `runs:read`, or the scope that changes the resource. One of them is
sufficient."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The person or service behind a request, identified by its API key. `operator`: the key
    belongs to the project `default` and has the scope `admin`. It may also list and create
    projects, and create keys for them. It has no other access to them."""

    project_id: ProjectId
    key_id: KeyId
    key_name: str
    scopes: frozenset[Scope]
    operator: bool = False
    limits: ProjectLimits = NO_LIMITS
    key_limits: KeyLimits = NO_KEY_LIMITS
    session: bytes | None = field(default=None, repr=False, compare=False)
    """The digest of the console session's token. None: the request contained the key itself."""
    address: str | None = field(default=None, compare=False)
    """The address of the client that sent the request."""
    request_id: str | None = field(default=None, compare=False)

    def may(self, any_of: tuple[Scope, ...]) -> bool:
        """Return whether the principal has one of the scopes. If `any_of` is empty, every valid key
        is allowed."""
        return not any_of or not self.scopes.isdisjoint(any_of)
