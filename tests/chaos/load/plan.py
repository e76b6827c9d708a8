"""The plan of each run, computed only from the seed and the run's number.

The plan's ID (`plan-000123`) is in the run's input, in the arguments of its tool calls and in the
requests to its models. Clients, model servers and tool servers compute the same plan from it, so
they share no state and can respond correctly after any crash.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Any, Final, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]

PROJECTS: Final = 3
MODEL_NAMES: Final = 32
"""Names of the main model. The service's circuit breaker counts failures by name."""
SHORT_SECONDS: Final = 1.0
"""The time of calls whose tool hangs or calls back too late."""

KIND_WEIGHTS: Final = {
    "plain": 3,
    "webhook_idempotent": 4,
    "webhook": 4,
    "parallel": 3,
    "retry": 2,
    "gated_approve": 3,
    "gated_edit": 2,
    "gated_reject": 2,
    "gated_respond": 2,
    "gated_expire": 2,
    "callback": 4,
    "client_tool": 2,
    "child": 2,
    "workflow": 2,
    "session": 3,
    "mcp": 3,
    "responses": 2,
    "cancel": 4,
    "continue": 2,
    "input": 2,
    "resolve": 2,
}
"""Each kind of run and how many of it there are in `CYCLE` runs."""
CYCLE: Final = sum(KIND_WEIGHTS.values())
ENDING_ALONE: Final = frozenset(
    {
        *("plain", "webhook", "webhook_idempotent", "parallel", "retry", "callback"),
        *("gated_expire", "mcp", "workflow"),
    }
)
"""Runs that need no client. A client may lose sight of one that it created without a key."""
_PLAN_ID: Final = re.compile(r"plan-(\d{6})")

ModelFault: TypeAlias = Literal["429", "500", "503", "hang", "cut", "reset", "foul"]
MODEL_FAULTS: Final[tuple[ModelFault, ...]] = ("429", "500", "503", "hang", "cut", "reset", "foul")
"""`foul`: a stream with a tool's name that no notification can hold, which is cut."""

Creation: TypeAlias = Literal["post", "wait", "stream", "abandon", "half", "race", "unkeyed"]
"""How the run is created: a POST, with `?wait`, with a stream as its answer, given up by the
client before the answer, sent by half, several times at once, or without an Idempotency-Key."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a model makes. `behaviors`: what the tool server does with the first
    attempt, the second …; the last one holds for all later ones."""

    id: str
    tool: str
    behaviors: tuple[str, ...] = ("answer",)
    arguments: Json = field(default_factory=dict[str, Any])

    def behavior(self, attempt: int) -> str:
        return self.behaviors[min(max(attempt, 1), len(self.behaviors)) - 1]


@dataclass(frozen=True, slots=True)
class Turn:
    """A model response: calls, or a text where there are none. The first requests for it meet the
    `faults`, one each. `slow`: it is streamed piece by piece."""

    calls: tuple[Call, ...] = ()
    faults: tuple[ModelFault, ...] = ()
    slow: bool = False


Script: TypeAlias = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """`when`: the type of the event after which the run is cancelled, `delay` seconds later."""

    mode: str
    when: str
    delay: float


@dataclass(frozen=True, slots=True)
class Plan:
    """`scripts`: of each model that the run may ask, by its role. `decisions`: for every approval
    of the run; several are a race, none lets it expire. `disconnects`: after how many frames the
    reader closes its stream. `start`: how the run names its model or agent."""

    number: int
    kind: str
    project: int
    scripts: dict[str, Script]
    start: Json
    creation: Creation = "post"
    decisions: tuple[Json, ...] = ()
    resolution: Json | None = None
    cancel: Cancel | None = None
    disconnects: tuple[int, ...] = ()
    input_after: str | None = None
    continue_turns: int | None = None
    continue_input: bool = False
    session: str | None = None
    expects: Json = field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        return f"plan-{self.number:06d}"

    @property
    def calls(self) -> dict[str, Call]:
        return {
            call.id: call
            for script in self.scripts.values()
            for turn in script
            for call in turn.calls
        }

    def turn(self, role: str, number: int) -> Turn:
        script = self.scripts.get(role, ())
        return script[number] if number < len(script) else Turn()


def plan_id_in(text: str) -> str | None:
    """Return the last plan id in a text."""
    found = _PLAN_ID.findall(text)
    return f"plan-{found[-1]}" if found else None


def number_of(plan_id: str) -> int:
    return int(plan_id.removeprefix("plan-"))


def role_of(model: str) -> str:
    """Return the role of a model: `main-07` and `main` have the same."""
    return re.sub(r"-\d+$", "", model)


