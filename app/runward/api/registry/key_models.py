"""API keys and projects."""

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
"""Characters."""
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]


def _check_unique(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    if len(set(scopes)) != len(scopes):
        raise ValueError("must name each scope once")
    return scopes


class CreateKey(RequestModel):
    """A new key of the project."""

    model_config = with_example(name="ci", scopes=["runs:read", "runs:write"], expires_at=None)

    name: Name
    """What it is for."""
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1), AfterValidator(_check_unique)]
    """The scopes of the new key. The key that creates it must have each of them."""
    expires_at: UtcDatetime | None = None
    """When it stops working, with its offset from UTC; null for never."""


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
    """A key, without its secret."""

    model_config = with_example(**_KEY_EXAMPLE)

    id: str
    """ID of the key. `created_by` of runs and `decided_by` of approvals refer to it."""
    object: Literal["key"] = "key"
    name: str
    """What it is for."""
    scopes: list[Scope]
    """What it may do."""
    created_at: datetime
    """When it was made."""
    expires_at: datetime | None
    """When it stops working."""
    revoked_at: datetime | None
    """When it was revoked."""
    last_used_at: datetime | None
    """When it was last used, to within a minute. Null if it never was."""

    @classmethod
    def from_row(cls, row: keys.Key, **fields: Any) -> Self:
        return cls.from_attributes(row, id=format_id(Prefix.KEY, row.id), **fields)


class NewKey(Key):
    """A key just made."""

    model_config = with_example(**_KEY_EXAMPLE | {"last_used_at": None}, key="rw_…")

    key: str
    """`rw_…`: the key itself. Shown this once."""


class CreateProject(RequestModel):
    """A new project: its tools, runs and keys are its own."""

    model_config = with_example(name="Billing")

    name: Name
    """Any text."""


class Project(ResponseModel):
    """A project."""

    model_config = with_example(
        id=PROJECT_ID, object="project", name="Billing", created_at=EXAMPLE_TIME
    )

    id: str
    """What its keys are made under."""
    object: Literal["project"] = "project"
    name: str
    """Any text."""
    created_at: datetime
    """When it was made."""

    @classmethod
    def from_row(cls, project: keys.Project) -> Self:
        return cls.from_attributes(project, id=format_id(Prefix.PROJECT, project.id))
