"""Errors in the format of OpenAI's API: `{"error": {message, type, param, code}}`.

All errors under the paths of OpenAI's API have this format, including authentication errors and
errors of the framework. Errors for which the rest of the API uses 422 have the status 400, as in
OpenAI's API.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from fastapi import Request, Response
from pydantic import JsonValue
from pydantic_core import to_json

from runward.domain.errors import InvalidRequestError

OPENAI_PATH: Final = re.compile(r"/v1/(?:chat/completions|conversations|models|responses)(?:/.*)?")

STATUSES: Final[Mapping[int, int]] = {422: 400}
_TYPES: Final[Mapping[int, str]] = {401: "authentication_error", 403: "permission_error"}
_CODES: Final[Mapping[str, str]] = {"unauthenticated": "invalid_api_key"}
_UNSUPPORTED_PARAMETERS: Final = frozenset(
    {
        "access_programs",
        "background_options",
        "context_management",
        "image",
        "moderation",
        "prompt",
        "prompt_cache_options",
        "prompt_cache_retention",
    }
)
"""Parameters of OpenAI's API that Runward does not support."""
_TOOL_TYPE: Final = re.compile(r"tools\.[0-9]+\.type")
_BY_MESSAGE: Final[Mapping[str, str]] = {
    "unknown field": "unknown_parameter",
    "unknown query parameter": "unknown_parameter",
    "is required": "missing_required_parameter",
}


def is_openai_request(request: Request) -> bool:
    return OPENAI_PATH.fullmatch(request.url.path) is not None


def make_openai_response(
    status: int,
    code: str,
    detail: str,
    errors: Sequence[JsonValue],
    headers: Mapping[str, str] | None,
) -> Response:
    """Return the response. `errors`: objects with `path` and `message`, as in a problem. The first
    path is the `param`."""
    body = build_openai_error(status, code, detail, errors)
    return Response(to_json(body), STATUSES.get(status, status), headers, "application/json")


def build_openai_error(
    status: int, code: str, detail: str, errors: Sequence[JsonValue]
) -> dict[str, Any]:
    found = [cast("dict[str, str]", one) for one in errors]
    param = None
    if found:
        param = found[0]["path"].removeprefix("query.").removeprefix("header.") or None
        if code == "invalid_request":
            code = _BY_MESSAGE.get(found[0]["message"].partition(";")[0], "invalid_value")
            if param in _UNSUPPORTED_PARAMETERS or _TOOL_TYPE.fullmatch(param or ""):
                code = "unsupported_parameter"
            if detail == InvalidRequestError.text:
                detail = "; ".join(f"{one['path']} {one['message']}".strip() for one in found)
    status = STATUSES.get(status, status)
    if status >= 500:
        kind = "server_error"
    elif status == 429:
        kind = "rate_limit_error"
    else:
        kind = _TYPES.get(status, "invalid_request_error")
    error: dict[str, JsonValue] = {
        "message": detail,
        "type": kind,
        "param": param,
        "code": _CODES.get(code, code),
    }
    return {"error": error}
