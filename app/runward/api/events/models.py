"""The events of a run, as responses show them."""

from datetime import datetime
from typing import Final

from runward.api.http.models import DIGEST, EXAMPLE_TIME, RUN_ID, ResponseModel, with_example
from runward.domain.json import JsonObject

EVENT_STREAM: Final = {"$ref": "#/components/schemas/EventStream"}
"""The reference in openapi.json to the schema of a stream, which `runward.api.openapi.schemas`
adds."""


class Event(ResponseModel):
    """An event of a run's log. Polling and streaming return the same events."""

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
    """ID of the event. Globally unique."""
    type: str
    """Type of the event, such as `tool_call.started`. docs/reference/events.md lists the types."""
    sequence: int
    """Position of the event in the log of its run: 1, 2, 3, and so on, without gaps. In a stream,
    it is also the `id` of the server-sent event."""
    run_id: str
    """ID of the run."""
    created_at: datetime
    """When the event was committed, according to the database's clock."""
    data: JsonObject
    """Data of the event. Its fields depend on the event's type."""