def usage_of(plan_id: str, role: str, turn: int) -> dict[str, int]:
    """Return the tokens of a model's answer, which depend on nothing else."""
    digest = zlib.crc32(f"{plan_id}/{role}/{turn}".encode())
    return {"input_tokens": 10 + digest % 90, "output_tokens": 1 + digest // 90 % 50}


def answer_of(plan_id: str, role: str) -> str:
    """Return the final text of a model. It names the plan, since a workflow passes it on."""
    return f"{plan_id}: {role} is done."


@lru_cache(maxsize=4096)
def plan_of(seed: int, number: int) -> Plan:
    random = Random(f"{seed}/{number}")
    kind = _order(seed)[number % CYCLE]
    plan = Plan(
        number,
        kind,
        project=random.randrange(PROJECTS),
        scripts={},
        start=_inline(random),
        creation=_creation(random),
        disconnects=_disconnects(random),
    )
    plan = _BUILDERS[kind](plan, random)
    if plan.creation == "unkeyed" and kind not in ENDING_ALONE:
        plan = replace(plan, creation="post")
    return replace(plan, expects=_expectations(plan))


@lru_cache(maxsize=16)
def _order(seed: int) -> list[str]:
    """Return the kinds of `CYCLE` runs one after another."""
    kinds = [kind for kind, weight in KIND_WEIGHTS.items() for _ in range(weight)]
    Random(seed).shuffle(kinds)
    return kinds


def _inline(random: Random) -> Json:
    provider = "openai-responses" if random.random() < 0.25 else "openai"
    settings: Json = {"timeout_seconds": 8.0, "first_token_timeout_seconds": 3.0}
    if random.random() < 0.25:
        settings |= {"stream": False, "timeout_seconds": 4.0}
    model = f"{provider}:main-{random.randrange(MODEL_NAMES):02d}"
    return {"model": model, "model_settings": settings}


def _creation(random: Random) -> Creation:
    options: list[Creation] = ["post", "wait", "stream", "abandon", "half", "race", "unkeyed"]
    return random.choices(options, [50, 10, 10, 8, 4, 12, 6])[0]


def _disconnects(random: Random) -> tuple[int, ...]:
    return tuple(random.randrange(1, 8) for _ in range(random.choice((0, 0, 0, 1, 1, 2))))


def _turn(random: Random, *calls: Call) -> Turn:
    """Return a turn with at most two faults: the service asks a model four times."""
    faults: tuple[ModelFault, ...] = ()
    if random.random() < 0.15:
        faults = tuple(
            random.choices(MODEL_FAULTS, [4, 3, 2, 1, 3, 2, 3], k=random.choice((1, 1, 1, 2)))
        )
    return Turn(calls, faults, slow=random.random() < 0.08)


def _script(random: Random, *turns: tuple[Call, ...]) -> Script:
    return (*(_turn(random, *calls) for calls in turns), _turn(random))


_UNSURE: Final = ("hang", "reset_before", "reset_after", "cut", "drip")
_BAD: Final = ("error_500", "is_error", "not_json", "deep", "too_large", "binary", "empty")
_JOBS: Final = ("later", "twice", "early", "failed_later", "progress", "later", "later_slow")


def _fetch(random: Random, call_id: str) -> Call:
    """A call of the idempotent tool."""
    behaviors = random.choices(
        [
            ("answer",),
            ("slow",),
            ("reset_before", "answer"),
            ("reset_after", "answer"),
            ("cut", "error_503", "answer"),
            ("error_503", "answer"),
            ("retry_after", "answer"),
            ("hang",),
            (random.choice(_BAD),),
        ],
        [10, 4, 3, 4, 2, 3, 1, 1, 3],
    )[0]
    return Call(call_id, "fetch_short" if behaviors == ("hang",) else "fetch", behaviors)


def _charge(random: Random, call_id: str) -> Call:
    """A call of the tool that must not be repeated."""
    behavior = random.choices(
        ["answer", "slow", random.choice(_UNSURE), "error_503", random.choice(_BAD)],
        [10, 5, 4, 2, 3],
    )[0]
    return Call(call_id, "charge_short" if behavior in ("hang", "drip") else "charge", (behavior,))


def _job(random: Random, call_id: str) -> Call:
    """A call of a tool that answers later."""
    if random.random() < 0.2:
        return Call(call_id, "job_short", (random.choice(("too_late", "never")),))
    return Call(call_id, "job", (random.choice(_JOBS),))


def _refund(call_id: str, tool: str = "refund") -> Call:
    return Call(call_id, tool, ("answer",), {"amount": 500})


_DECISIONS: Final[dict[str, Json]] = {
    "gated_approve": {"decision": "approve"},
    "gated_reject": {"decision": "reject", "message": "no"},
    "gated_edit": {"decision": "edit"},
    "gated_respond": {"decision": "respond", "output": "by hand"},
}


def _with(plan: Plan, random: Random, *turns: tuple[Call, ...], **changes: Any) -> Plan:
    """Return the plan with the turns of its main model, and the tools that it may call."""
    tools = sorted({call.tool for calls in turns for call in calls})
    start = plan.start | ({"tools": tools} if tools else {})
    scripts = {"main": _script(random, *turns)}
    return replace(plan, **({"scripts": scripts, "start": start} | changes))


def _plain(plan: Plan, random: Random) -> Plan:
    return _with(plan, random)


def _webhook_idempotent(plan: Plan, random: Random) -> Plan:
    turns = [(_fetch(random, f"c{n}"),) for n in range(random.choice((1, 1, 2)))]
    return _with(plan, random, *turns)


def _webhook(plan: Plan, random: Random) -> Plan:
    turns = [(_charge(random, f"c{n}"),) for n in range(random.choice((1, 1, 2)))]
    return _with(plan, random, *turns)


def _parallel(plan: Plan, random: Random) -> Plan:
    makers = (_fetch, _charge, _job)
    calls = [random.choice(makers)(random, f"c{n}") for n in range(random.choice((3, 4, 6)))]
    return _with(plan, random, tuple(calls))


def _retry(plan: Plan, random: Random) -> Plan:
    behaviors = random.choice(
        [("retry_after", "answer"), ("error_503", "retry_after", "answer"), ("error_429", "answer")]
    )
    return _with(plan, random, (Call("c0", "fetch", behaviors),))


def _gated(plan: Plan, random: Random) -> Plan:
    decisions = (_DECISIONS[plan.kind],)
    if random.random() < 0.4:
        others = [one for kind, one in _DECISIONS.items() if kind != plan.kind]
        decisions += tuple(random.sample(others, random.choice((1, 2, 3))))
    first = (_refund("c0"), *((_fetch(random, "c1"),) if random.random() < 0.4 else ()))
    second = ((_refund("c2"),),) if random.random() < 0.2 else ()
    return _with(plan, random, first, *second, decisions=decisions)


def _gated_expire(plan: Plan, random: Random) -> Plan:
    return _with(plan, random, (_refund("c0", "refund_brief"),))


def _callback(plan: Plan, random: Random) -> Plan:
    calls = tuple(_job(random, f"c{n}") for n in range(random.choice((1, 1, 2))))
    return _with(plan, random, calls)


def _client_tool(plan: Plan, random: Random) -> Plan:
    more = (_fetch(random, "c1"),) if random.random() < 0.3 else ()
    return _with(plan, random, (Call("c0", "read_file"), *more))


def _child(plan: Plan, random: Random) -> Plan:
    asks = Call("c0", "ask_clerk", arguments={"input": f"{plan.id}: see to it."})
    below = random.choice((_charge(random, "k0"), _fetch(random, "k0"), _refund("k0")))
    plan = _with(plan, random, (asks,), decisions=({"decision": "approve"},))
    return replace(plan, scripts=plan.scripts | {"clerk": _script(random, (below,))})


def _workflow(plan: Plan, random: Random) -> Plan:
    agent = random.choice(("in_turn", "at_once"))
    scripts = {
        "first": _script(random, (_fetch(random, "f0"),)),
        "second": _script(random, (_charge(random, "s0"),)),
    }
    return replace(plan, scripts=scripts, start={"agent": agent})


def _session(plan: Plan, random: Random) -> Plan:
    """All runs of one cycle share a session, and so a project."""
    cycle = plan.number // CYCLE
    call = random.choice((_fetch(random, "c0"), _charge(random, "c0"), _refund("c0")))
    return _with(
        plan,
        random,
        (Call(f"{call.id}-{plan.number}", call.tool, call.behaviors, call.arguments),),
        decisions=({"decision": "approve"},),
        project=cycle % PROJECTS,
        session=f"session-{cycle}",
    )


def _mcp(plan: Plan, random: Random) -> Plan:
    behavior = random.choice(("answer", "answer", "slow", "cut", "is_error", "hang", "error_500"))
    tool = random.choice(("box_deposit", "box_lookup"))
    return _with(plan, random, (Call("c0", tool, (behavior,)),))


def _responses(plan: Plan, random: Random) -> Plan:
    """Started at /v1/responses with an agent as the model."""
    call = random.choice((_fetch(random, "c0"), _charge(random, "c0"), _refund("c0")))
    creation: Creation = random.choice(("post", "stream", "abandon"))
    return replace(
        plan,
        scripts={"desk": _script(random, (call,))},
        start={"agent": f"desk-{random.randrange(8):02d}"},
        decisions=({"decision": "approve"},),
        creation=creation,
    )


def _cancel(plan: Plan, random: Random) -> Plan:
    when, calls, decisions = random.choice(
        (
            ("run.created", (_fetch(random, "c0"),), ()),
            ("run.started", (_fetch(random, "c0"),), ()),
            ("tool_call.started", (Call("c0", "charge", ("slow",)),), ()),
            ("tool_call.progress", (Call("c0", "job", (random.choice(_JOBS),)),), ()),
            ("tool_call.approval_requested", (_refund("c0"),), ({"decision": "approve"},)),
            ("tool_call.completed", (Call("c0", "charge"),), ()),
            ("tool_call.progress", (Call("c0", "ask_clerk", arguments=_asked(plan)),), ()),
        )
    )
    mode = random.choice(("immediate", "immediate", "after_turn"))
    delay = random.choice((0.0, 0.0, random.random() * 0.2))
    plan = _with(plan, random, calls, decisions=decisions, cancel=Cancel(mode, when, delay))
    return replace(plan, scripts=plan.scripts | {"clerk": _script(random, (_fetch(random, "k0"),))})


def _asked(plan: Plan) -> Json:
    return {"input": f"{plan.id}: see to it."}


def _continue(plan: Plan, random: Random) -> Plan:
    plan = _with(plan, random, (_fetch(random, "c0"),), (_charge(random, "c1"),))
    return replace(
        plan,
        start=plan.start | {"limits": {"max_turns": 1}},
        continue_turns=5,
        continue_input=random.random() < 0.5,
    )


def _input(plan: Plan, random: Random) -> Plan:
    when = random.choice(("run.started", "tool_call.started", "tool_call.progress"))
    call = random.choice((Call("c0", "charge", ("slow",)), Call("c0", "job", ("later",))))
    return _with(plan, random, (call,), input_after=when)


def _resolve(plan: Plan, random: Random) -> Plan:
    resolution: Json = random.choice(
        (
            {"resolution": "completed", "output": "looked up"},
            {"resolution": "failed", "message": "it was not made"},
            {"resolution": "retry"},
        )
    )
    behaviors = (random.choice(("reset_before", "reset_after", "cut")), "answer")
    return _with(plan, random, (Call("c0", "transfer", behaviors),), resolution=resolution)


_BUILDERS: Final[dict[str, Callable[[Plan, Random], Plan]]] = {
    "plain": _plain,
    "webhook_idempotent": _webhook_idempotent,
    "webhook": _webhook,
    "parallel": _parallel,
    "retry": _retry,
    "gated_approve": _gated,
    "gated_edit": _gated,
    "gated_reject": _gated,
    "gated_respond": _gated,
    "gated_expire": _gated_expire,
    "callback": _callback,
    "client_tool": _client_tool,
    "child": _child,
    "workflow": _workflow,
    "session": _session,
    "mcp": _mcp,
    "responses": _responses,
    "cancel": _cancel,
    "continue": _continue,
    "input": _input,
    "resolve": _resolve,
}

IDEMPOTENT: Final = frozenset({"fetch", "fetch_short", "read_file", "ask_clerk"})
NOT_SENT: Final = frozenset({"reject", "respond"})


def _expectations(plan: Plan) -> Json:
    """Return only what is certain whatever fails: a worker may end anywhere."""
    expected: Json = {"statuses": ["completed"]}
    if plan.cancel is not None:
        expected["statuses"] = ["completed", "cancelled"]
    if plan.continue_turns is not None:
        expected["statuses"] = ["completed", "incomplete"]
    last = "second" if plan.start.get("agent") == "in_turn" else next(iter(plan.scripts))
    if plan.start.get("agent") != "at_once":  # whose output is an object
        expected["output"] = answer_of(plan.id, last)
    most: dict[str, int] = {}
    for call in plan.calls.values():
        if call.tool not in IDEMPOTENT:
            most[call.tool] = most.get(call.tool, 0) + _most_hits(plan, call)
    if most:
        expected["hits_at_most"] = most
    return expected


RETRIES_BY_HAND: Final = 5
"""Each attempt can be lost with its worker, and then the client asks for another one."""


def _most_hits(plan: Plan, call: Call) -> int:
    if call.tool == "refund_brief":
        return 0
    if call.tool == "refund" and {one["decision"] for one in plan.decisions} <= NOT_SENT:
        return 0
    retried = plan.resolution is not None and plan.resolution["resolution"] == "retry"
    return RETRIES_BY_HAND if retried else 1
