"""Build openapi.json: FastAPI's document of the routes, completed with errors, scopes and texts."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import chain
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from pydantic_core import to_json
from starlette.routing import BaseRoute

from runward.api.http.openai_errors import OPENAI_PATH
from runward.api.http.openai_errors import STATUSES as OPENAI_STATUSES
from runward.api.http.problems import MEDIA_TYPE, Problem
from runward.api.http.routes import StrictRoute, ignore_aliases
from runward.api.openapi import errors, examples, links, names, openness, schemas, tidy, webhooks
from runward.api.openapi.descriptions import (
    CONTACT,
    INTRODUCTION,
    LICENSE,
    SERVERS,
    TAGS,
    TITLE,
)
from runward.api.openapi.tidy import Json
from runward.api.responses.response_models import OpenAIError
from runward.version import VERSION

_REFS: Final = "#/components/schemas/{model}"
_FASTAPI_DESCRIPTION: Final = "Successful Response"
_NO_CONTENT: Final = "The operation succeeded."
_CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PROBLEMS: Final[Mapping[int, str]] = {
    400: "The body is not valid JSON, or it breaks Runward's rules for JSON, for example with a "
    "duplicate key.",
    401: "The request has no valid API key.",
    403: "The API key does not have the required scope. For the console's session: the request "
    "did not come from a page of the console.",
    404: "The resource does not exist or belongs to another project.",
    408: "The body did not arrive in time.",
    409: "The state of the resource does not allow the request. If the response has the header "
    "`x-should-retry: false`, do not retry automatically, because the same request fails again "
    "until the resource changes.",
    410: "The result of a callback arrived too late, so that Runward stored it without an effect. "
    "Or the retention of the project has removed the events.",
    413: "The body is too large.",
    415: "The body is not JSON in UTF-8.",
    422: "A value of the request is invalid. `errors` lists the path of each invalid value.",
    424: "Another service that the request depends on did not respond.",
    429: "A rate limit or quota of the project is exceeded. Nothing was changed. Retry after the "
    "number of seconds in `Retry-After`.",
    500: "Runward failed unexpectedly. To find the error, search Runward's log for the request ID.",
    503: "Runward is temporarily unavailable, and the request may have taken effect. Retry with "
    "the same `Idempotency-Key` after the number of seconds in `Retry-After`.",
}
_OPENAI_ERRORS: Final[Mapping[int, str]] = {
    400: "The body is not valid JSON, or a value is invalid. `param` names the value.",
}
_NOT_OPENAI: Final = frozenset({410, 422, 424})
_REQUEST_ID: Final[Json] = {
    "X-Request-Id": {
        "description": "ID of the request. If the client sent a valid ID, Runward uses this ID. "
        "Otherwise, Runward generates one.",
        "schema": {"type": "string"},
    }
}
_ETAG: Final[Json] = {
    "ETag": {
        "description": "Version of the response. Send it as `If-None-Match` to poll for changes. "
        "Streams have no ETag.",
        "schema": {"type": "string"},
    }
}
_UNCHANGED: Final = (
    "The response has not changed since the ETag that the client sent as `If-None-Match`."
)
_RETRY_AFTER: Final[Json] = {
    "Retry-After": {
        "description": "Number of seconds to wait before the next request.",
        "schema": {"type": "integer"},
    }
}
_RATE_LIMIT: Final[Json] = {
    "RateLimit-Policy": {
        "description": "The limits of requests of the API key and of the project, such as "
        '`"project";q=600;w=60` for 600 requests in 60 seconds. If there is such a limit, the '
        "response to each request that counts has this header.",
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": "For each of these limits, the number of remaining requests and of seconds "
        'until they are available again, such as `"project";r=0;t=42`.',
        "schema": {"type": "string"},
    },
}
_HEADERS_OF_PROBLEMS: Final[Mapping[int, Json]] = {
    429: _RETRY_AFTER | _RATE_LIMIT,
    503: _RETRY_AFTER,
}


def build_document(all_routes: Iterable[BaseRoute]) -> Json:
    """Return the document of the routes that are part of the API."""
    routes = [one for one in all_routes if isinstance(one, StrictRoute) and one.include_in_schema]
    described = [route.described for route in routes]
    used = {tag for route in described for tag in route.tags}
    tags = [{"name": name, "description": text} for name, text in TAGS.items() if name in used]
    with ignore_aliases():
        document = get_openapi(
            title=TITLE,
            version=VERSION,
            description=INTRODUCTION,
            license_info=LICENSE,
            servers=SERVERS,
            routes=described,
            tags=tags,
        )
    document.setdefault("paths", {})
    document["info"]["contact"] = CONTACT
    for route in routes:
        for method in route.methods or ():
            _complete_operation(document["paths"][route.path_format][method.lower()], route, method)
    _add_components(document)
    _complete_examples(document, routes)
    document = tidy.tidy_document(_rename_pages(document))
    return (
        _complete_document(document)
        if "ResponseObject" in document["components"]["schemas"]
        else document
    )


def _complete_document(document: Json) -> Json:
    """Add everything that does not come from a route. Call it only for the complete API."""
    schemas.add_schemas(document["components"]["schemas"])
    document = names.give_names(tidy.tidy_document(document))
    schemas.add_discriminators(document["components"]["schemas"])
    document = tidy.relax_unions(document)
    _describe_successes(document)
    examples.add_examples(document)
    links.add_links(document)
    document["webhooks"] = webhooks.build_webhooks()
    openness.open_responses(document)
    document["components"]["schemas"] = dict(sorted(document["components"]["schemas"].items()))
    return document


def _describe_successes(document: Json) -> None:
    """Describe each response that its route does not describe, with the first sentence of its
    schema."""
    known: Json = document["components"]["schemas"]
    for path in document["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                if response.get("description") == _FASTAPI_DESCRIPTION:
                    media: Json = response.get("content", {}).get("application/json", {})
                    name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
                    text: str = known[name]["description"] if name else _NO_CONTENT
                    first, _, _ = " ".join(text.split()).partition(". ")
                    response["description"] = first.rstrip(".") + "."


def _complete_operation(operation: Json, route: StrictRoute, method: str) -> None:
    needed = route.rules.requirement
    if needed is not None and needed.any_of:
        words = " or ".join(f"`{scope}`" for scope in needed.any_of)
        text = operation.get("description", "").rstrip()
        where = " on a key of the project `default`" if needed.operator else ""
        operation["description"] = f"{text}\n\nRequires the scope {words}{where}.".lstrip()
        operation["x-required-scopes"] = [str(scope) for scope in needed.any_of]
    operation["security"] = [] if needed is None else [{"bearer": []}]
    operation["summary"] = route.described.summary or _summarize(route.name)
    responses: Json = operation["responses"]
    statuses = list(_problem_statuses(route, method, declared=map(int, responses)))
    responses.pop("422", None)  # FastAPI adds it for each route
    theirs = OPENAI_PATH.fullmatch(route.path_format) is not None
    if theirs:
        statuses = [OPENAI_STATUSES.get(status, status) for status in statuses]
    for status in statuses:
        name = f"OpenAI{_get_component_name(status)}" if theirs else _get_component_name(status)
        responses[str(status)] = {"$ref": f"#/components/responses/{name}"}
    for status, response in responses.items():
        if status.startswith("2"):
            headers = _REQUEST_ID | (_ETAG if method == "GET" and status == "200" else {})
            response["headers"] = response.get("headers", {}) | headers
    if method == "GET" and "200" in responses:
        responses["304"] = {"description": _UNCHANGED, "headers": _REQUEST_ID | _ETAG}
    operation["responses"] = dict(sorted(responses.items()))


def _summarize(name: str) -> str:
    """Return `Get a run` for `get_run`, the summary of a route without a `summary`."""
    verb, _, noun = name.replace("mcp", "MCP").partition("_")
    article = "" if verb == "list" else "an " if noun.startswith(("a", "e", "M")) else "a "
    return f"{verb.capitalize()} {article}{noun.replace('_', ' ')}" if noun else verb.capitalize()


def _problem_statuses(route: StrictRoute, method: str, declared: Iterable[int]) -> Iterator[int]:
    yield from (status for status in declared if status >= 400 and status != 422)
    yield from (500, 503)
    if route.rules.has_inputs:
        yield 422
    if route.rules.requirement is not None:
        yield from (401, 403, 429)
    else:
        yield 400
    if route.param_convertors:
        yield 404
    if method in _CHANGING:
        yield 409
    if route.rules.body is not None:
        yield from (400, 408, 413, 415)


def _add_components(document: Json) -> None:
    components: Json = document.setdefault("components", {})
    known: Json = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        known.pop(name, None)
    problem = Problem.model_json_schema(ref_template=_REFS, mode="serialization")
    known.update(problem.pop("$defs"))
    known["Problem"] = problem
    known["ErrorCode"] = {
        "type": "string",
        "enum": errors.list_codes(),
        "description": "Stable error code, for programs.",
    }
    problem["properties"]["code"] |= {"$ref": _REFS.format(model="ErrorCode")}
    del problem["properties"]["code"]["type"]
    if "ResponseObject" in known:
        error = OpenAIError.model_json_schema(ref_template=_REFS, mode="serialization")
        known.update(error.pop("$defs"))
        known["OpenAIError"] = error
    shown = errors.build_examples()
    components["responses"] = {
        _get_component_name(s): _make_response(s, text, shown[s]) for s, text in _PROBLEMS.items()
    }
    if "ResponseObject" in known:
        shown = errors.build_openai_examples()
        components["responses"] |= {
            f"OpenAI{_get_component_name(status)}": _make_response(
                status, text, shown[status], "application/json", "OpenAIError"
            )
            for status, text in {**_PROBLEMS, **_OPENAI_ERRORS}.items()
            if status not in _NOT_OPENAI
        }
    components["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "API key of the project. Send it in the `Authorization` header. The "
            "key must have one of the scopes that the operation lists.",
        }
    }


def _complete_examples(document: Json, routes: Iterable[StrictRoute]) -> None:
    """Complete the examples of responses with default values, and with the nulls that FastAPI
    omits."""
    known: Json = document["components"]["schemas"]
    models: list[Any] = [route.described.response_model for route in routes]
    items = (getattr(page, "__pydantic_generic_metadata__", {}).get("args", ()) for page in models)
    for model in chain(models, *items):
        schema = known.get(getattr(model, "__name__", ""), {})
        if "examples" in schema:
            given = model.model_json_schema()["examples"]
            schema["examples"] = [
                model.model_validate_json(to_json(one)).model_dump(mode="json") for one in given
            ]


def _get_component_name(status: int) -> str:
    return HTTPStatus(status).phrase.replace(" ", "").replace("-", "")


def _make_response(
    status: int, text: str, shown: Json, kind: str = MEDIA_TYPE, model: str = "Problem"
) -> Json:
    schema = {"$ref": f"#/components/schemas/{model}"}
    return {
        "description": text,
        "headers": _REQUEST_ID | _HEADERS_OF_PROBLEMS.get(status, {}),
        "content": {kind: {"schema": schema, "examples": shown}},
    }


def _rename_pages(document: Json) -> Json:
    """Rename Pydantic's `Page_Run_` to `RunList`, and the other pages in the same way."""
    text = re.sub(r"\bPage_([A-Za-z]+)_", r"\1List", json.dumps(document))
    text = re.sub(r"\bPage\[([A-Za-z]+)\]", r"\1List", text)
    return json.loads(text)
