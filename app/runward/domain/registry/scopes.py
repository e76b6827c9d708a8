"""The permissions of an API key, and those that each kind of request needs. No scope implies
another."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from runward.domain.ids import KeyId, ProjectId


class Scope(StrEnum):
    """Permission of an API key. `runs:read`: read all resources except API keys. `runs:write`:
    start and change runs and sessions. `tools:write`: change tools, agents, MCP servers, secrets,
    and the policy. `approvals:decide`: decide on approvals and record unknown outcomes. `admin`:
    manage API keys."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"  # runs, sessions, input, cancel, continue, client results
    TOOLS_WRITE = "tools:write"  # tools, agents, MCP servers
    APPROVALS_DECIDE = "approvals:decide"  # decide an approval, settle an unknown outcome
    ADMIN = "admin"  # the project's keys; see `Principal.operator`


READ_RUNS: Final = (Scope.RUNS_READ, Scope.RUNS_WRITE)
READ_TOOLS: Final = (Scope.RUNS_READ, Scope.TOOLS_WRITE)
READ_APPROVALS: Final = (Scope.RUNS_READ, Scope.APPROVALS_DECIDE)
"""The scopes for a GET: `runs:read` or the scope that changes the resource. One of them is
enough."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The person or service behind a request, as identified by its API key. `operator`: `admin` on
    a key of the project `default`, which may also list and create projects and create keys for any
    of them, and nothing else in them."""

    project_id: ProjectId
    key_id: KeyId
    key_name: str
    scopes: frozenset[Scope]
    operator: bool = False
    session: bytes | None = field(default=None, repr=False, compare=False)
    """The digest of the console session's token. None: the key itself was sent."""

    def may(self, any_of: tuple[Scope, ...]) -> bool:
        """Return whether the principal has one of the scopes. An empty `any_of` is allowed for
        every valid key."""
        return not any_of or not self.scopes.isdisjoint(any_of)
