"""Read a request's body: check its size and type, parse strict JSON, and validate it with the
route's model."""

import asyncio
import re
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect

from runward.api.http.requests import ApiRequest
from runward.api.http.validation import suggest_field
from runward.domain import strict_json
from runward.domain.errors import (
    FieldError,
    InvalidRequestError,
    PayloadTooLargeError,
    RequestTimeoutError,
    UnsupportedMediaTypeError,
)

MAX_BYTES: Final = 1_048_576
"""Maximum size of a body in bytes for every route. `Services.max_body_bytes` overrides it."""
READ_SECONDS: Final = 30.0
MAX_DETAILED_ERRORS: Final = 1_000
"""Maximum number of errors in a body that are described one by one. More would block the process
for seconds."""

NO_BODY: Final = object()

_JSON_TYPE: Final = re.compile(
    r'application/(?:[\w.+-]+\+)?json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?;?\s*',
    re.IGNORECASE | re.ASCII,
)


async def read_body(request: ApiRequest, max_bytes: int, adapter: TypeAdapter[Any] | None) -> Any:
    """Return the validated body, or NO_BODY if the request has none. `adapter`: the type of the
    body. None: the route accepts no body except an empty object."""
    request.raw = await read_bytes(request, max_bytes)
    if not request.raw:
        return NO_BODY
    value = strict_json.parse_body(request.raw)
    if adapter is None:
        _reject_body(value)
        return NO_BODY
    return _validate(adapter, request.raw, value)


async def read_bytes(request: ApiRequest, max_bytes: int) -> bytes:
    """Return the body, which is empty if the request has none. Raises an AppError if the body is
    too large, arrives too slowly, or is not declared as JSON. Raises ClientDisconnect."""
    declared = request.get_header(b"content-length") or "0"
    if declared == "0" and request.get_header(b"transfer-encoding") is None:
        return b""
    if declared.isdecimal() and int(declared[:20]) > max_bytes:
        raise PayloadTooLargeError(max_bytes)
    try:
        async with asyncio.timeout(READ_SECONDS):
            body = await _receive_body(request, max_bytes)
    except TimeoutError:
        raise RequestTimeoutError from None
    if body:
        _check_type(request)
    return body


async def _receive_body(request: ApiRequest, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise PayloadTooLargeError(max_bytes)
        chunks.append(chunk)
        more = message.get("more_body", False)
    return b"".join(chunks)


def _check_type(request: ApiRequest) -> None:
    content_type = request.get_header(b"content-type") or ""
    if content_type != "application/json" and not _JSON_TYPE.fullmatch(content_type):
        raise UnsupportedMediaTypeError
    if (request.get_header(b"content-encoding") or "identity").lower() != "identity":
        raise UnsupportedMediaTypeError(
            "The request body must not be compressed. Send the body without `Content-Encoding`."
        )


def _validate(adapter: TypeAdapter[Any], raw: bytes, value: JsonValue) -> Any:
    """Validate the text and not the parsed `value`. Strict models convert arrays to tuples and
    strings to times only if they validate text."""
    try:
        return adapter.validate_json(raw)
    except ValidationError as error:
        if (count := error.error_count()) > MAX_DETAILED_ERRORS:
            message = f"{count} values or fields are invalid"
            raise InvalidRequestError(errors=[FieldError("", message)]) from None
        found = error.errors(include_url=False, include_input=False)
        raise RequestValidationError(
            [{**_add_hint(adapter, item), "loc": ("body", *item["loc"])} for item in found],
            body=value,
        ) from None


def _add_hint(adapter: TypeAdapter[Any], item: ErrorDetails) -> dict[str, Any]:
    if item["type"] != "extra_forbidden":
        return {**item}
    return {**item, "hint": suggest_field(adapter, item["loc"])}


def _reject_body(value: JsonValue) -> None:
    """Reject a body. Accept `null`, because some clients send it in place of an empty body."""
    if value is not None and value != {}:
        paths = list(value)[:1] if isinstance(value, dict) else [""]
        errors = [FieldError(path, "this request must not have a body") for path in paths]
        raise InvalidRequestError(errors=errors)
