"""Request and response models of sessions."""

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
from runward.domain.run.sessions import MAX_STATE_BYTES, ConflictMode, fits_limit
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
    """A session to create."""

    model_config = with_example(**_ORDERS)

    name: Name | None = None
    """Name of the session, for people. Null: no name."""
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    """Custom metadata: up to 64 keys and 16 KiB as JSON."""
    state: State = Field(default_factory=dict[str, JsonValue])
    """State that the session's runs and their tools share: a JSON object of up to 64 KiB. Models do
    not see it."""
    on_conflict: ConflictMode = ConflictMode.QUEUE
    """What happens to a run that is started while another run of the session is open. `queue`: the
    new run waits. `reject`: the new run is refused with 409. `cancel_previous`: the earlier open
    runs are cancelled."""


def _omit_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


class UpdateSession(RequestModel):
    """The fields to update. Runward merges `state` by key: a new value replaces the previous value
    of the same key, and null removes the key. Other keys keep their values."""

    model_config = with_example(name="Order A-1018", state={"language": None, "topic": "refund"})

    name: Name | None = None
    """Name of the session, for people. Null removes the name."""
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    """Custom metadata: up to 64 keys and 16 KiB as JSON. It replaces the previous metadata
    completely."""
    state: State = Field(default_factory=dict[str, JsonValue])
    """Changes to the shared state. Runward merges them by top-level key. Null as the value of a key
    removes the key."""
    on_conflict: ConflictMode = Field(default=ConflictMode.QUEUE, json_schema_extra=_omit_default)
    """What happens to a run that is started while another run of the session is open. The new value
    applies to runs that are started after the update."""

    def get_changes(self) -> dict[str, Any]:
        """Return the given fields and their values, except `state`."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"state"}}


class ForkSession(RequestModel):
    """Options for forking a session."""

    model_config = with_example(run_id=RUN_ID, name="What if")

    run_id: Annotated[str, Field(max_length=64)] | None = None
    """ID of the last run whose items the fork contains. Null: all runs that have ended."""
    name: Name | None = None
    """Name of the new session. Null: the name of the original session."""


class Session(ResponseModel):
    """A conversation shared by several runs. Only one of its runs executes at a time."""

    model_config = with_example(
        id=SESSION_ID,
        **_ORDERS,
        forked_from=None,
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
    )

    id: str
    """ID of the session. Runs refer to it as `session_id`."""
    object: Literal["session"] = "session"
    name: str | None
    """Name of the session, for people. Null if the session has no name."""
    metadata: JsonObject
    """Custom metadata of the session."""
    state: JsonObject
    """Current state that the session's runs and their tools share."""
    on_conflict: ConflictMode
    """What happens to a run that is started while another run of the session is open."""
    forked_from: str | None
    """ID of the session that this session was forked from. Null if it is not a fork."""
    created_at: datetime
    """When the session was created."""
    updated_at: datetime
    """When the session was last changed. The end of a run changes its session."""

    @classmethod
    def from_row(cls, session: StoredSession) -> Self:
        return cls.from_attributes(
            session,
            id=format_id(Prefix.SESSION, session.id),
            forked_from=format_optional_id(Prefix.SESSION, session.forked_from),
        )


class SessionItemList(ConversationPage):
    """A page of a session's conversation: the items of the runs that have ended. Each item has its
    own `id` and the `run_id` of its run. `run_id` is null if a client added the item at
    `/v1/conversations`."""

    model_config = with_example(
        data=[
            {
                "id": "item_019a5f1e7a4d7e209c3b5d7f9a1c3e5d_1_1",
                "run_id": RUN_ID,
                "type": "message",
                "role": "user",
                "content": "Where is my order A-1017?",
            }
        ],
        first_id="item_019a5f1e7a4d7e209c3b5d7f9a1c3e5d_1_1",
        last_id="item_019a5f1e7a4d7e209c3b5d7f9a1c3e5d_1_1",
        has_more=False,
    )

    data: list[JsonObject]
    """Items in the requested order."""
