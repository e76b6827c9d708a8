"""Answers in JSON, printed once: a handler that returns one of these skips FastAPI's own encoder,
which validates a second time."""

from collections.abc import Mapping
from typing import Any

from fastapi import Response
from pydantic_core import to_json


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """`value`: a response model, or anything that is JSON. Declare the model on the route too
    (`response_model=`), for openapi.json."""
    return Response(to_json(value), status, headers, "application/json")


def created_response(value: Any, location: str, status: int = 201) -> Response:
    return json_response(value, status, {"Location": location})


def no_content() -> Response:
    return Response(status_code=204)
