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
_UNKNOWN_TO_PROVIDERS: Final = "Runward does not send this parameter to providers."
_NO_PROBABILITIES: Final = "Runward does not return log probabilities."
_OLD_FORMAT: Final = "Runward does not support this older format. Use `tools` and `tool_choice`."
_UNSUPPORTED: Final = [
    (re.compile(pattern), reason)
    for pattern, reason in (
        (
            "access_programs|background_options|image",
            _UNKNOWN_TO_PROVIDERS,
        ),
        (
            "logit_bias|prediction|prompt_cache_options|prompt_cache_retention",
            f"{_UNKNOWN_TO_PROVIDERS} Set it in `model_settings.extra_body` of an agent.",
        ),
        (
            "prompt",
            "Runward cannot use prompts that OpenAI stores. Register an agent with the "
            "instructions, and send its name as `model`.",
        ),
        (
            "context_management",
            "Runward does not compact conversations by itself. Use `truncation` or POST "
            "/v1/responses/compact.",
        ),
        ("moderation", "Runward does not use OpenAI's moderation. Set guardrails instead."),
        ("top_logprobs|logprobs", _NO_PROBABILITIES),
        ("n", "Runward creates one choice for each request. Send several requests instead."),
        ("functions|function_call", _OLD_FORMAT),
        (r"audio|modalities\.[0-9]+", "Runward supports only text output."),
        (
            r"web_search_options",
            "Register a tool of the type `hosted` for web search, and add it to an agent.",
        ),
        (
            r"(?:stream_options\.)?include_obfuscation",
            "Runward does not add padding to streams. Omit `include_obfuscation`.",
        ),
        (
            r"tools\.[0-9]+\.type",
            "A request can define tools of the types `function`, `namespace` and `mcp`. Register "
            "tools of other types, and add them to an agent.",
        ),
        (
            r"tools\.[0-9]+\.(?:server_label|server_url|connector_id)",
            "Runward does not connect to an MCP server from a request. Register the MCP server, "
            "and name its tools in `allowed_tools` with the `server_label` `runward`.",
        ),
        (
            r"tools\.[0-9]+\.require_approval(?:\..*)?",
            "The setting `approval` of a registered tool determines whether its calls require "
            "approval. Change this setting, and omit `require_approval` or send `never`.",
        ),
        (
            r"tool_choice\.type",
            "Runward supports the choice of one function or registered tool. To limit the "
            "tools, send only the tools that the model may call.",
        ),
        (r".*\.file_id", "Runward does not store files. Send the file itself as a data URL."),
        (r"reasoning\.generate_summary", "Use `reasoning.summary`."),
    )
]
"""Parameters and values of OpenAI's API that Runward does not support, with the reasons."""
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
            reason = _find_reason(param or "")
            if reason is not None:
                code, detail = "unsupported_parameter", reason
            elif detail == InvalidRequestError.text:
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


def _find_reason(param: str) -> str | None:
    """Return why Runward does not support the parameter, or None if its value is wrong."""
    return next((reason for known, reason in _UNSUPPORTED if known.fullmatch(param)), None)
