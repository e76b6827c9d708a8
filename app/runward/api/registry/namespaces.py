"""Convert the namespaces of OpenAI's Responses API: each function becomes a tool whose name begins
with the name of its namespace."""

import re
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from runward.domain.errors import FieldError
from runward.domain.registry.tools import NAME_PATTERN

MAX_FUNCTIONS: Final = 128
"""Maximum number of functions in one namespace."""
_MAX_DESCRIPTION: Final = 16_384
NamespaceDescription: TypeAlias = Annotated[str, Field(max_length=_MAX_DESCRIPTION)]


def join_name(namespace: str, function: str) -> str:
    """Return the name of the tool. It may be too long."""
    return f"{namespace}_{function}"


def join_fields(
    name: str, description: str, function: str, function_description: str | None
) -> dict[str, str]:
    """Return the name and the description of the tool."""
    texts = (description, function_description)
    return {
        "name": join_name(name, function),
        "description": "\n\n".join(text for text in texts if text),
    }


def find_length_errors(name: str, description: str) -> list[FieldError]:
    """Return the errors of a tool that is too long because of its namespace."""
    errors: list[FieldError] = []
    if not re.fullmatch(NAME_PATTERN, name):
        text = f"must have at most 64 characters together with its namespace, as '{name}'"
        errors.append(FieldError("name", text))
    if len(description) > _MAX_DESCRIPTION:
        text = f"must have at most {_MAX_DESCRIPTION} characters together with its namespace"
        errors.append(FieldError("description", text))
    return errors
