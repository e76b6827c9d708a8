"""Sessions, as they are made, changed and shown."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, JsonValue

from runward.api.http.models import (
    EXAMPLE_TIME,
    RUN_ID,
    ConversationPage,
    Metadata,
    RequestModel,
    ResponseModel,
    with_example,
)
from runward.domain.ids import Prefix, format_id, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.run.sessions import MAX_STATE_BYTES, OnConflict, fits_limit
from runward.store.runs.sessions import StoredSession

SESSION_ID: Final = "sess_019a5f1e7a4d7e209c3b5d7f9a1c3e5d"


def _check_state_size(state: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if not fits_limit(state):
        raise ValueError(f"must be at most {MAX_STATE_BYTES} bytes as JSON")
    return state


Name = Annotated[str, Field(min_length=1, max_length=200)]
State = Annotated[dict[str, JsonValue], AfterValidator(_check_state_size)]

_ORDERS: Final[dict[str, Any]] = {
    "name": "Order A-1017",
    "metadata": {"customer": "c-7"},
    "state": {"language": "de"},
    "on_conflict": "queue",
}


class CreateSession(RequestModel):
    """A new conversation."""

    model_config = with_example(**_ORDERS)

    name: Name | None = None
    """What people call it."""
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    """The caller's own notes: up to 64 keys and 16 KiB."""
    state: State = Field(default_factory=dict[str, JsonValue])
    """What its runs and their tools share: JSON of up to 64 KiB. Models do not see it."""
    on_conflict: OnConflict = OnConflict.QUEUE
    """What a run does that is started while another one is open: `queue` waits for its turn,
    `reject` is refused with 409, `cancel_previous` cancels those before it."""


class PatchSession(RequestModel):
    """What to change. `state` is merged: its keys replace those of the same name, null removes
    one, all others stay."""

    model_config = with_example(name="Order A-1018", state={"language": None, "topic": "refund"})

    name: Name | None = None
    """What people call it; null for nothing."""
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    """Replaces the old notes whole."""
    state: State = Field(default_factory=dict[str, JsonValue])
    """Merged, key by key, at the top level."""
    on_conflict: OnConflict = OnConflict.QUEUE
    """For runs that are started from now on."""

    def get_changes(self) -> dict[str, Any]:
        """What the client named, but for the state."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"state"}}


class ForkSession(RequestModel):
    """Where a fork begins."""

    model_config = with_example(run_id=RUN_ID, name="What if")

    run_id: Annotated[str, Field(max_length=64)] | None = None
    """The last run whose items it has; without one, all runs that have ended."""
    name: Name | None = None
    """Its name; without one, the old session's."""


class Session(ResponseModel):
    """A conversation across runs, of which one works at a time."""

    model_config = with_example(
        id=SESSION_ID,
        **_ORDERS,
        forked_from=None,
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
    )

    id: str
    """What runs name as `session_id`."""
    object: Literal["session"] = "session"
    name: str | None
    """What people call it."""
    metadata: JsonObject
    """As it was given."""
    state: JsonObject
    """What its runs and their tools share, as it is now."""
    on_conflict: OnConflict
    """What a run does that is started while another one is open."""
    forked_from: str | None
    """The session that it went on from."""
    created_at: datetime
    """When it was made."""
    updated_at: datetime
    """When it was changed, or a run of it ended."""

    @classmethod
    def from_row(cls, session: StoredSession) -> Self:
        return cls.from_attributes(
            session,
            id=format_id(Prefix.SESSION, session.id),
            forked_from=format_optional_id(Prefix.SESSION, session.forked_from),
        )


class SessionItemPage(ConversationPage):
    """A page of a session's conversation: the items of its ended runs, as in a run's own list,
    each with its `id` and `run_id`."""

    model_config = with_example(
        data=[
            {
                "id": "item_019a5f1e7a4d7e209c3b5d7f9a1c3e5d_1_1",
                "run_id": RUN_ID,
                "role": "user",
                "content": "Where is my order A-1017?",
            }
        ],
        first_id="item_019a5f1e7a4d7e209c3b5d7f9a1c3e5d_1_1",
        last_id="item_019a5f1e7a4d7e209c3b5d7f9a1c3e5d_1_1",
        has_more=False,
    )

    data: list[JsonObject]
    """In the order of the runs, and of each run as it happened."""
