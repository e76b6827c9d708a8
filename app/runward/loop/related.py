"""The changes of a run's step to other rows: its child runs, its session, and its ancestors."""

from dataclasses import replace

from runward.domain.json import JsonObject
from runward.domain.run.family import ChildRun, Lineage
from runward.domain.run.run_events import add_run_created
from runward.domain.run.sessions import Place
from runward.domain.run.state import Changes, RunState, Segment, SegmentKind
from runward.domain.run.status import MOVES, TERMINAL, Move
from runward.store import codec
from runward.store.runs.gate import Ending
from runward.store.runs.queue import NewRun
from runward.store.runs.related_changes import RelatedChanges


def related_changes(
    state: RunState, changes: Changes, ending: Ending | None
) -> RelatedChanges | None:
    """Return the related changes. Return None if there are none, so that the step can share its
    commit with steps of other runs."""
    parts = ending is not None and ending.move is not Move.RELEASE
    concerns = state.lineage or state.place or state.open_children
    own = changes.children or changes.shared_state or changes.budget
    if not (own or (parts and concerns)):
        return None
    ends = ending is not None and MOVES[ending.move].target in TERMINAL
    kept: tuple[JsonObject, ...] = ()
    if ending is not None and ends and state.place and state.place.number is not None:
        settled = replace(state, calls={**state.calls, **changes.inserted, **changes.updated})
        kept = codec.collect_session_items(settled, ending.output, refused=ending.refused_stage)
    return RelatedChanges(
        lineage=state.lineage,
        children=tuple(_build_child_run(state, child) for child in changes.children),
        awaits_children=ending is not None
        and ending.move is Move.DEFER
        and bool(state.open_children),
        session_id=state.place.session_id if state.place else None,
        state_delta=changes.shared_state,
        session_place=state.place if ends else None,
        session_items=kept,
        budget=changes.budget,
    )


def _build_child_run(state: RunState, child: ChildRun) -> NewRun:
    config = child.member.config
    costs = (config.limits.max_cost_usd, state.config.limits.max_cost_usd)
    limits: dict[str, float | None] = {
        "max_cost_usd": min((one for one in costs if one is not None), default=None)
    }
    if child.deadline_seconds is not None:
        limits["deadline_seconds"] = child.deadline_seconds
    config = config.model_copy(update={"limits": config.limits.model_copy(update=limits)})
    changes = Changes()
    add_run_created(changes, child.agent, config, {"parent_call_id": child.call_id})
    changes.segments.append(Segment(SegmentKind.INPUT, 0, child.agent, child.input))
    above = state.lineage
    started = RunState(
        project_id=state.project_id,
        id=child.id,
        agent=child.agent,
        config=config,
        context=child.context,
        created_by=state.created_by,
        team=child.team,
        lineage=Lineage(
            parent=state.id,
            call_id=child.call_id,
            ancestors=(*(above.ancestors if above else ()), state.id),
            path=(*(above.path if above else ()), child.agent),
        ),
        place=Place(state.place.session_id, None) if state.place else None,
    )
    return NewRun(started, changes, agent_version=child.member.version)
