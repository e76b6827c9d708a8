"""The HTTP client of the commands: the address, the API key, and the handling of errors."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias
from urllib.parse import quote

import httpx2

from runward.cli.exits import Exit, fail

JsonBody: TypeAlias = dict[str, Any]

TIMEOUT: Final = httpx2.Timeout(70, connect=10)
"""In seconds. With `?wait=`, a response can take up to 60 seconds."""
PAGE_SIZE: Final = 100
LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
LOCAL_KEY_FILES: Final = (Path(".runward/api-key"), Path("/var/lib/runward/api-key"))
"""Files in which `serve` stores its key with the embedded database: for a user, and for root."""
SERVER_ERROR: Final = 500
NOT_FOUND: Final = 404
KEY_ADVICE: Final = (
    "Set an API key with --key or RUNWARD_KEY. To create the first key, run on the machine of the "
    "service: runward keys create NAME --on-database"
)
START_ADVICE: Final = (
    "Start the service (make run), or set its address with --url or RUNWARD_URL. "
    "To find the cause, run `runward doctor`."
)


class Runward:
    """Sends requests. Methods return the parsed response. An error ends the command with advice."""

    def __init__(self, url: str, http: httpx2.Client) -> None:
        self.url = url
        self.http = http

    def get(self, path: str, **params: Any) -> JsonBody:
        sent = {name: value for name, value in params.items() if value is not None}
        return self._send("GET", path, params=sent)

    def post(self, path: str, body: Any = None, *, idempotency_key: str | None = None) -> JsonBody:
        """Send a POST request, with an Idempotency-Key if one is given."""
        return self._send(
            "POST",
            path,
            body,
            headers={"Idempotency-Key": idempotency_key} if idempotency_key else {},
        )

    def patch(self, path: str, body: JsonBody) -> JsonBody:
        return self._send("PATCH", path, body)

    def put(self, path: str, body: JsonBody) -> JsonBody:
        return self._send("PUT", path, body)

    def delete(self, path: str) -> JsonBody:
        return self._send("DELETE", path)

    @contextmanager
    def stream(self, path: str, **params: Any) -> Generator[httpx2.Response]:
        """Open the body of a response, which can have any length."""
        try:
            with self.http.stream("GET", path, params=params) as response:
                if response.status_code >= httpx2.codes.BAD_REQUEST:
                    response.read()
                    fail_with_problem(response)
                yield response
        except httpx2.TransportError as error:
            self._fail_unreachable(error)

    def find(self, path: str) -> JsonBody | None:
        """Return the resource, or None if it does not exist."""
        response = self._request("GET", path)
        return None if response.status_code == NOT_FOUND else self._parse(response)

    def list_all(self, path: str, limit: int, **params: Any) -> list[JsonBody]:
        """Return up to `limit` items of a list. Request as many pages as necessary."""
        found: list[JsonBody] = []
        page: JsonBody = {"has_more": True, "last_id": None}
        while page["has_more"] and (left := limit - len(found)) > 0:
            page = self.get(path, limit=min(PAGE_SIZE, left), after=page["last_id"], **params)
            found += page["data"]
        return found

    def _send(self, method: str, path: str, body: Any = None, **options: Any) -> JsonBody:
        return self._parse(self._request(method, path, body, **options))

    def _request(self, method: str, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        try:
            sent = self.http.build_request(method, path, json=body, **options)
        except (TypeError, ValueError) as error:
            fail(f"The request cannot be encoded as JSON in UTF-8: {error}.", Exit.USAGE)
        try:
            return self.http.send(sent)
        except httpx2.TransportError as error:
            self._fail_unreachable(error)

    def _fail_unreachable(self, error: httpx2.TransportError) -> NoReturn:
        fail(
            f"{self.url} does not answer: {_describe_error(error)}\n{START_ADVICE}",
            Exit.UNREACHABLE,
        )

    def _parse(self, response: httpx2.Response) -> JsonBody:
        if response.status_code >= httpx2.codes.BAD_REQUEST:
            fail_with_problem(response)
        if not response.content:
            return {}
        try:
            return response.json()
        except ValueError:
            fail(
                f"The response of {self.url} is not a response of Runward. {START_ADVICE}",
                Exit.UNREACHABLE,
            )


def build_path(*parts: str) -> str:
    """Return a path below /v1. The names and IDs in `parts` are escaped."""
    if not all(parts):
        fail("The name or ID is empty.", Exit.USAGE)
    try:
        return "/v1/" + "/".join(quote(part, safe="") for part in parts)
    except UnicodeEncodeError:
        fail("The name or ID is not valid UTF-8.", Exit.USAGE)


@contextmanager
def connect(
    url: str | None, key: str | None, timeout: httpx2.Timeout = TIMEOUT
) -> Generator[Runward]:
    """Open a client. `url` and `key` are None if no option or environment variable sets them."""
    url, local = resolve_address(url)
    key = key or (read_local_key() if local else None)
    if key is None:
        fail(f"No API key is set for {url}. {KEY_ADVICE}", Exit.USAGE)
    if not (key.isascii() and key.isprintable()):
        fail("The API key contains characters that are not allowed in a key.", Exit.USAGE)
    headers = {"Authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=url, headers=headers, timeout=timeout, trust_env=not local) as http:
        yield Runward(url, http)


def resolve_address(url: str | None) -> tuple[str, bool]:
    """Return the address of Runward and whether it is on this machine. Only on this machine may the
    command bypass proxies and use the locally stored key."""
    url = (url or f"http://127.0.0.1:{os.environ.get('RUNWARD_PORT') or 8080}").rstrip("/")
    try:
        parts = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        fail(f"{url} is not a valid URL: {error}", Exit.USAGE)
    if parts.scheme not in {"http", "https"} or not parts.host:
        fail(
            f"{url} is not a valid address. An address looks like http://127.0.0.1:8080.",
            Exit.USAGE,
        )
    return url, parts.host in LOCAL_HOSTS


def read_local_key() -> str | None:
    """Return the key that `serve` created with the embedded database, or None."""
    data_dir = os.environ.get("RUNWARD_DATA_DIR")
    for path in (Path(data_dir).expanduser() / "api-key",) if data_dir else LOCAL_KEY_FILES:
        try:
            return path.read_text().strip()
        except OSError:
            continue
    return None


def fail_with_problem(response: httpx2.Response, advice: str | None = None) -> NoReturn:
    """End the command with the problem (RFC 9457) and with `advice`."""
    problem = _parse_problem(response)
    if "code" not in problem:
        text = (
            f"{response.request.url} returned HTTP {response.status_code}, but not a "
            "response of Runward."
        )
        fail(f"{text}\n{START_ADVICE}", Exit.UNREACHABLE)
    lines = [f"{problem['detail']} ({problem['code']}, request {problem.get('request_id')})"]
    lines += [f"  {one['path']}: {one['message']}" for one in problem.get("errors", [])]
    match response.status_code:
        case 404:
            code = Exit.FAILED
        case 401:
            code = Exit.REFUSED
            lines.append(f"The API key is not valid. {KEY_ADVICE}")
        case status if status >= SERVER_ERROR:
            code = Exit.UNREACHABLE
            lines.append("Try again. If the error remains, run `runward doctor` to find the cause.")
        case _:
            code = Exit.REFUSED
    if advice is not None:
        lines.append(advice)
    fail("\n".join(lines), code)


def _parse_problem(response: httpx2.Response) -> JsonBody:
    try:
        found: Any = response.json()
    except ValueError:
        return {}
    return {**found} if isinstance(found, dict) else {}


def _describe_error(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__
