"""The result of a check of `doctor`."""

from dataclasses import dataclass
from typing import Literal

from runward.domain.errors import OperatorError

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `remedy` is the advice, and empty if the check succeeded."""

    check: str
    status: Status
    detail: str
    remedy: str = ""


def create_failure(check: str, error: OperatorError) -> Finding:
    """Return a failure: the error's first sentence is the detail, and the rest is the remedy."""
    detail, _, remedy = str(error).partition(". ")
    return Finding(check, "fail", detail, remedy)
