"""The event-stream parser reads what the HTML standard says a stream may hold."""

import pytest

from tests.support.services.client import Frame, frames


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["id: 1", "event: run.created", 'data: {"a": 1}', ""],
            [Frame(1, "run.created", {"a": 1})],
        ),
        (["event:message.delta", 'data:{"a":1}', ""], [Frame(None, "message.delta", {"a": 1})]),
        (['data: {"a":', "data: 1}", ""], [Frame(None, "message", {"a": 1})]),
        ([": heartbeat", "", ": heartbeat", ""], []),
        (["retry: 1000", "", "id: 2", "data: {}", ""], [Frame(2, "message", {})]),
        (["id: 3", "data: {}"], []),  # cut off before its end
    ],
)
def test_frames_are_read(lines: list[str], expected: list[Frame]) -> None:
    assert list(frames(lines)) == expected
