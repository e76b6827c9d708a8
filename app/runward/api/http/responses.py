"""Responses: JSON that is serialized once, and conditional GET requests (RFC 9110, section 13).
FastAPI's own encoder would validate the value a second time."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with `value`, which is a model or JSON data. Declare the model on the route
    (`response_model=`) for openapi.json."""
    return Response(to_json(value), status, headers, "application/json")


def apply_etag(request: Request, response: Response) -> Response:
    """Add an ETag to a complete 200 response of a GET request. If `If-None-Match` contains the
    ETag, return 304. The ETag is weak, because the same JSON may be sent compressed. Streams have
    no ETag."""
    body = getattr(response, "body", None)
    if request.method != "GET" or response.status_code != 200 or not isinstance(body, bytes):
        return response
    etag = f'W/"{blake2b(body, digest_size=16).hexdigest()}"'
    if etag.removeprefix("W/") in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"ETag": etag})
    response.headers["ETag"] = etag
    return response
