"""The types, the content and the schedule of notifications."""

from typing import get_args

import pytest

from runward.domain.events.erasure import drop_content
from runward.domain.json import JsonObject
from runward.domain.run.notifications import (
    ENDPOINT_TEST,
    MAX_ATTEMPTS,
    NOTIFICATION_TYPES,
    NotificationPattern,
    compute_retry_delay,
    find_notification_type,
    select_data,
    selects,
)

ENDED: JsonObject = {"output": "secret", "error": {"code": "max_turns", "message": "secret"}}


def test_the_patterns_are_all_types_and_their_families() -> None:
    assert set(get_args(NotificationPattern)) == {"*", "run.*", "approval.*", *NOTIFICATION_TYPES}


@pytest.mark.parametrize(
    ("patterns", "type_", "selected"),
    [
        (["*"], "run.failed", True),
        (["run.*"], "run.failed", True),
        (["run.failed"], "run.failed", True),
        (["approval.*", "run.created"], "run.failed", False),
        (["run.*"], "webhook_endpoint.disabled", False),
    ],
)
def test_an_endpoint_selects_types(patterns: list[str], type_: str, *, selected: bool) -> None:
    assert selects(patterns, type_) is selected


@pytest.mark.parametrize(
    ("event", "reason", "has_approval", "is_child", "expected"),
    [
        ("run.completed", None, True, False, "run.completed"),
        ("run.completed", None, True, True, None),
        ("tool_call.approval_requested", None, True, True, "approval.requested"),
        ("tool_call.approval_decided", None, True, False, "approval.decided"),
        ("tool_call.approval_decided", None, False, False, None),
        ("tool_call.rejected", "approval_expired", True, True, "approval.expired"),
        ("tool_call.rejected", "declined", True, False, None),
        ("tool_call.outcome_unknown", None, True, True, "tool_call.outcome_unknown"),
        ("message.completed", None, True, False, None),
    ],
)
def test_some_events_cause_notifications(
    event: str, reason: str | None, expected: str | None, *, has_approval: bool, is_child: bool
) -> None:
    found = find_notification_type(
        event, reason=reason, has_approval=has_approval, is_child=is_child
    )
    assert found == expected


def test_a_notification_contains_no_content_unless_it_is_included() -> None:
    assert drop_content("run.failed", {**ENDED, "unknown": 1}) == {"error": {"code": "max_turns"}}
    assert select_data("run.failed", dict(ENDED), ()) == {"error": {"code": "max_turns"}}
    assert select_data("run.failed", dict(ENDED), ("output",)) == ENDED
    asked: JsonObject = {"approval_id": "apr_1", "arguments": {"amount": 1}}
    assert select_data("tool_call.approval_requested", asked, ("output",)) == {
        "approval_id": "apr_1"
    }


def test_jitter_lengthens_a_delay_and_the_last_attempt_has_none() -> None:
    first = compute_retry_delay("run.created", 1, 1.0, None)
    assert first is not None
    assert first.total_seconds() == pytest.approx(5.5)
    assert compute_retry_delay("run.created", MAX_ATTEMPTS, 0.0, None) is None
    assert compute_retry_delay(ENDPOINT_TEST, 1, 0.0, None) is None
