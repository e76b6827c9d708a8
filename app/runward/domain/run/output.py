"""The final output of an agent with a schema: its validation, and its correction by the model."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from pydantic import JsonValue

from runward.domain.errors import FieldError
from runward.domain.events.kinds import ModelRetriedEvent
from runward.domain.json import clean_json, parse
from runward.domain.run import texts
from runward.domain.run.items import Message
from runward.domain.run.state import Changes, RunState, Segment, SegmentKind
from runward.domain.schema.validator import Validator


def add_repair(state: RunState, changes: Changes, problems: Sequence[FieldError]) -> RunState:
    """Add a message that tells the model which problems its output has. The next model request asks
    for a correction."""
    message = Message("user", texts.repair(problems))
    segment = Segment(SegmentKind.REPAIR, state.turn, state.agent, (message,))
    summary = "; ".join(f"{path} {text}" for path, text in problems)
    changes.add(ModelRetriedEvent({"code": "output_schema", "message": summary}))
    changes.segments.append(segment)
    return replace(state, segments=(*state.segments, segment))


def count_repairs(state: RunState) -> int:
    """Return how many corrections were requested since the current agent took over the run."""
    said = [one for one in state.segments if one.kind is not SegmentKind.INPUT]
    own = takewhile(lambda one: one.agent == state.agent, reversed(said))
    return sum(one.kind is SegmentKind.REPAIR for one in own)


def parse_output(
    output: JsonValue, schema: Validator | None
) -> tuple[JsonValue, tuple[FieldError, ...]]:
    """Return `output` parsed by the schema, and its problems. Characters that PostgreSQL cannot
    store are replaced, because escapes in a JSON text can contain them."""
    if schema is None:
        return None, ()
    try:
        parsed = clean_json(parse(output))[0] if isinstance(output, str) else output
    except ValueError as error:
        return None, (FieldError("output", f"is not JSON: {error}"),)
    return parsed, tuple(schema.problems(parsed))
