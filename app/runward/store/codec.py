"""Conversions between values of the domain and their JSON in the tables. Only this module knows
that JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from itertools import takewhile
from typing import Any, Final

from pydantic import JsonValue, TypeAdapter
from pydantic_core import from_json

from runward.domain.events.values import CallReason
from runward.domain.json import JsonObject
from runward.domain.registry.guards import Stage
from runward.domain.run.bounds import count_json_bytes
from runward.domain.run.config import AgentConfig, Limits, RunConfig
from runward.domain.run.conversation import build_conversation, remove_refused
from runward.domain.run.decisions import RememberedDecision
from runward.domain.run.family import Child, Lineage, Member
from runward.domain.run.history import select_history
from runward.domain.run.items import (
    Item,
    Message,
    item_from_json,
    item_to_json,
    part_to_json,
    parts_from_json,
)
from runward.domain.run.outcomes import InputRequest
from runward.domain.run.response import Usage
from runward.domain.run.sessions import Place
from runward.domain.run.state import Call, CallOutcome, Result, RunState, Segment, SegmentKind
from runward.domain.run.team import continue_as
from runward.store.postgres.columns import RowMapping, read_uuid
from runward.store.postgres.tables import remembered_decisions, run_items, runs, tool_calls

_CONFIG: Final = TypeAdapter(AgentConfig)
_RUN_CONFIG: Final = TypeAdapter(RunConfig)
_RUN_FIELDS: Final = RunConfig.model_fields.keys() - AgentConfig.model_fields.keys()
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
"""The columns with the JSON of a run's state."""


def config_to_json(config: AgentConfig) -> JsonObject:
    """Return the settings that differ from their defaults. All other settings are not stored, so an
    old run gets the defaults of the current version."""
    return config.model_dump(mode="json", exclude_defaults=True)


def config_from_json(data: JsonObject) -> AgentConfig:
    """Parse a configuration. The limits of a continued run may exceed the maximum of a request."""
    rest = {name: value for name, value in data.items() if name != "limits"}
    of_run = not rest.keys().isdisjoint(_RUN_FIELDS)
    config = (_RUN_CONFIG if of_run else _CONFIG).validate_python(rest, strict=False)
    match data.get("limits"):
        case dict(limits):
            kept: dict[str, Any] = limits
            return config.model_copy(update={"limits": Limits.model_construct(None, **kept)})
        case _:
            return config


def result_to_json(result: Result) -> JsonObject:
    """Return the result without fields that are None or empty."""
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
        reason=None if reason is None else CallReason(reason),
        parts=parts_from_json(data.get("parts")),
        full=data.get("full"),
        detail=data.get("detail"),
        metadata=data.get("metadata"),
        fails_run=data.get("fails_run", False),
        transfer_to=data.get("transfer_to"),
        escalate=data.get("escalate", False),
    )


def items_from_json(data: Iterable[dict[str, Any]]) -> tuple[Item, ...]:
    return tuple(item_from_json(item) for item in data)


def items_to_json(items: Iterable[Item]) -> list[JsonValue]:
    return [item_to_json(item) for item in items]


def collect_session_items(
    state: RunState, output: JsonValue, *, refused: Stage | None = None
) -> tuple[JsonObject, ...]:
    """Return the items of a run that has ended with `output`, as later runs of the session read
    them. `refused`: the stage of a guardrail that ended it. In this case, `output` is the
    guardrail's message."""
    read = remove_refused(state, refused)
    if read.config.kind != "llm":  # Its own calls are child runs. Calls in its input are history.
        asked = takewhile(lambda segment: segment.kind is SegmentKind.INPUT, read.segments)
        read = replace(read, segments=tuple(asked))
    items = build_conversation(read)
    kept = select_history(items, None if refused == "run_input" else output, state.config.kind)
    if refused == "run_output" and state.config.kind == "llm" and isinstance(output, str):
        kept = (*kept, Message("assistant", output))
    return tuple(item_to_json(item) for item in kept)


