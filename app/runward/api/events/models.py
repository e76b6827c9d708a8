"""A run's events, as answers show them."""

from datetime import datetime
from typing import Final

from runward.api.http.models import DIGEST, EXAMPLE_TIME, RUN_ID, ResponseModel, with_example
from runward.domain.json import JsonObject

EVENT_STREAM: Final = {"$ref": "#/components/schemas/EventStream"}
"""In openapi.json: what `runward.api.openapi.schemas` says that a stream is."""


class Event(ResponseModel):
    """One entry of a run's log. Polling and streaming show the same."""

    model_config = with_example(
        id="evt_019a5f1e9b527c638d2f6c8bab4e3d71",
        type="tool_call.started",
        sequence=4,
        run_id=RUN_ID,
        created_at=EXAMPLE_TIME,
        data={
            "call_id": "call_1",
            "tool": "pay",
            "attempt": 1,
            "digest": DIGEST,
            "webhook_id": "call_019a5f1e8c537e648f3a7d9cbc5f4e82",
            "timeout_seconds": 30.0,
        },
    )

    id: str
    """Unique everywhere."""
    type: str
    """Such as `tool_call.started`; docs/events.md lists them."""
    sequence: int
    """1, 2, 3 … without gaps in each run; also the SSE `id`."""
    run_id: str
    """Whose log it is."""
    created_at: datetime
    """When it was committed, by the database's clock."""
    data: JsonObject
    """What the type says it is."""
