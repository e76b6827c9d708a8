"""The fields of events that stay when the content of a run is erased."""

import pytest

from runward.domain.events import run_data
from runward.domain.events.base import get_data_type
from runward.domain.events.erasure import FIELDS, erase_event_data
from runward.domain.events.kinds import STORED
from runward.domain.json import JsonObject

IN_PART = {run_data.RunError, run_data.IncompleteDetails}
"""Objects in the data of an event that are kept in part."""


def test_each_field_of_each_kind_of_event_is_either_kept_or_erased() -> None:
    kinds = {get_data_type(kind) for kind in STORED.values()} | IN_PART
    assert FIELDS.keys() == kinds
    for kind in kinds:
        kept, erased = FIELDS[kind].kept.split(), FIELDS[kind].erased.split()
        assert sorted([*kept, *erased]) == sorted(kind.__annotations__), kind.__name__


ERASED: list[tuple[str, JsonObject, JsonObject]] = [
    (
        "message.completed",
        {"turn": 1, "agent": "clerk", "text": "secret", "refusal": False},
        {"turn": 1, "agent": "clerk", "text": "", "refusal": False},
    ),
    (
        "run.failed",
        {"error": {"code": "model_failed", "message": "secret"}},
        {"error": {"code": "model_failed", "message": ""}},
    ),
    (
        "run.incomplete",
        {"output": {"a": 1}, "incomplete_details": {"reason": "deadline", "message": None}},
        {"output": {}, "incomplete_details": {"reason": "deadline", "message": None}},
    ),
    ("run.completed", {"output": 5}, {"output": None}),
    ("model.calls_changed", {"requested_calls": [1]}, {"requested_calls": []}),
    ("usage.updated", {"turn": 1, "unknown_yet": "secret"}, {"turn": 1, "unknown_yet": ""}),
    ("never.heard.of", {"turn": 1, "call_id": "c"}, {"turn": None, "call_id": ""}),
]


@pytest.mark.parametrize(("type_", "data", "left"), ERASED)
def test_content_becomes_an_empty_value_of_its_type(
    type_: str, data: JsonObject, left: JsonObject
) -> None:
    assert erase_event_data(type_, data) == left