def _order_segments(rows: Iterable[dict[str, Any]]) -> tuple[Segment, ...]:
    """Return the segments in the order of the conversation. Input that arrived during a model
    request follows the response, although it was stored earlier."""
    ordered: list[Segment] = []
    for row in rows:
        segment = SEGMENT.from_row(row)
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


CALL_COLUMNS: Final = {
    "id": "call_id",
    "uuid": "id",
    "version": "tool_version",
    "original": "original_arguments",
    "raw": "raw_arguments",
}
CALL: Final = RowMapping(
    Call,
    tool_calls,
    names=CALL_COLUMNS,
    read={"result": result_from_json, "exchange": lambda data: InputRequest(**data)},
    write={"result": result_to_json, "exchange": asdict},
)
SEGMENT: Final = RowMapping(
    Segment,
    run_items,
    names={"segments_before": "seen"},
    read={"items": items_from_json},
    write={"items": items_to_json},
)
REMEMBERED: Final = RowMapping(
    RememberedDecision,
    remembered_decisions,
    names={"version": "tool_version"},
    only=("decision", "tool", "version", "agent", "arguments_digest", "message"),
)
LINEAGE: Final = RowMapping(
    Lineage,
    runs,
    names={"parent": "parent_run_id", "call_id": "parent_call_id"},
    read={"ancestors": lambda ids: tuple(map(read_uuid, ids))},
)
PLACE: Final = RowMapping(Place, runs, names={"number": "session_seq"})
STATE: Final = RowMapping(
    RunState,
    runs,
    only=(
        *("project_id", "id", "fence", "version", "agent", "config", "context", "last_seq", "turn"),
        *("team", "created_by"),
    ),
    read={"config": config_from_json, "team": team_from_json},
    write={"config": config_to_json, "team": team_to_json},
)
CHILD: Final = RowMapping(
    Child,
    runs,
    names={"run_id": "id", "parsed": "output_parsed"},
    only=("run_id", "status", "output", "parsed", "escalated"),
)
USAGE: Final = RowMapping(
    Usage,
    runs,
    names={
        "input": "input_tokens",
        "output": "output_tokens",
        "cached_input": "cached_tokens",
        "reasoning": "reasoning_tokens",
        "cost": "cost_usd",
    },
)


def state_from_row(row: dict[str, Any]) -> RunState:
    """Return the state from a row of `runward.store.runs.queries.STATE`, whose JSON is text. Raises
    ValueError and other errors if the row cannot be parsed."""
    row |= {name: from_json(row[name]) for name in _TEXT_COLUMNS if row[name] is not None}
    calls = [CALL.from_row(call) for call in row["calls"] or ()]
    children = [_child_from_row(child) for child in row["children"] or ()]
    state = STATE.from_row(
        row,
        tool_versions=row["current_tools"] or {},
        usage=USAGE.from_row(row),
        segments=_order_segments(row["segments"] or ()),
        calls={call.id: call for call in calls},
        remembered=tuple(
            REMEMBERED.from_row(decision, seconds_left=decision["seconds_left"])
            for decision in row["remembered"] or ()
        ),
        lineage=lineage_from_row(row),
        children={child.run_id: child for child in children},
        place=place_from_row(row),
        shared_state=row["shared_state"] or {},
        cancel_after_turn=row["cancel_requested_at"] is not None,
        seconds_left=row["seconds_left"],
        stored_bytes=count_json_bytes((row["segments"], row["calls"])),
    )
    active = row["active_agent"]
    return state if active in (None, state.agent) else continue_as(state, active)


def lineage_from_row(row: Mapping[str, Any]) -> Lineage | None:
    return None if row["parent_run_id"] is None else LINEAGE.from_row(row)


def place_from_row(row: Mapping[str, Any]) -> Place | None:
    return None if row["session_id"] is None else PLACE.from_row(row)


def _child_from_row(row: Mapping[str, Any]) -> Child:
    error = row["error"] or row["incomplete_details"]
    return CHILD.from_row(row, error=error, usage=USAGE.from_row(row))
