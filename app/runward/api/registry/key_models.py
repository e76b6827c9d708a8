"""Request and response models of API keys and projects."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field

from runward.api.http.models import (
    EXAMPLE_TIME,
    KEY_ID,
    PROJECT_ID,
    RequestModel,
    ResponseModel,
    UtcDatetime,
    with_example,
)
from runward.domain.ids import Prefix, format_id
from runward.domain.registry.scopes import Scope
from runward.store.access import keys

MAX_NAME_LENGTH: Final = 200
"""Maximum number of characters of a name."""
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]


def _check_unique(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    if len(set(scopes)) != len(scopes):
        raise ValueError("must not contain the same scope twice")
    return scopes


class CreateKey(RequestModel):
    """An API key to create."""

    model_config = with_example(name="ci", scopes=["runs:read", "runs:write"], expires_at=None)

    name: Name
    """Name of the API key. Choose a name that describes the purpose of the key."""
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1), AfterValidator(_check_unique)]
    """Scopes of the new API key. The API key of the request must have all of these scopes."""
    expires_at: UtcDatetime | None = None
    """When the API key expires, as a timestamp with an offset from UTC. Null: the key does not
    expire."""


_KEY_EXAMPLE: Final[dict[str, Any]] = {
    "id": KEY_ID,
    "name": "ci",
    "scopes": ["runs:read", "runs:write"],
    "created_at": EXAMPLE_TIME,
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": EXAMPLE_TIME,
}


class Key(ResponseModel):
    """An API key, without its secret."""

    model_config = with_example(**_KEY_EXAMPLE)

    id: str
    """ID of the API key. `created_by` of runs and `decided_by` of approvals refer to it."""
    object: Literal["key"] = "key"
    name: str
    """Name of the API key."""
    scopes: list[Scope]
    """Scopes of the API key."""
    created_at: datetime
    """When the API key was created."""
    expires_at: datetime | None
    """When the API key expires. Null if it does not expire."""
    revoked_at: datetime | None
    """When the API key was revoked. Null if it is not revoked."""
    last_used_at: datetime | None
    """When the API key was last used, accurate to a minute. Null if it was never used."""

    @classmethod
    def from_row(cls, row: keys.Key, **fields: Any) -> Self:
        return cls.from_attributes(row, id=format_id(Prefix.KEY, row.id), **fields)


class NewKey(Key):
    """An API key that was just created, with its secret."""

    model_config = with_example(**_KEY_EXAMPLE | {"last_used_at": None}, key="rw_…")

    key: str
    """The API key itself (`rw_…`). Runward returns it only once."""


class CreateProject(RequestModel):
    """A project to create. Each project has its own tools, runs, and API keys."""

    model_config = with_example(name="Billing")

    name: Name
    """Name of the project."""


class Project(ResponseModel):
    """A project, which has its own tools, runs, and API keys."""

    model_config = with_example(
        id=PROJECT_ID, object="project", name="Billing", created_at=EXAMPLE_TIME
    )

    id: str
    """ID of the project. Use it to create the project's API keys."""
    object: Literal["project"] = "project"
    name: str
    """Name of the project."""
    created_at: datetime
    """When the project was created."""

    @classmethod
    def from_row(cls, project: keys.Project) -> Self:
        return cls.from_attributes(project, id=format_id(Prefix.PROJECT, project.id))
