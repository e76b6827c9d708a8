"""A simple model of the correct behavior: the state of each run, how often its tool was called and
with which argument, and the correct response to each request about it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Tool: TypeAlias = Literal["gate", "look", "later", "mine"]
"""`gate` is asked about and may not be repeated, `look` may be, `later` answers by a callback, and
`mine` is run by the client."""
Phase: TypeAlias = Literal["approval", "callback", "client", "over"]
TOOLS: tuple[Tool, ...] = ("gate", "look", "later", "mine")
ANY_HITS = tuple(range(100))


@dataclass(slots=True)
class Policy:
    """Of a tool: `version` grows with each change, deletion included."""

    gated: bool
    deleted: bool = False
    version: int = 1


@dataclass(slots=True)
class Run:
    """`x`: the argument that the client asked for; `sent`: the one that the tool gets. `hits`: how
    often its tool may have been reached. `outcome`: of its call, once it is over. `decided`: the
    decision that counts, and how it is told: "expired" was nobody's."""

    number: int
    id: str
    tool: Tool
    x: str
    phase: Phase
    asked_version: int
    status: str = ""
    hits: tuple[int, ...] = (0,)
    outcome: str | None = None
    decided: dict[str, object] | None = None
    closed: bool = False
    answered: object = None
    sent: str = ""

    def __post_init__(self) -> None:
        self.sent = self.x

    @property
    def expected_statuses(self) -> set[str]:
        match self.phase:
            case "approval" | "client":
                return {"requires_action"}
            case "callback":
                return {"in_progress"}
            case "over":
                return {self.status}

    def end(self, outcome: str, *hits: int, status: str = "completed") -> None:
        self.phase, self.status, self.outcome = "over", status, outcome
        if hits:
            self.hits = hits


def begin(run: Run, policy: Policy) -> None:
    """The model asks for the tool, as its policy is now; and it is sent at once if nobody is asked
    about it. A run that names a tool that is deleted is not accepted."""
    if policy.gated:
        run.phase = "approval"
        run.asked_version = policy.version
    else:
        send(run)


def send(run: Run) -> None:
    match run.tool:
        case "gate" | "look":
            run.end("completed", 1)
        case "later":
            run.phase, run.hits = "callback", (1,)
        case "mine":
            run.phase = "client"


def approve(run: Run, policy: Policy) -> None:
    """An approval is for a tool as it was shown: of another version it is asked for again."""
    if policy.deleted:
        run.end("failed", 0)
    elif policy.version != run.asked_version:
        run.decided, run.closed = None, False
        begin(run, policy)
    else:
        send(run)
