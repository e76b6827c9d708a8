"""Hooks of Schemathesis, which loads this file by its path. They insert IDs, names and addresses
that exist, so that generated requests pass the first checks. Negative data is left as it is, except
that no address leads outside this machine.
"""

# pyright: basic

import hashlib
import json
import os
import signal
from itertools import count
from typing import Any

import schemathesis
from schemathesis import Case, GenerationMode, HookContext, Response
from schemathesis.core import NotSet
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.openapi.checks import JsonSchemaError, UndefinedStatusCode, UseAfterFree

KEPT_KEY = os.environ["KEPT_KEY"]
"""The id of the key that all requests carry."""
CASES = int(os.environ["CASES"])
"""After so many requests, stop; 0: the number of examples is the limit."""
NUMBERS = count(1)
NOWHERE = "http://127.0.0.1:9/"
OPENAI_PATHS = ("/v1/chat/", "/v1/conversations", "/v1/responses")
TALK = 'pay(x="1") ask(x="2") broken(x="3")'
RUN: dict[str, Any] = {
    "model": "offline:rules",
    "input": TALK,
    "tools": ["pay", "ask", "broken"],
}
PARAMETERS = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
GOOD: dict[str, list[dict[str, Any]]] = {
    "start_run": [
        RUN,
        {"model": "offline:rules", "input": "hi"},
        {"agent": "clerk", "input": "hi"},
    ],
    "continue_run": [{"max_turns": 1}],
    "create_response": [
        {"model": "offline:rules", "input": "hi"},
        {"model": "offline:rules", "input": "hi", "background": True},
        {"model": "clerk", "input": "hi", "stream": True},
    ],
    "compact_response": [{"model": "offline:rules", "input": "hi"}],
    "create_session": [{"state": {"a": 1}}],
    "fork_session": [{"name": "fork"}],
    "decide_approval": [{"decision": "approve"}, {"decision": "reject", "message": "no"}],
    "submit_tool_result": [{"output": 1}, {"error": "no"}],
    "resolve_tool_call": [{"resolution": "failed", "message": "no"}, {"resolution": "retry"}],
    "register_tool": [
        {"name": "pay", "parameters": PARAMETERS, "url": NOWHERE, "approval": "always"},
        {"name": "ask", "type": "client", "parameters": PARAMETERS},
    ],
    "register_agent": [{"name": "clerk", "model": "offline:rules"}],
    "create_key": [{"name": "made", "scopes": ["runs:read"]}],
    "create_project_key": [{"name": "made", "scopes": ["runs:read"]}],
    "put_policy": [{"guardrails": []}],
}
"""Bodies that are taken, by operation. They replace two of three generated ones."""
LIMITS = {"running_runs": 100, "concurrency": [{"agent": "clerk", "max": 50}]}
"""Generated limits could reject the other requests."""


@schemathesis.hook
def map_case(context: HookContext, case: Case) -> Case:
    operation_id = case.operation.definition.raw.get("operationId", "")
    positive = case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE
    if positive and isinstance(case.body, dict):
        number = int(hashlib.sha256(json.dumps(case.body, sort_keys=True).encode()).hexdigest(), 16)
        if (bodies := GOOD.get(operation_id)) and number % 3:
            case.body = dict(bodies[number // 3 % len(bodies)])
        if operation_id == "put_limits":
            case.body = dict(LIMITS)
    if isinstance(case.query, dict) and "wait" in case.query and positive:
        case.query["wait"] = "0"
    case.body = _at_home(case.body)
    return case


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Keep the key: without it, the answer to each later request is 401."""
    if case.method == "DELETE" and case.path_parameters.get("key_id") == KEPT_KEY:
        case.path_parameters["key_id"] = "key_" + "f" * 32
    if next(NUMBERS) == CASES:
        os.kill(os.getpid(), signal.SIGINT)


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case, response: Response) -> bool:
    """Drop those of event streams: the document describes the text, Schemathesis takes each event
    for a value. `tests/api/test_openapi_api.py` holds streamed events against their schemas. Drop
    an optional body that is `null` or missing, which the document allows, and Schemathesis calls
    wrong. Drop messages without a type, and nulls in OpenAI's formats. Drop requests that are no
    HTTP, or whose headers are too large: docs/reference/errors.md has that 400 and that 431, for
    every operation. Drop revoked keys, which can still be read."""
    kinds = response.headers.get("content-type", [""])
    if isinstance(failure, JsonSchemaError) and "text/event-stream" in kinds[0]:
        return False
    optional = not case.operation.definition.raw.get("requestBody", {}).get("required")
    # A deleted key and the record of a deleted run stay visible.
    stays = "/keys/" in case.path or case.path.startswith("/v1/runs/")
    if isinstance(failure, UseAfterFree) and stays:
        return False
    if isinstance(failure, UndefinedStatusCode) and response.status_code in (400, 431):
        codes = (b'"code":"bad_request"', b'"code":"headers_too_large"')
        return not any(code in response.content for code in codes)
    bodiless = case.body is None or isinstance(case.body, NotSet)
    lenient = (optional and bodiless) or _has_untyped_item(case.body)
    lenient = lenient or (case.path.startswith(OPENAI_PATHS) and _has_null(case.body))
    return not (isinstance(failure, AcceptedNegativeData) and lenient)


def _has_untyped_item(body: Any) -> bool:
    """OpenAI's clients may leave out the type of a message, which the document requires."""
    items = body.get("input") if isinstance(body, dict) else None
    return isinstance(items, list) and any(
        isinstance(one, dict) and "type" not in one for one in items
    )


def _has_null(value: Any) -> bool:
    """OpenAI's clients send null for all fields that they do not set, and the document does not
    list it for each of them."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return any(_has_null(one) for one in inner)
    return value is None


def _at_home(value: Any) -> Any:
    """With every address leading to this machine, to a port where nothing listens."""
    if isinstance(value, str):
        return NOWHERE if "://" in value else value
    if isinstance(value, list):
        return [_at_home(each) for each in value]
    if isinstance(value, dict):
        return {key: _at_home(each) for key, each in value.items()}
    return value
