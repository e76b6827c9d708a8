"""Between the domain's values and JSON as the tables hold it. Only this module knows that form."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

from pydantic import JsonValue, TypeAdapter
from pydantic_core import from_json

from runward.domain.ids import ApprovalId, CallId, ProjectId, RunId, SessionId
from runward.domain.json import JsonObject
from runward.domain.registry.guards import Stage
from runward.domain.run.bounds import count_json_bytes
from runward.domain.run.calls import Call, CallOutcome, CallPhase, InputRequest, Reason, Result
from runward.domain.run.config import AgentConfig, Limits, RunConfig
from runward.domain.run.conversation import build_conversation, remove_refused
from runward.domain.run.history import select_history
from runward.domain.run.items import (
    Item,
    Message,
    item_from_json,
    item_to_json,
    part_to_json,
    parts_from_json,
)
from runward.domain.run.response import Usage
from runward.domain.run.state import (
    Child,
    Lineage,
    Member,
    Place,
    RememberedDecision,
    RunState,
    Segment,
    SegmentKind,
)
from runward.domain.run.status import RunStatus

_CONFIG: Final = TypeAdapter(AgentConfig)
_RUN_CONFIG: Final = TypeAdapter(RunConfig)
_TEXT_COLUMNS: Final = (
    "config",
    "context",
    "team",
    "segments",
    "calls",
    "remembered",
    "current_tools",
    "children",
    "shared_state",
)
"""The JSON of a run's state."""


def config_to_json(config: AgentConfig) -> JsonObject:
    """Without what is a default, so that an old run keeps to defaults of its time only where
    it named them."""
    return config.model_dump(mode="json", exclude_defaults=True)


def config_from_json(data: JsonObject) -> AgentConfig:
    """The limits of a run that goes on from another may be beyond what anybody can ask for."""
    rest = {name: value for name, value in data.items() if name != "limits"}
    of_run = not rest.keys().isdisjoint({"functions", "request"})
    config = (_RUN_CONFIG if of_run else _CONFIG).validate_python(rest, strict=False)
    match data.get("limits"):
        case dict(limits):
            kept: dict[str, Any] = limits
            return config.model_copy(update={"limits": Limits.model_construct(None, **kept)})
        case _:
            return config


def call_to_row(run_id: RunId, call: Call) -> dict[str, Any]:
    return {
        "run": run_id,
        "id": call.uuid,
        "call_id": call.id,
        "turn": call.turn,
        "position": call.position,
        "tool": call.tool,
        "tool_version": call.version,
        "arguments": call.arguments,
        "digest": call.digest,
        "phase": call.phase,
        "attempt": call.attempt,
        "fence": call.fence,
        "approval_id": call.approval_id,
        "approved_digest": call.approved_digest,
        "original_arguments": call.original,
        "raw_arguments": call.raw,
        "timeout_seconds": call.timeout_seconds,
        "result": None if call.result is None else result_to_json(call.result),
        "child_run_id": call.child,
        "received": call.received,
        "exchange": None if call.exchange is None else asdict(call.exchange),
    }


def call_from_row(row: dict[str, Any]) -> Call:
    approval = row["approval_id"]
    return Call(
        id=CallId(row["call_id"]),
        uuid=UUID(row["id"]),
        turn=row["turn"],
        position=row["position"],
        tool=row["tool"],
        version=row["tool_version"],
        arguments=row["arguments"],
        digest=row["digest"],
        phase=CallPhase(row["phase"]),
        attempt=row["attempt"],
        fence=row["fence"],
        approval_id=None if approval is None else ApprovalId(UUID(approval)),
        approved_digest=row["approved_digest"],
        original=row["original_arguments"],
        raw=row["raw_arguments"],
        timeout_seconds=row["timeout_seconds"],
        result=None if row["result"] is None else result_from_json(row["result"]),
        child=None if row["child_run_id"] is None else RunId(_parse_uuid(row["child_run_id"])),
        received=row["received"],
        exchange=None if row["exchange"] is None else InputRequest(**row["exchange"]),
    )


def result_to_json(result: Result) -> JsonObject:
    """Without what is not there."""
    rest: dict[str, JsonValue] = {
        "reason": result.reason,
        "parts": [part_to_json(part) for part in result.parts] or None,
        "full": result.full,
        "detail": result.detail,
        "metadata": result.metadata,
        "fails_run": result.fails_run or None,
        "transfer_to": result.transfer_to,
        "escalate": result.escalate or None,
    }
    data: JsonObject = {"outcome": result.outcome, "output": result.output}
    return data | {key: value for key, value in rest.items() if value is not None}


def result_from_json(data: dict[str, Any]) -> Result:
    reason = data.get("reason")
    return Result(
        outcome=CallOutcome(data["outcome"]),
        output=data["output"],
        reason=None if reason is None else Reason(reason),
        parts=parts_from_json(data.get("parts")),
        full=data.get("full"),
        detail=data.get("detail"),
        metadata=data.get("metadata"),
        fails_run=data.get("fails_run", False),
        transfer_to=data.get("transfer_to"),
        escalate=data.get("escalate", False),
    )


