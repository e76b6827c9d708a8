"""Read a request's body: check its size and type, parse strict JSON, and validate it with the
route's model."""

import asyncio
import re
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

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

_JSON_TYPE: Final = re.compile(
    r'application/(?:[\w.+-]+\+)?json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?;?\s*',
    re.IGNORECASE | re.ASCII,
)


class ValidatedRequest(Request):
    """A request whose body was read and validated. `json()` returns the instance of the model,
    which FastAPI uses unchanged."""

    raw: bytes = b""
    validated: Any = None

    async def body(self) -> bytes:
        return self.raw

    async def json(self) -> Any:
        return self.validated


async def read_request(
    request: Request, max_bytes: int, adapter: TypeAdapter[Any] | None
) -> ValidatedRequest:
    """Read and validate the request. `adapter`: the type of the body. None: the route accepts no
    body except an empty object."""
    done = ValidatedRequest(request.scope, request.receive)
    done.raw = await read_bytes(request, max_bytes)
    if not done.raw:
        return done
    value = strict_json.parse_body(done.raw)
    done.validated = _reject_body(value) if adapter is None else _validate(adapter, done.raw, value)
    return done


def _has_body(request: Request) -> bool:
    headers = request.headers
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    """Return the body, which is empty if the request has none. Raises an AppError if the body is
    too large, arrives too slowly, or is not declared as JSON."""
    if not _has_body(request):
        return b""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > max_bytes:
        raise PayloadTooLargeError(max_bytes)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > max_bytes:
                    raise PayloadTooLargeError(max_bytes)
                chunks.append(chunk)
    except TimeoutError:
        raise RequestTimeoutError from None
    if size:
        _check_type(request)
    return b"".join(chunks)


def _check_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    if content_type != "application/json" and not _JSON_TYPE.fullmatch(content_type):
        raise UnsupportedMediaTypeError
    if request.headers.get("content-encoding", "identity").lower() != "identity":
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
