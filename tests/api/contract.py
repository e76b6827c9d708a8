"""openapi.json as a judge of answers: is the status documented, has the body the shape that is
promised for it, are the headers there? Every answer that these tests see goes through it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import jsonschema_rs

from tests.support.closed import close_schemas
from tests.support.services.client import Json

OPENAI_PATHS = ("/v1/chat/", "/v1/conversations", "/v1/models", "/v1/responses")
"""Where errors have OpenAI's format."""

ALWAYS = {405}
"""What any path may answer to a method it does not take; it stands at no operation."""
PROBLEM = "application/problem+json"
DOCUMENT = "urn:openapi"
PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Operation:
    """`path` with its parameters in braces."""

    method: str
    path: str
    spec: Json

    @property
    def id(self) -> str:
        return str(self.spec["operationId"])

    @property
    def scopes(self) -> frozenset[str]:
        """Any one of them is enough. Empty: any key is, or none is needed."""
        return frozenset(self.spec.get("x-required-scopes", ()))

    @property
    def parameters(self) -> list[Json]:
        return self.spec.get("parameters", [])

    @property
    def takes_body(self) -> bool:
        return "requestBody" in self.spec

    def filled(self, **values: str) -> str:
        """The path with values in it."""
        return PARAMETER.sub(lambda match: values[match[1]], self.path)


class Contract:
    def __init__(self, document: Json) -> None:
        self.document = document
        # Each validator would otherwise read and keep the whole document: 10 ms of CPU time.
        self._registry = jsonschema_rs.Registry([(DOCUMENT, close_schemas(document))])
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
        self._routes = [(_pattern(each.path), each) for each in self.operations()]

    def operations(self) -> Iterator[Operation]:
        for path, methods in self.document["paths"].items():
            for method, spec in methods.items():
                yield Operation(method.upper(), path, spec)

    def operation(self, method: str, path: str) -> Operation | None:
        """The one that `path`, with values in it, belongs to; None: there is none."""
        method = "GET" if method == "HEAD" else method
        for pattern, operation in self._routes:
            if operation.method == method and pattern.fullmatch(path):
                return operation
        return None

    def promises(self, response: httpx2.Response) -> bool:
        """Whether an answer of this status and media type is documented, whatever it holds: for
        streams, which have no end to wait for."""
        operation = self.operation(response.request.method, response.request.url.path)
        declared: Json = operation.spec["responses"] if operation else {}
        content: Json = declared.get(str(response.status_code), {}).get("content", {})
        return response.headers["Content-Type"].partition(";")[0] in content

    def broken_by(self, response: httpx2.Response) -> list[str]:
        """What the answer to a request, good or bad, has against the document."""
        request, status = response.request, response.status_code
        found = list(_headers(response))
        if status >= 400:
            found += self._problem(response)
        operation = self.operation(request.method, request.url.path)
        if operation is None:
            return found + ([f"{status} of a path that is not documented"] if status < 400 else [])
        declared: Json = operation.spec["responses"]
        if str(status) not in declared:
            always = status in ALWAYS or _is_about_unknown_query(response)
            return found + ([] if always else [f"{status} is not documented"])
        if status >= 400 or request.method == "HEAD":
            return found
        return [*found, *self._success(operation, response)]

    def _problem(self, response: httpx2.Response) -> Iterator[str]:
        if response.request.method == "HEAD":
            return
        if response.request.url.path.startswith(OPENAI_PATHS):
            yield from self.find_errors("#/components/schemas/OpenAIError", response.json())
            return
        if response.headers.get("Content-Type") != PROBLEM:
            yield f"a problem of the type {response.headers.get('Content-Type')}"
            return
        problem: Json = response.json()
        yield from self.find_errors("#/components/schemas/Problem", problem)
        if problem["status"] != response.status_code:
            yield f"the problem says {problem['status']}"
        if problem["type"] != f"urn:runward:problem:{problem['code']}":
            yield f"the problem's type is {problem['type']}"
        if problem["request_id"] != response.headers.get("X-Request-Id"):
            yield "the problem's request_id is not that of the header"

    def _success(self, operation: Operation, response: httpx2.Response) -> Iterator[str]:
        status = str(response.status_code)
        content: Json = operation.spec["responses"][status].get("content", {})
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        if not content:
            if response.content:
                yield f"{status} has a body that is not documented"
        elif kind not in content and operation.id != "get_metrics":
            yield f"{status} has the type {kind!r}, not one of {list(content)}"
        elif kind == "application/json":
            at = f"#/paths/{_escaped(operation.path)}/{operation.method.lower()}"
            at += f"/responses/{status}/content/{_escaped(kind)}/schema"
            yield from self.find_errors(at, response.json())

    def find_errors(self, reference: str, value: Any) -> Iterator[str]:
        """Yield the errors of a value against the schema at `reference`, a JSON pointer."""
        if reference not in self._validators:
            self._validators[reference] = jsonschema_rs.Draft202012Validator(
                {"$ref": DOCUMENT + reference}, registry=self._registry
            )
        for error in self._validators[reference].iter_errors(value):
            yield f"{'.'.join(map(str, error.instance_path))}: {error.message[:300]}"


def _is_about_unknown_query(response: httpx2.Response) -> bool:
    """Whether only unknown query parameters are wrong, which the introduction describes."""
    if response.status_code != 422:
        return False
    return {one["message"] for one in response.json()["errors"]} == {"unknown query parameter"}


def _headers(response: httpx2.Response) -> Iterator[str]:
    status, headers = response.status_code, response.headers
    if not headers.get("X-Request-Id"):
        yield "there is no X-Request-Id"
    if status >= 500:
        yield f"{status}: {response.text}"
    if status in {429, 503} and not headers.get("Retry-After", "").isdecimal():
        yield f"{status} without Retry-After"
    retries = headers.get("x-should-retry")
    if status == 422 and retries != "false":
        yield "422 without x-should-retry: false"
    if status == 409 and retries != "false" and "Retry-After" not in headers:
        yield "409 that says neither x-should-retry: false nor Retry-After"
    if status == 401 and not headers.get("WWW-Authenticate", "").startswith("Bearer "):
        yield "401 without WWW-Authenticate"


def _pattern(path: str) -> re.Pattern[str]:
    """A call id may contain a slash."""
    parts = PARAMETER.split(path)
    for at in range(1, len(parts), 2):
        parts[at] = ".+" if parts[at] == "call_id" else "[^/]+"
    for at in range(0, len(parts), 2):
        parts[at] = re.escape(parts[at])
    return re.compile("".join(parts))


def _escaped(text: str) -> str:
    """As a segment of a JSON pointer inside a URI."""
    text = text.replace("~", "~0").replace("/", "~1")
    return text.replace("{", "%7B").replace("}", "%7D")
