"""Removes the conditions on the project from the queries of a process, so that only row-level
security separates the projects. A folder with this module is in PYTHONPATH of that process."""

import re
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

CONDITION = re.compile(r"(?:\b\w+\.)?\bproject_id = (?:CAST\()?(\$\d+)(?:::UUID| AS uuid\))?")


@event.listens_for(Engine, "before_cursor_execute", retval=True)
def remove_conditions(
    _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any
) -> tuple[str, Any]:
    return CONDITION.sub(r"(\1::uuid IS NOT NULL)", statement), parameters
