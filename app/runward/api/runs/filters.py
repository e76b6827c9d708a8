"""The filters of the list of runs."""

import re
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Query

from runward.api.http.models import UtcDatetime
from runward.domain import errors as e
from runward.domain.ids import Prefix, RunId, SessionId, parse_id
from runward.domain.run.status import RunStatus
from runward.store.runs.search import RunFilter

_ID: Final = re.compile(r"run_([0-9a-f]{8,32})")


def _read_filter(
    status: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Return only runs with this status. Separate several statuses with commas.",
            examples=["queued,in_progress"],
        ),
    ] = None,
    agent: Annotated[
        str | None, Query(max_length=64, description="Return only runs of this agent.")
    ] = None,
    session_id: Annotated[
        str | None, Query(max_length=64, description="Return only runs of this session.")
    ] = None,
    schedule_id: Annotated[
        str | None, Query(max_length=64, description="Return only runs of this schedule.")
    ] = None,
    parent_run_id: Annotated[
        str | None, Query(max_length=64, description="Return the child runs of this run.")
    ] = None,
    created_after: Annotated[
        UtcDatetime | None, Query(description="Return only runs accepted at or after this time.")
    ] = None,
    created_before: Annotated[
        UtcDatetime | None, Query(description="Return only runs accepted before this time.")
    ] = None,
    q: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            description="Return only runs that contain this text. The search ignores case. "
            "Runward searches user messages, outputs, errors, metadata values, agent names, and "
            "model names. If the text is the beginning of a run ID with at least 8 digits, such "
            "as `run_019a5f1e`, Runward returns the runs whose IDs start with it, including child "
            "runs.",
        ),
    ] = None,
) -> RunFilter | None:
    parent = None if parent_run_id is None else parse_id(Prefix.RUN, parent_run_id)
    session = None if session_id is None else parse_id(Prefix.SESSION, session_id)
    schedule = None if schedule_id is None else parse_id(Prefix.SCHEDULE, schedule_id)
    unknown_parent = parent_run_id is not None and parent is None
    unknown_session = session_id is not None and session is None
    unknown_schedule = schedule_id is not None and schedule is None
    if unknown_parent or unknown_session or unknown_schedule:
        return None
    ids = None if q is None else _parse_id_prefix(q)
    return RunFilter(
        statuses=[] if status is None else _parse_statuses(status),
        agent=agent,
        parent=None if parent is None else RunId(parent),
        session=None if session is None else SessionId(session),
        schedule=schedule,
        created_from=created_after,
        created_before=created_before,
        ids=ids,
        text=q if ids is None else None,
    )


RunFilterParams = Annotated[RunFilter | None, Depends(_read_filter)]
"""The filter of a request. None: the ID of a run, session or schedule is invalid, so the list is
empty."""


def _parse_statuses(value: str) -> list[RunStatus]:
    """Return the statuses. Raises InvalidRequestError."""
    try:
        return [RunStatus(one) for one in value.split(",")]
    except ValueError:
        allowed = ", ".join(RunStatus)
        raise e.InvalidRequestError(
            errors=[
                e.FieldError(
                    "query.status", f"must be one or more of {allowed}, separated by commas"
                )
            ]
        ) from None


def _parse_id_prefix(q: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last ID with this prefix. None: the text is not the beginning of an
    ID."""
    found = _ID.fullmatch(q.strip().lower())
    if found is None:
        return None
    return UUID(found[1].ljust(32, "0")), UUID(found[1].ljust(32, "f"))
