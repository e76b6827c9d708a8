"""The cursor of a family's log: short, opaque, and it never takes anything for seen."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.children_events import Position
from app.api.params import Cursor
from app.domain.errors import InvalidRequestError
from app.domain.ids import RunId
from app.domain.run import RunStatus
from app.store.events import StoredEvent
from app.store.family_events import FamilyPage, Relative

ROOT = RunId(UUID(int=1))
CHILD = UUID(int=2)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
FLOOR = NOW - timedelta(seconds=120)


def cursor(text: str) -> Cursor:
    return Cursor(text, "query.after")


def page(*events: tuple[UUID, int], ended: bool, last_seq: int = 3) -> FamilyPage:
    """The root's run is open; its child has so many events and ended long ago, or has not."""
    child = Relative(last_seq, FLOOR if ended else None, long_ended=ended)
    return FamilyPage(
        status=RunStatus.IN_PROGRESS,
        events=tuple(StoredEvent(id_, seq, "x", "{}") for id_, seq in events),
        relatives={ROOT: Relative(9, None, long_ended=False), CHILD: child},
        floor=FLOOR,
        more=False,
    )


@given(
    seen=st.dictionaries(st.uuids(), st.integers(0, 2**31 - 1), max_size=50),
    seconds=st.integers(0, 4_000_000_000),
)
def test_a_token_says_again_what_it_was_made_of(seen: dict[UUID, int], seconds: int) -> None:
    position = Position(seen, datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))
    token = position.token()
    assert Position.of(cursor(token)) == position
    assert len(token) <= 11 + 27 * len(seen)


@given(st.text(max_size=60))
def test_a_text_that_is_no_token_is_refused_or_holds_numbers(text: str) -> None:
    try:
        position = Position.of(cursor(text))
    except InvalidRequestError as error:
        assert error.errors[0].path == "query.after"
    else:
        assert all(0 <= number < 2**31 for number in position.seen.values())


@pytest.mark.parametrize("text", ["", "x", "AAAA", "AAAAAAAAAAA" + "_" * 27, "é" * 12])
def test_what_nobody_gave_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        Position.of(cursor(text))


def test_the_beginning_is_nothing_seen() -> None:
    assert Position.of(cursor("0")) == Position()


def test_a_child_that_was_seen_whole_and_ended_long_ago_needs_no_place() -> None:
    folded = Position({ROOT: 4, CHILD: 3}).folded(page(ended=True), ROOT)
    assert folded == Position({ROOT: 4}, FLOOR)


def test_a_child_that_was_not_seen_whole_keeps_its_place_below_the_floor() -> None:
    assert Position({ROOT: 4, CHILD: 2}).folded(page(ended=True), ROOT).seen[CHILD] == 2
    assert Position({ROOT: 4}).folded(page(ended=True), ROOT).seen[CHILD] == 0


def test_an_open_child_keeps_its_place() -> None:
    assert Position({ROOT: 4, CHILD: 3}).folded(page(ended=False), ROOT).seen[CHILD] == 3


def test_each_event_comes_with_the_place_behind_it() -> None:
    events = ((ROOT, 5), (CHILD, 3), (ROOT, 6))
    advanced = list(Position({ROOT: 4, CHILD: 2}).advanced(page(*events, ended=True), ROOT))
    places = [position.seen for _, position in advanced]
    assert places == [{ROOT: 5, CHILD: 2}, {ROOT: 5, CHILD: 3}, {ROOT: 6, CHILD: 3}]


def test_a_floor_is_never_lowered() -> None:
    position = Position({ROOT: 4}, NOW)
    assert position.folded(page(ended=True), ROOT).floor == NOW
