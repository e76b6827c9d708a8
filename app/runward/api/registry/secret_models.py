"""Secrets, as they are put and shown: without their values."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from runward.api.http.models import EXAMPLE_TIME, RequestModel, ResponseModel, with_example


class PutSecret(RequestModel):
    """A secret's value. It is stored encrypted and never shown again."""

    model_config = ConfigDict(json_schema_extra=with_example(value="sk-…"))

    value: Annotated[str, Field(min_length=1, max_length=16_384)]
    """From 1 to 16384 characters."""


class Secret(ResponseModel):
    """A stored secret, without its value."""

    model_config = ConfigDict(
        json_schema_extra=with_example(
            object="secret",
            name="CRM_TOKEN",
            version=2,
            created_at=EXAMPLE_TIME,
            updated_at=EXAMPLE_TIME,
        )
    )

    object: Literal["secret"] = "secret"
    """`secret`."""
    name: str
    """Unique in the project; what other resources refer to it by."""
    version: int
    """Counts the values that it has had, from 1."""
    created_at: datetime
    """When it was made."""
    updated_at: datetime
    """When it got this value."""
