"""The slots of schedules, with the changes of clocks in both directions."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.domain.schedules import (
    MAX_MISSED,
    MISSED_AFTER,
    ScheduleMisfires,
    Timing,
    find_cron_problem,
    is_time_zone,
)

NEW_YORK = "America/New_York"
"""Clocks skip 02:00 to 03:00 on March 8, 2026, and repeat 01:00 to 02:00 on November 1, 2026."""


def slots(cron: str, time_zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The slots in UTC, each found after the one before, as the scheduler does."""
    timing, found = Timing(cron, time_zone, None), [start]
    while (slot := timing.find_next(found[-1])) is not None and slot <= end:
        found.append(slot)
    return found[1:]


def day(cron: str, month: int, day_of_month: int) -> list[str]:
    """The slots of one day in New York, as local times with their offset from UTC."""
    zone = ZoneInfo(NEW_YORK)
    start = datetime(2026, month, day_of_month, tzinfo=zone).astimezone(UTC)
    end = datetime(2026, month, day_of_month, 23, 59, tzinfo=zone).astimezone(UTC)
    found = slots(cron, NEW_YORK, start - timedelta(seconds=1), end)
    return [f"{slot.astimezone(zone):%H:%M%z}"[:-2] for slot in found]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("30 2 * * *", ["03:00-04"]),
        ("0,30 2 * * *", ["03:00-04"]),
        ("30 2,3 * * *", ["03:00-04", "03:30-04"]),
        ("30 1,3 * * *", ["01:30-05", "03:30-04"]),
        ("30 * * * *", ["00:30-05", "01:30-05", "03:30-04", "04:30-04"]),
        ("*/30 2 * * *", []),
    ],
)
def test_a_slot_in_the_skipped_hour(cron: str, expected: list[str]) -> None:
    assert day(cron, 3, 8)[: len(expected) or None] == expected


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("30 1 * * *", ["01:30-04"]),
        ("0,30 1 * * *", ["01:00-04", "01:30-04"]),
        ("30 * * * *", ["00:30-04", "01:30-04", "01:30-05", "02:30-05"]),
        ("*/30 1 * * *", ["01:00-04", "01:30-04", "01:00-05", "01:30-05"]),
    ],
)
def test_a_slot_in_the_repeated_hour(cron: str, expected: list[str]) -> None:
    assert day(cron, 11, 1)[:4] == expected


def test_a_slot_of_the_first_pass_is_not_found_again_in_the_second_pass() -> None:
    second_pass = datetime(2026, 11, 1, 6, 10, tzinfo=UTC)  # 01:10 in standard time
    tomorrow = datetime(2026, 11, 2, 6, 30, tzinfo=UTC)
    assert Timing("30 1 * * *", NEW_YORK, None).find_next(second_pass) == tomorrow


def test_a_day_at_the_same_local_time_has_23_or_25_hours() -> None:
    at_nine = slots(
        "0 9 * * *", NEW_YORK, datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 3, 10, tzinfo=UTC)
    )
    assert [slot.hour for slot in at_nine] == [14, 14, 13, 13]


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("* * * *", "must have five fields"),
        ("0 * * * * *", "must have five fields"),
        ("@daily", "must have five fields"),
        ("60 * * * *", "never occurs: minute"),
        ("0 0 30 2 *", "never occurs: day-of-month"),
        ("0 0 * * 8", "never occurs: day-of-week"),
        ("*/0 * * * *", "never occurs: minute"),
        ("²L * * * *", "never occurs: minute"),
    ],
)
def test_the_problem_of_an_expression(cron: str, problem: str) -> None:
    assert problem in (find_cron_problem(cron) or "")


def test_an_expression_that_matches_no_time_has_no_slot() -> None:
    cron = "0 0 */31 * MON#5"  # the first day of a month that is the fifth Monday
    assert find_cron_problem(cron) is None
    assert Timing(cron, "UTC", None).find_next(datetime(2026, 1, 1, tzinfo=UTC)) is None


@settings(max_examples=300)
@given(st.text("0123456789*/,-LW# MONJAN@²", max_size=40))
def test_any_text_is_an_expression_or_has_a_problem(cron: str) -> None:
    if find_cron_problem(cron) is None:
        Timing(cron, NEW_YORK, None).find_next(datetime(2026, 1, 1, tzinfo=UTC))


def test_only_names_of_the_time_zone_database_are_time_zones() -> None:
    assert is_time_zone("Europe/Berlin") and is_time_zone("UTC")
    for name in (
        "",
        "Europe",
        "europe/berlin ",
        "../../etc/passwd",
        "/etc/localtime",
        "localtime",
        "CET\0",
    ):
        assert not is_time_zone(name)


CRONS = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "30 * * * *", "0,30 1-3 * * *", "*/20 1,2 * * *", "15 9 * * *"]
)
ZONES = st.sampled_from(["UTC", NEW_YORK, "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"])
TIMES = st.sampled_from([(3, 8), (3, 29), (6, 1), (10, 25), (11, 1)]).flatmap(
    lambda date: st.integers(0, 1440).map(
        lambda minutes: datetime(2026, *date, tzinfo=UTC) + timedelta(minutes=minutes)
    )
)


@settings(max_examples=150, deadline=None)
@given(CRONS, ZONES, TIMES, st.integers(0, 40), st.sampled_from(ScheduleMisfires))
def test_the_newest_missed_slots_are_kept(
    cron: str, zone: str, now: datetime, down: int, misfires: ScheduleMisfires
) -> None:
    timing = Timing(cron, zone, None)
    first = timing.find_next(now - timedelta(hours=down))
    assert first is not None
    missed = slots(cron, zone, first - timedelta(seconds=1), now - MISSED_AFTER)
    kept = missed[max(0, len(missed) - MAX_MISSED[misfires]) :] if missed else []
    expected = kept[0] if kept else timing.find_next(now - MISSED_AFTER) if missed else first
    assert timing.find_resumption(first, now, misfires) == expected


@pytest.mark.parametrize(("misfires", "starts"), [("skip", False), ("once", True), ("all", True)])
def test_the_only_slot_is_missed(misfires: Any, starts: bool) -> None:  # noqa: FBT001
    at = datetime(2026, 1, 1, tzinfo=UTC)
    timing = Timing(None, "UTC", at)
    assert timing.find_next(at - timedelta(seconds=1)) == at
    assert timing.find_next(at) is None
    late = at + timedelta(days=30)
    assert timing.find_resumption(at, at + timedelta(seconds=30), ScheduleMisfires.SKIP) == at
    assert timing.find_resumption(at, late, ScheduleMisfires(misfires)) == (at if starts else None)


def test_slots_are_found_in_order_and_only_once() -> None:
    start = datetime(2026, 10, 31, tzinfo=UTC)
    found = slots("*/15 * * * *", NEW_YORK, start, start + timedelta(days=2))
    assert found == sorted(set(found))
    assert len(found) == 2 * 24 * 4
