"""`resp_…`: a run's digits, and behind them where in its log the response begins."""

import re
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from runward.domain.ids import RunId

_SHOWN: Final = re.compile(r"resp_([0-9a-f]{32})(?:_([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class ResponseId:
    """`after`: the number of the event with which the run waited for the client; 0: the response
    begins with the run."""

    run_id: RunId
    after: int = 0

    def __str__(self) -> str:
        return f"resp_{self.run_id.hex}{f'_{self.after}' if self.after else ''}"

    @classmethod
    def parse(cls, shown: str) -> "ResponseId | None":
        """None: that is no response's id, which is answered like an unknown one."""
        found = _SHOWN.fullmatch(shown)
        return None if found is None else cls(RunId(UUID(hex=found[1])), int(found[2] or 0))
