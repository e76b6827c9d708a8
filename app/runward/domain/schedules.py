"""The slots of schedules: the times at which a schedule starts a run.

cronsim evaluates cron expressions. When clocks change, it follows Debian's cron. If neither the
minute nor the hour begins with `*`, a time in a skipped hour moves to the end of that hour, and a
time in a repeated hour occurs once. Otherwise the expression follows the clock: times in a skipped
hour do not occur, and times in a repeated hour occur twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from runward.domain.errors import FieldError, InvalidRequestError

CRON_FIELDS: Final = 5
MAX_CRON: Final = 128
"""Maximum number of characters of a cron expression."""
MAX_AHEAD: Final = timedelta(days=3650)
"""Maximum time until the slot of a schedule that starts one run."""
MAX_WAITING_RUNS: Final = 100
"""Maximum number of runs of one schedule that wait for the run of an earlier slot."""
MISSED_AFTER: Final = timedelta(seconds=60)
"""A slot is missed if no worker has started its run within this time."""
_MAX_REPEATED: Final = timedelta(hours=3)
"""More than the time that a change of the clock repeats."""
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


class ScheduleOverlap(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class ScheduleMisfires(StrEnum):
    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class SlotStatus(StrEnum):
    STARTED = "started"
    SKIPPED = "skipped"
    FAILED = "failed"


class SlotSkipReason(StrEnum):
    OVERLAP = "overlap"
    QUEUE_FULL = "queue_full"
    MISSED = "missed"


MAX_MISSED: Final = {ScheduleMisfires.SKIP: 0, ScheduleMisfires.ONCE: 1, ScheduleMisfires.ALL: 100}
"""Number of missed slots that start a run, newest first."""


def find_skip_reason(overlap: ScheduleOverlap, open_runs: int) -> SlotSkipReason | None:
    """Return why a slot starts no run, or None if it starts one. `open_runs`: the number of the
    schedule's runs that have not ended."""
    if overlap is ScheduleOverlap.SKIP and open_runs:
        return SlotSkipReason.OVERLAP
    if overlap is ScheduleOverlap.QUEUE and open_runs > MAX_WAITING_RUNS:
        return SlotSkipReason.QUEUE_FULL
    return None


def find_cron_problem(text: str) -> str | None:
    """Return why the text is not a cron expression, or None if it is one. It may match no time."""
    if len(text.split()) != CRON_FIELDS:
        return "must have five fields: minute, hour, day of month, month and day of week"
    try:
        CronSim(text, _ANY_TIME)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        return f"has a field that is not valid or never occurs: {field}"
    return None


def is_time_zone(name: str) -> bool:
    return name in _list_time_zones()


@cache
def _list_time_zones() -> frozenset[str]:
    # `localtime` is a file of Debian, and not a name of the database. Hosts can differ in it.
    return frozenset(available_timezones() - {"localtime"})


@dataclass(frozen=True, slots=True)
class Timing:
    """Either a cron expression, or the time of the only slot. The methods raise InvalidRequestError
    if this process does not know the time zone or rejects the expression, for example because the
    time zone database of another host is newer."""

    cron: str | None
    time_zone: str
    at: datetime | None

    def find_next(self, after: datetime) -> datetime | None:
        """Return the first slot after this time in UTC, or None if there is none."""
        if self.cron is None:
            return self.at if self.at is not None and self.at > after else None
        # In a repeated hour, cronsim may begin with times of the first pass.
        return next((slot for slot in self._iterate(self.cron, after) if slot > after), None)

    def find_resumption(
        self, slot: datetime, now: datetime, misfires: ScheduleMisfires
    ) -> datetime | None:
        """Return the slot to process next, if `slot` is the next one that was not processed. It is
        `slot` itself, or a later one if `slot` was missed and must be skipped."""
        missed_until = now - MISSED_AFTER
        limit = MAX_MISSED[misfires]
        if slot > missed_until or (self.cron is None and limit):
            return slot
        kept = (
            None if self.cron is None else self._find_oldest(self.cron, slot, missed_until, limit)
        )
        return kept or self.find_next(missed_until)

    def _find_oldest(
        self, cron: str, first: datetime, last: datetime, limit: int
    ) -> datetime | None:
        """Return the oldest of the newest `limit` slots between two times, or None if there is no
        such slot."""
        backwards = self._iterate(cron, last + _MAX_REPEATED, reverse=True)
        missed = takewhile(first.__le__, (slot for slot in backwards if slot <= last))
        return min(islice(missed, limit), default=None)

    def _iterate(self, cron: str, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
        """Yield slots in UTC. cronsim yields none after 50 years without one."""
        try:
            local = start.astimezone(ZoneInfo(self.time_zone))
            slots = CronSim(cron, local, reverse=reverse)
        except ZoneInfoNotFoundError:
            problem = FieldError("time_zone", "is not a time zone that this process knows")
            raise InvalidRequestError(errors=[problem]) from None
        except CronSimError as error:
            problem = FieldError("cron", find_cron_problem(cron) or str(error))
            raise InvalidRequestError(errors=[problem]) from None
        return (slot.astimezone(UTC) for slot in slots)