def segment_to_row(run_id: RunId, number: int, segment: Segment) -> dict[str, Any]:
    """`number`: of the event beside which it is written; the two share a sequence number."""
    return {
        "run": run_id,
        "n": number,
        "kind": segment.kind,
        "turn": segment.turn,
        "agent": segment.agent,
        "items": items_to_json(segment.items),
        "seen": segment.segments_before,
    }


def items_to_json(items: Iterable[Item]) -> list[JsonValue]:
    return [item_to_json(item) for item in items]


def segment_from_row(row: dict[str, Any]) -> Segment:
    items = tuple(item_from_json(item) for item in row["items"])
    return Segment(SegmentKind(row["kind"]), row["turn"], row["agent"], items, row["seen"])


def collect_session_items(
    state: RunState, output: JsonValue, *, refused: Stage | None = None
) -> tuple[JsonObject, ...]:
    """What the later runs of its session see of a run that has ended with `output`. `refused`: the
    stage of a guardrail that ended it; then `output` is the guardrail's message."""
    items = build_conversation(remove_refused(state, refused))
    kept = select_history(items, None if refused == "run_input" else output, state.config.kind)
    if refused == "run_output" and state.config.kind == "llm" and isinstance(output, str):
        kept = (*kept, Message("assistant", output))
    return tuple(item_to_json(item) for item in kept)


def _order_segments(rows: Iterable[dict[str, Any]]) -> tuple[Segment, ...]:
    """As the conversation went: what came in while a model was being asked stands after its
    response, though it was written before."""
    ordered: list[Segment] = []
    for row in rows:
        segment = segment_from_row(row)
        at = (
            len(ordered)
            if segment.segments_before is None
            else min(segment.segments_before, len(ordered))
        )
        ordered.insert(at, segment)
    return tuple(ordered)


def team_to_json(team: Mapping[str, Member]) -> JsonObject:
    return {
        name: {
            "config": config_to_json(member.config),
            "version": member.version,
            "description": member.description,
        }
        for name, member in team.items()
    }


def team_from_json(data: dict[str, Any]) -> dict[str, Member]:
    return {
        name: Member(config_from_json(one["config"]), one["version"], one["description"])
        for name, one in data.items()
    }


def _child_from_row(row: dict[str, Any]) -> Child:
    return Child(
        run_id=RunId(_parse_uuid(row["id"])),
        status=RunStatus(row["status"]),
        output=row["output"],
        parsed=row["output_parsed"],
        error=row["error"] or row["incomplete_details"],
        usage=_usage_from_row(row),
        escalated=row["escalated"],
    )


def _usage_from_row(row: dict[str, Any]) -> Usage:
    return Usage(
        row["input_tokens"],
        row["output_tokens"],
        row["cached_tokens"],
        row["reasoning_tokens"],
        row["cost_usd"],
    )


def _lineage_from_row(row: dict[str, Any]) -> Lineage | None:
    if row["parent_run_id"] is None:
        return None
    return Lineage(
        parent=RunId(_parse_uuid(row["parent_run_id"])),
        call_id=CallId(row["parent_call_id"]),
        ancestors=tuple(RunId(_parse_uuid(one)) for one in row["ancestors"]),
        path=tuple(row["path"]),
    )


def _parse_uuid(value: Any) -> UUID:
    return UUID(str(value))


def state_from_row(row: dict[str, Any]) -> RunState:
    """From the columns of `runward.store.runs.queries.LOAD`, whose JSON is text. Raises ValueError
    and others where it cannot be parsed."""
    row |= {name: from_json(row[name]) for name in _TEXT_COLUMNS if row[name] is not None}
    calls = [call_from_row(call) for call in row["calls"] or ()]
    seconds_left = row["seconds_left"]
    session = row["session_id"]
    place = None if session is None else Place(SessionId(_parse_uuid(session)), row["session_seq"])
    state = RunState(
        project_id=ProjectId(_parse_uuid(row["project_id"])),
        id=RunId(_parse_uuid(row["id"])),
        fence=row["fence"],
        version=row["version"],
        agent=row["agent"],
        config=config_from_json(row["config"]),
        pinned=row["current_tools"] or {},
        context=row["context"],
        last_seq=row["last_seq"],
        turn=row["turn"],
        usage=_usage_from_row(row),
        segments=_order_segments(row["segments"] or ()),
        calls={call.id: call for call in calls},
        remembered=tuple(
            RememberedDecision(
                one["decision"],
                one["tool"],
                one["tool_version"],
                one["agent"],
                one["arguments_digest"],
                one["message"],
                one["seconds_left"],
            )
            for one in row["remembered"] or ()
        ),
        team=team_from_json(row["team"]),
        created_by=row["created_by"],
        lineage=_lineage_from_row(row),
        children={
            CallId(one["parent_call_id"]): _child_from_row(one) for one in row["children"] or ()
        },
        place=place,
        shared=row["shared_state"] or {},
        cancel_after_turn=row["cancel_requested_at"] is not None,
        seconds_left=None if seconds_left is None else float(seconds_left),
        stored_bytes=count_json_bytes((row["segments"], row["calls"])),
    )
    active = row["active_agent"]
    return state if active in (None, state.agent) else state.with_agent(active)
