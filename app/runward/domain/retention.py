"""How long Runward keeps each class of data, and the data that a legal hold protects."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_DAYS: Final = 36_500
"""Maximum retention of a class of data."""


class FixedClass(StrEnum):
    """The classes of data whose retention cannot be changed."""

    IDEMPOTENCY_KEYS = "idempotency_keys"
    SCHEDULE_SLOTS = "schedule_slots"


class DataClass(StrEnum):
    """The classes of data with a retention of their own, in the order in which a worker removes
    them. Events are deleted before a worker erases the content of their runs."""

    EVENTS = "events"
    RUNS = "runs"
    TOOL_CALL_CONTENT = "tool_call_content"
    DELIVERIES = "deliveries"
    AUDIT = "audit"


class ErasureStatus(StrEnum):
    """Status of an erasure. `in_progress`: workers process it. `completed`: they have processed all
    runs and sessions."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class HoldKind(StrEnum):
    """Kind of a resource under a legal hold."""

    RUN = "run"
    SESSION = "session"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The retention of the deployment: for each class, the number of days of projects that have not
    chosen one, and the largest number of days. None: forever."""

    default: Mapping[DataClass, int | None]
    maximum: Mapping[DataClass, int | None]

    def find_maximum(self, data_class: DataClass) -> int | None:
        return self.maximum.get(data_class)

    def find_days(self, data_class: DataClass, chosen: Mapping[str, int | None]) -> int | None:
        """Return the number of days for a project. `chosen`: the choice of the project. A choice
        that exceeds the maximum counts as the maximum, because the operator may lower it."""
        days = chosen.get(data_class, self.default.get(data_class))
        maximum = self.maximum.get(data_class)
        return min((one for one in (days, maximum) if one is not None), default=None)
