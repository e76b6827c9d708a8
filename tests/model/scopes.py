"""The scopes: small runs, and how often each disturbance may happen in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from runward.domain.ids import RunId
from runward.domain.run.config import AgentConfig
from runward.domain.run.decisions import (
    ApproveDecision,
    Decision,
    EditDecision,
    RejectDecision,
    RespondDecision,
)
from runward.domain.run.family import Lineage, Member
from runward.domain.run.items import Message
from runward.domain.run.outcomes import (
    AgentRequest,
    Done,
    Failed,
    FailureKind,
    Outcome,
    Waits,
)
from runward.domain.run.response import ModelResponse, RequestedCall
from runward.domain.run.state import Segment, SegmentKind
from runward.domain.run.tools import CompiledTool
from tests.model.rows import RunRow, Tools
from tests.unit.domain_cases import tool

ROOT: Final = RunId(UUID(int=1 << 64))
DONE: Final = Done("ok")
BUSY: Final = Failed(FailureKind.UNAVAILABLE, "busy", status=503)
RESET: Final = Failed(FailureKind.UNKNOWN, "reset")
UNREACHED: Final = Failed(FailureKind.NOT_SENT, "no connection")
TIMEOUT: Final = Failed(FailureKind.TIMEOUT, "no answer")
LATER: Final = Waits()
DECISIONS: Final[Mapping[str, Decision]] = {
    "approve": ApproveDecision(decision="approve"),
    "edit": EditDecision(decision="edit", arguments={"n": 9}),
    "reject": RejectDecision(decision="reject"),
    "respond": RespondDecision(decision="respond", output="By hand."),
}


@dataclass(frozen=True)
class Scope:
    """`responses`: of the model, by turn; after the last it answers in text. `answers`: outcomes
    of each tool. `budget`: how often each disturbance may happen; what is not named does not."""

    name: str
    about: str
    tools: tuple[CompiledTool, ...]
    responses: tuple[tuple[RequestedCall, ...], ...]
    answers: Mapping[str, tuple[Outcome, ...]]
    budget: Mapping[str, int] = field(default_factory=dict[str, int])
    decisions: tuple[str, ...] = ("approve",)
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    members: Mapping[str, Member] = field(default_factory=dict[str, Member])
    functions: Mapping[str, tuple[tuple[AgentRequest, ...], ...]] = field(
        default_factory=dict[str, tuple[tuple[AgentRequest, ...], ...]]
    )
    """The agents that a plugin's functions request: by tool, and at the same time. After the last
    ones, a function answers what `answers` says."""
    child_responses: tuple[tuple[RequestedCall, ...], ...] = ()
    """Of the agents of child runs."""
    others: tuple[CompiledTool, ...] = ()
    """Tools of child runs."""
    workers: int = 2
    slow_rules: bool = False
    """Rules take their time, so that something may happen meanwhile."""

    @property
    def current(self) -> Tools:
        return {one.name: one for one in (*self.tools, *self.others)}

    @property
    def root(self) -> RunRow:
        values = {
            "model": "offline:rules",
            "tools": [one.name for one in self.tools],
            **self.config,
        }
        config = AgentConfig.model_validate(values, strict=False)
        opening = Segment(SegmentKind.INPUT, 0, None, (Message("user", "go"),))
        return RunRow(ROOT, config, segments=(opening,))

    def outcomes(self, tool: str, results: int) -> tuple[Outcome, ...]:
        """What a tool may answer. `results`: of the agents that its function has requested."""
        for requests in self.functions.get(tool, ()):
            if results <= 0:
                return (Waits(on="child", agents=requests),)
            results -= len(requests)
        return self.answers[tool]

    def response(self, lineage: Lineage | None, turn: int) -> ModelResponse:
        """What the model says in this turn."""
        wanted = self.child_responses if lineage else self.responses
        calls = wanted[turn - 1] if turn <= len(wanted) else ()
        return ModelResponse.of("" if calls else "Done.", calls)


def wants(*names: str, turn: int = 1) -> tuple[RequestedCall, ...]:
    return tuple(
        RequestedCall(f"{name}{turn}", name, f'{{"n": {turn}}}') for name in dict.fromkeys(names)
    )


READ: Final = tool("read", idempotent=True, retry={"max_attempts": 2})
PAY: Final = tool("pay")
ASK: Final = tool("ask", on_unknown="ask")
GATED: Final = tool("gated", approval="always")
CLIENT: Final = tool("client", type="client", url=None, timeout_seconds=30)
CALLED: Final = tool("called", idempotent=True)
LIMITED: Final = tool("limited", concurrency={"limit": 1})
CONSULT: Final = tool("consult", type="agent", agent="helper", url=None)

GATHER: Final = tool("gather", type="plugin", url=None)
GATHER_AGAIN: Final = tool("again", type="plugin", url=None, idempotent=True)
ONE, TWO, THREE = (AgentRequest("helper", text) for text in ("one", "two", "three"))

PLAIN: Final = Member(AgentConfig.model_validate({"model": "offline:rules"}, strict=False), 1)
HELPER: Final = Member(
    AgentConfig.model_validate({"model": "offline:rules", "tools": ["gated"]}, strict=False), 1
)
_SMALL: Final = [
    Scope(
        "retry",
        "an idempotent call that may be retried, and input meanwhile",
        (READ,),
        (wants("read"),),
        {"read": (DONE, BUSY)},
        {"input": 1},
    ),
    Scope(
        "drain",
        "an idempotent call that may be retried, and a worker that is asked to stop",
        (READ,),
        (wants("read"),),
        {"read": (DONE, BUSY)},
        {"drain": 1, "crash": 1},
    ),
    Scope(
        "queue",
        "two calls one after the other, another one at the same time, a drain",
        (LIMITED, PAY),
        ((*wants("limited", "pay"), *wants("limited", turn=2)),),
        {"limited": (DONE,), "pay": (DONE,)},
        {"drain": 1},
        workers=1,
    ),
    Scope(
        "rules",
        "a call, a drain and input, and rules that take their time",
        (PAY,),
        (wants("pay"),),
        {"pay": (DONE,)},
        {"drain": 1, "input": 1},
        slow_rules=True,
        workers=1,
    ),
    Scope(
        "freeze",
        "a call that is not idempotent, and a worker that freezes for longer than its lease",
        (PAY,),
        (wants("pay"),),
        {"pay": (DONE,)},
        {"lease": 1},
    ),
    Scope(
        "answers",
        "every answer of a tool that is not idempotent, and a crash",
        (PAY,),
        (wants("pay"),),
        {"pay": (DONE, RESET, UNREACHED, TIMEOUT, BUSY)},
        {"crash": 1},
    ),
    Scope(
        "commit",
        "a commit whose answer is lost, and a statement that arrives late",
        (READ,),
        (wants("read"),),
        {"read": (DONE,)},
        {"late": 1, "resend": 1, "crash": 1},
    ),
    Scope(
        "gate",
        "a gated call: every decision, its expiry, a second decision, and a cancel",
        (GATED,),
        (wants("gated"),),
        {"gated": (DONE,)},
        {"approval": 1, "again": 1, "cancel": 1},
        decisions=tuple(DECISIONS),
    ),
    Scope(
        "mixed",
        "a gated call and one that runs meanwhile",
        (GATED, PAY),
        (wants("gated", "pay"),),
        {"gated": (DONE,), "pay": (DONE,)},
    ),
    Scope(
        "changed",
        "a gated call whose tool is changed or deleted",
        (GATED,),
        (wants("gated"),),
        {"gated": (DONE,)},
        {"change tool": 1, "delete tool": 1},
        decisions=("approve", "edit"),
    ),
    Scope(
        "notice",
        "a tool that is changed while a retry is unwritten and rules take their time",
        (READ,),
        (wants("read"),),
        {"read": (DONE, BUSY)},
        {"change tool": 1},
        slow_rules=True,
        workers=1,
    ),
    Scope(
        "ends",
        "a gated call in a response that fails the run",
        (GATED,),
        ((*wants("gated"), RequestedCall("c2", "nobody", "{}")),),
        {"gated": (DONE,)},
        {"again": 1},
        config={"on_unknown_tool": "fail_run"},
    ),
    Scope(
        "callback",
        "a call that is answered later: once, twice or never; and it asks the caller",
        (CALLED,),
        (wants("called"),),
        {"called": (LATER,)},
        {"answer": 1, "again": 1, "early": 1, "ask": 1},
    ),
    Scope(
        "cancel",
        "a cancel at once and after the turn, with a call in flight",
        (READ,),
        (wants("read"),),
        {"read": (DONE, BUSY)},
        {"cancel": 1, "cancel later": 1},
    ),
    Scope(
        "client",
        "a call that the client runs, a deadline, and a crash",
        (CLIENT,),
        (wants("client"),),
        {},
        {"deadline": 1, "answer": 1, "crash": 1},
        config={"limits": {"deadline_seconds": 600}},
    ),
    Scope(
        "unknown",
        "a call whose outcome a person settles, and a crash",
        (ASK,),
        (wants("ask"),),
        {"ask": (DONE, RESET)},
        {"crash": 1, "retry": 1},
    ),
    Scope(
        "crashes",
        "a run that takes its workers down",
        (READ,),
        (wants("read"),),
        {"read": (DONE,)},
        {"crash": 4},
        workers=1,
    ),
    Scope(
        "child",
        "a child run with a gated call, and a cancel",
        (CONSULT,),
        (wants("consult"),),
        {"gated": (DONE,)},
        {"cancel": 1},
        decisions=("approve", "reject"),
        members={"helper": HELPER},
        child_responses=(wants("gated"),),
        others=(GATED,),
        workers=1,
    ),
    Scope(
        "agents",
        "a function that runs two agents at the same time, and a cancel",
        (GATHER,),
        (wants("gather"),),
        {"gather": (DONE,)},
        {"cancel": 1},
        members={"helper": PLAIN},
        functions={"gather": ((ONE, TWO),)},
        workers=1,
    ),
    Scope(
        "agents lost",
        "a function that is not idempotent and runs two agents in turn, and a crash",
        (GATHER,),
        (wants("gather"),),
        {"gather": (DONE,)},
        {"crash": 1},
        members={"helper": PLAIN},
        functions={"gather": ((ONE,), (TWO,))},
        workers=1,
    ),
    Scope(
        "agents again",
        "an idempotent function that runs an agent, and then two at the same time; a crash",
        (GATHER_AGAIN,),
        (wants("again"),),
        {"again": (DONE,)},
        {"crash": 1},
        members={"helper": PLAIN},
        functions={"again": ((ONE,), (TWO, THREE))},
        workers=1,
    ),
]
_LARGE: Final = [
    Scope(
        "two calls, all at once",
        "an idempotent call and a gated one; a freeze, a crash, a drain and input",
        (READ, GATED),
        (wants("read", "gated"),),
        {"read": (DONE, BUSY), "gated": (DONE,)},
        {"lease": 1, "crash": 1, "drain": 1},
        decisions=("approve", "reject"),
    ),
    Scope(
        "two turns",
        "calls of two turns that are not idempotent; late statements, a freeze and a crash",
        (PAY,),
        (wants("pay"), wants("pay", turn=2)),
        {"pay": (DONE, UNREACHED)},
        {"lease": 1, "crash": 1, "late": 1, "resend": 1},
    ),
    Scope(
        "a retry and everything",
        "an idempotent call that is retried; input, a drain, cancels and a crash",
        (READ,),
        (wants("read"),),
        {"read": (DONE, BUSY)},
        {"input": 1, "drain": 1, "cancel": 1, "cancel later": 1, "crash": 1},
    ),
    Scope(
        "a callback and everything",
        "a call that is answered later; a freeze, a cancel, a crash, late and second answers",
        (CALLED,),
        (wants("called"),),
        {"called": (LATER, DONE)},
        {"answer": 1, "again": 1, "early": 1, "ask": 1, "cancel": 1, "crash": 1, "lease": 1},
    ),
    Scope(
        "a child run, two workers",
        "a child run with a gated call; a cancel, a crash and a freeze",
        (CONSULT,),
        (wants("consult"),),
        {"gated": (DONE,)},
        {"cancel": 1, "crash": 1, "lease": 1},
        decisions=("approve", "reject"),
        members={"helper": HELPER},
        child_responses=(wants("gated"),),
        others=(GATED,),
    ),
    Scope(
        "two agents of a function, two workers",
        "a function that is not idempotent and runs two agents in turn; a crash and a freeze",
        (GATHER,),
        (wants("gather"),),
        {"gather": (DONE,)},
        {"crash": 1, "lease": 1},
        members={"helper": PLAIN},
        functions={"gather": ((ONE,), (TWO,))},
    ),
    Scope(
        "two agents of a function at once",
        "a function that runs two agents at the same time; a cancel, a crash, a late statement",
        (GATHER,),
        (wants("gather"),),
        {"gather": (DONE,)},
        {"cancel": 1, "crash": 1, "late": 1},
        members={"helper": PLAIN},
        functions={"gather": ((ONE, TWO),)},
        workers=1,
    ),
]
SCOPES: Final[Mapping[str, Scope]] = {one.name: one for one in _SMALL}
LARGE: Final[Mapping[str, Scope]] = {one.name: one for one in _LARGE}
