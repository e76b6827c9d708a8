"""Between the domain's values and JSON as the tables hold it. Only this module knows that form."""

from typing import Any, Final
from uuid import UUID

from pydantic import JsonValue, TypeAdapter

from app.domain.agents import AgentConfig
from app.domain.calls import Call, CallOutcome, CallPhase, Reason, Result
from app.domain.ids import ApprovalId, CallId, ProjectId, RunId
from app.domain.items import item_from_json, item_to_json, part_to_json, parts_from_json
from app.domain.json import JsonObject
from app.domain.response import Usage
from app.domain.state import Remembered, RunState, Segment, SegmentKind

_CONFIG: Final = TypeAdapter(AgentConfig)


def config_to_json(config: AgentConfig) -> JsonObject:
    """Without what is a default, so that an old run keeps to defaults of its time only where
    it named them."""
    return config.model_dump(mode="json", exclude_defaults=True)


def config_from_json(data: JsonObject) -> AgentConfig:
    return _CONFIG.validate_python(data, strict=False)


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
    )


def result_to_json(result: Result) -> JsonObject:
    data: dict[str, JsonValue] = {"outcome": result.outcome, "output": result.output}
    if result.reason is not None:
        data["reason"] = result.reason
    if result.parts:
        data["parts"] = [part_to_json(part) for part in result.parts]
    if result.full is not None:
        data["full"] = result.full
    if result.detail is not None:
        data["detail"] = result.detail
    if result.metadata is not None:
        data["metadata"] = result.metadata
    if result.fails_run:
        data["fails_run"] = True
    return data


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
    )


def segment_to_row(run_id: RunId, number: int, segment: Segment) -> dict[str, Any]:
    """`number`: of the event beside which it is written; the two share a sequence number."""
    return {
        "run": run_id,
        "n": number,
        "kind": segment.kind,
        "turn": segment.turn,
        "agent": segment.agent,
        "items": [item_to_json(item) for item in segment.items],
    }


def segment_from_row(row: dict[str, Any]) -> Segment:
    items = tuple(item_from_json(item) for item in row["items"])
    return Segment(SegmentKind(row["kind"]), row["turn"], row["agent"], items)


def state_from_row(row: dict[str, Any]) -> RunState:
    """From the columns of `app.store.runs.LOAD`."""
    calls = [call_from_row(call) for call in row["calls"] or ()]
    seconds_left = row["seconds_left"]
    return RunState(
        project_id=ProjectId(UUID(str(row["project_id"]))),
        id=RunId(UUID(str(row["id"]))),
        fence=row["fence"],
        version=row["version"],
        agent=row["agent"],
        config=config_from_json(row["config"]),
        pinned=row["current_tools"] or {},
        context=row["context"],
        last_seq=row["last_seq"],
        turn=row["turn"],
        usage=Usage(
            row["input_tokens"], row["output_tokens"], row["cached_tokens"], row["reasoning_tokens"]
        ),
        segments=tuple(segment_from_row(segment) for segment in row["segments"] or ()),
        calls={call.id: call for call in calls},
        remembered=tuple(
            Remembered(
                one["decision"],
                one["tool"],
                one["tool_version"],
                one["agent"],
                one["arguments_digest"],
                one["message"],
            )
            for one in row["remembered"] or ()
        ),
        cancel_after_turn=row["cancel_requested_at"] is not None,
        seconds_left=None if seconds_left is None else float(seconds_left),
    )
