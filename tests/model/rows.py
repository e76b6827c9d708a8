"""The database as a value: the columns of a run's rows that decisions depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import ApprovalId, CallId, ProjectId, RunId
from runward.domain.run.config import AgentConfig
from runward.domain.run.family import Lineage
from runward.domain.run.state import ApprovalRequest, Call, Segment
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import CompiledTool
from runward.store.access.keys import DEFAULT_PROJECT

PROJECT: Final[ProjectId] = DEFAULT_PROJECT
Lease: TypeAlias = Literal["held", "expired"]


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """`due`: its time has passed, though nobody may have swept it up yet."""

    request: ApprovalRequest
    status: ApprovalStatus = ApprovalStatus.PENDING
    decision: str | None = None
    due: bool = False

    @property
    def id(self) -> ApprovalId:
        return self.request.id


@dataclass(frozen=True, slots=True)
class RunRow:
    """`available`: False stands for `infinity`. `last_write`: a write id and, which the table does
    not say, the fence of the claim that wrote it. `due_calls`: whose deadline has passed."""

    id: RunId
    config: AgentConfig
    agent: str | None = None
    status: RunStatus = RunStatus.QUEUED
    fence: int = 0
    version: int = 0
    lease: Lease | None = None
    available: bool = True
    last_write: tuple[int, int] | None = None
    claims: int = 0
    lost_leases: int = 0
    turn: int = 0
    cancel_requested: bool = False
    overdue: bool = False
    lineage: Lineage | None = None
    output: Any = None
    error: str | None = None
    segments: tuple[Segment, ...] = ()
    calls: Mapping[CallId, Call] = field(default_factory=dict[CallId, Call])
    due_calls: frozenset[CallId] = frozenset()
    approvals: Mapping[ApprovalId, ApprovalRow] = field(
        default_factory=dict[ApprovalId, ApprovalRow]
    )


Rows: TypeAlias = tuple[RunRow, ...]
Tools: TypeAlias = Mapping[str, CompiledTool]
"""The enabled tools in their current versions."""
