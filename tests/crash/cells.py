"""Cells: all combinations of a point, a fault and a kind of call. States which of them are
meaningful, why the others are not, and how the run must end in each.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias, get_args

from tests.crash.points import POINTS, Point

Fault: TypeAlias = Literal["kill", "freeze", "cut"]
Kind: TypeAlias = Literal[
    "idempotent", "plain", "gated", "plugin", "callback", "child", "mcp", "client"
]
"""`idempotent` and `plain`: webhook tools that may be called again, and that may not. `client`: a
tool that the client runs; only what concerns its result is looked at."""
FAULTS: tuple[Fault, ...] = get_args(Fault)
KINDS: tuple[Kind, ...] = get_args(Kind)
WEBHOOKS = ("idempotent", "plain", "gated", "callback")

ONLY: dict[str, tuple[tuple[str, ...], str]] = {
    "claim": (("plain",), "before its first turn a run is the same for every kind of call"),
    "model.first": (("plain",), "before its first turn a run is the same for every kind of call"),
    "accept": (("plain",), "a run that is accepted has no calls yet"),
    "claim_again": (("gated", "callback", "child"), "the run is claimed once: it never waits"),
    "flush.start": (
        ("idempotent", "plain", "gated", "plugin", "callback", "mcp"),
        "a child run starts by a write of its own: lone.child",
    ),
    "flush.park": (("gated", "callback"), "the run never waits for someone outside"),
    "flush.result": (
        ("idempotent", "plain", "gated", "plugin", "child", "mcp"),
        "the result is committed by the process that receives the callback",
    ),
    "lone.child": (("child",), "the run has no child run"),
    "lone.park": (("child",), "the run has no child run"),
    "webhook": (WEBHOOKS, "the call is no webhook"),
    "plugin": (("plugin",), "the call is not of a plugin"),
    "mcp": (("mcp",), "the call is not of an MCP server"),
    "decision": (("gated",), "nobody is asked about the call"),
    "callback": (("callback",), "the call is not answered later"),
    "client_result": (("client",), "the client does not run the tool"),
    "notice": (
        ("idempotent", "plain", "callback"),
        "the call is no webhook that was sent, so there is no notice",
    ),
    "expire_approval": (("gated",), "nobody is asked about the call"),
    "expire_call": (("callback",), "the call is not answered later"),
    "expire_run": (("gated",), "the run waits for nobody, or its call expires first"),
}
"""The kinds for which a family of points means something, and why it does not for the others."""
CLIENT_ONLY = "only the result of a client's tool differs from what the other kinds show"


@dataclass(frozen=True, slots=True)
class Cell:
    point: Point
    fault: Fault
    kind: Kind

    def __str__(self) -> str:
        return f"{self.point.name}/{self.fault}/{self.kind}"


@dataclass(frozen=True, slots=True)
class Expected:
    """How often the tool may be reached, and the outcome that the model, or the caller, is told:
    `paid`, `unknown`, or the run's status or the call's where it ends otherwise. `late`: a request
    that was authorized before the freeze may arrive afterwards, under the older fence."""

    hits: tuple[int, ...]
    outcome: str
    late: bool = False


def meaningless(point: Point, kind: Kind) -> str | None:
    """The reason, or None: the combination is meaningful, with every fault."""
    kinds, reason = max(
        ((name, *rule) for name, rule in ONLY.items() if _belongs(point, name)),
        default=("", KINDS, ""),
    )[1:]
    if kind not in kinds:
        return reason
    if kind == "client" and not _belongs(point, "client_result"):
        return CLIENT_ONLY
    return None


def _belongs(point: Point, family: str) -> bool:
    return point.name.startswith(f"{family}.")


def all_cells() -> list[Cell]:
    return [
        Cell(point, fault, kind)
        for point, fault, kind in product(POINTS, FAULTS, KINDS)
        if meaningless(point, kind) is None
    ]


EXPIRED = {"expire_approval": "rejected", "expire_call": "timed_out", "expire_run": "expired"}


def expected(cell: Cell) -> Expected:
    point, kind = cell.point, cell.kind
    if point.story == "cancel":
        return Expected((0,) if kind == "gated" else (1,), "cancelled")
    if point.story in EXPIRED:
        return Expected((0,) if kind == "gated" else (1,), EXPIRED[point.story])
    if kind == "client":
        return Expected((0,), "paid")
    if kind == "child":  # its effect is a model's answer, which is asked for until it is committed
        return Expected((1, 2), "paid")
    if point.process == "api" or (cell.fault == "cut" and point.story != "sweep"):
        return Expected((1,), "paid")
    return _after_loss(cell)


def _after_loss(cell: Cell) -> Expected:
    """The worker is gone, or does not know for how long it was."""
    stage = _stage(cell)
    if stage in ("unstarted", "recorded"):
        return Expected((1,), "paid")
    frozen = cell.fault == "freeze" and stage == "unsent"
    if cell.kind == "idempotent":
        return Expected((1, 2) if frozen else ((2,) if stage == "sent" else (1,)), "paid", frozen)
    if stage == "sent":
        return Expected((1,), "unknown")
    return Expected((0, 1) if frozen else (0,), "unknown", frozen)


def _stage(cell: Cell) -> str:
    if cell.kind == "callback" and cell.point.name == "flush.park.unsent":
        return "sent"  # it waits because the tool has answered 202
    if cell.kind in ("callback", "child") and cell.point.name.startswith(
        ("flush.park.", "claim_again.")
    ):
        return "recorded"
    return cell.point.stage
