"""The cursor of a family's log: short, opaque, and it never takes anything for seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.api.events.family import FamilyPosition
from runward.api.http.params import MAX_CURSOR, Cursor
from runward.domain.errors import InvalidRequestError
from runward.domain.ids import RunId
from runward.domain.run.status import RunStatus
from runward.store.live.events import StoredEvent
from runward.store.live.family_events import FamilyPage, FamilyRun

ROOT = RunId(UUID(int=1))
CHILD = UUID(int=2)
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
FLOOR = NOW - timedelta(seconds=120)


def cursor(text: str) -> Cursor:
    return Cursor(text, "query.after")


def page(*events: tuple[UUID, int], ended: bool, last_seq: int = 3) -> FamilyPage:
    """The root's run is open; its child has so many events and ended long ago, or has not."""
    child = FamilyRun(last_seq, FLOOR if ended else None, long_ended=ended)
    return FamilyPage(
        status=RunStatus.IN_PROGRESS,
        events=tuple(StoredEvent(id_, seq, "x", b"{}") for id_, seq in events),
        runs={ROOT: FamilyRun(9, None, long_ended=False), CHILD: child},
        floor=FLOOR,
        more=False,
    )


@given(
    seen=st.dictionaries(st.uuids(), st.integers(0, 2**31 - 1), max_size=50),
    seconds=st.integers(0, 4_000_000_000),
)
def test_a_token_says_again_what_it_was_made_of(seen: dict[UUID, int], seconds: int) -> None:
    position = FamilyPosition(seen, datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))
    token = position.token()
    assert FamilyPosition.parse(cursor(token)) == position
    assert len(token) <= 11 + 27 * len(seen)


@given(st.text(max_size=60))
def test_a_text_that_is_no_token_is_refused_or_holds_numbers(text: str) -> None:
    try:
        position = FamilyPosition.parse(cursor(text))
    except InvalidRequestError as error:
        assert error.errors[0].path == "query.after"
    else:
        assert all(0 <= number < 2**31 for number in position.seen.values())


@pytest.mark.parametrize("text", ["", "x", "AAAA", "AAAAAAAAAAA" + "_" * 27, "é" * 12])
def test_what_nobody_gave_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        FamilyPosition.parse(cursor(text))


def test_the_beginning_is_nothing_seen() -> None:
    assert FamilyPosition.parse(cursor("0")) == FamilyPosition()


def test_a_child_that_was_seen_whole_and_ended_long_ago_needs_no_place() -> None:
    folded = FamilyPosition({ROOT: 4, CHILD: 3}).drop_ended_runs(page(ended=True), ROOT)
    assert folded == FamilyPosition({ROOT: 4}, FLOOR)


def test_a_child_that_was_not_seen_whole_keeps_its_place_below_the_floor() -> None:
    assert (
        FamilyPosition({ROOT: 4, CHILD: 2}).drop_ended_runs(page(ended=True), ROOT).seen[CHILD] == 2
    )
    unseen = FamilyPosition({ROOT: 4}).drop_ended_runs(page(ended=True), ROOT)
    assert CHILD not in unseen.seen
    assert unseen.floor < FLOOR


def test_an_open_child_keeps_its_place() -> None:
    assert (
        FamilyPosition({ROOT: 4, CHILD: 3}).drop_ended_runs(page(ended=False), ROOT).seen[CHILD]
        == 3
    )


def test_each_event_comes_with_the_place_behind_it() -> None:
    events = ((ROOT, 5), (CHILD, 3), (ROOT, 6))
    advanced = list(FamilyPosition({ROOT: 4, CHILD: 2}).advance(page(*events, ended=True), ROOT))
    places = [position.seen for _, position in advanced]
    assert places == [{ROOT: 5, CHILD: 2}, {ROOT: 5, CHILD: 3}, {ROOT: 6, CHILD: 3}]


def test_a_floor_is_never_lowered() -> None:
    position = FamilyPosition({ROOT: 4}, NOW)
    assert position.drop_ended_runs(page(ended=True), ROOT).floor == NOW


# -- a family that is read in pages ----------------------------------------------------------------


@dataclass(frozen=True)
class Log:
    """The events of one run: their times in seconds after `FLOOR`, the last of them its end."""

    id: UUID
    times: tuple[float, ...]

    @property
    def ended_at(self) -> datetime:
        return FLOOR + timedelta(seconds=self.times[-1])


def read(logs: Sequence[Log], position: FamilyPosition, floor: datetime, limit: int) -> FamilyPage:
    """The page after `position`, as `read_family_after` says."""
    relatives: dict[UUID, FamilyRun] = {}
    found: list[tuple[float, UUID, int]] = []
    for log in logs:
        if log.id == ROOT or log.id in position.seen or log.ended_at > position.floor:
            relatives[log.id] = FamilyRun(len(log.times), log.ended_at, log.ended_at <= floor)
            seen = position.seen.get(log.id, 0)
            found += [(at, log.id, seq + 1) for seq, at in enumerate(log.times) if seq >= seen]
    events = tuple(StoredEvent(id_, seq, "x", b"{}") for _, id_, seq in sorted(found)[:limit])
    return FamilyPage(RunStatus.COMPLETED, events, relatives, floor, more=len(found) > limit)


def walked(
    logs: Sequence[Log], floor: datetime, limit: int
) -> Iterator[tuple[StoredEvent, FamilyPosition]]:
    """Every event in order, with the place behind it; each page is asked for with the cursor that
    the last one ended with."""
    token, last = "0", FamilyPosition()
    while True:
        position = FamilyPosition.parse(cursor(token))
        page = read(logs, position, floor, limit)
        for event, at in position.advance(page, ROOT):
            last = at
            yield event, at
        token = last.token()
        if not page.more:
            return


@given(
    logs=st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=5), min_size=1, max_size=12),
    limit=st.integers(1, 7),
)
def test_every_event_is_given_once_however_small_the_pages(
    logs: list[list[int]], limit: int
) -> None:
    made = [Log(UUID(int=n), tuple(map(float, sorted(one)))) for n, one in enumerate(logs, 1)]
    given_ = [(event.run_id, event.sequence) for event, _ in walked(made, FLOOR, limit)]
    assert sorted(given_) == sorted(
        (log.id, n) for log in made for n in range(1, len(log.times) + 1)
    )


def test_the_cursor_of_a_family_of_thousands_that_has_ended_stays_short() -> None:
    children = [Log(UUID(int=n), (n, n + 0.2, n + 0.4, n + 0.9)) for n in range(2, 2002)]
    root = Log(ROOT, (1.0, 4000.0))
    places = [at for _, at in walked([root, *children], NOW + timedelta(days=1), 501)]
    assert len(places) == 4 * 2000 + 2
    longest = max(places, key=lambda at: len(at.seen))
    assert len(longest.token()) < MAX_CURSOR / 4
