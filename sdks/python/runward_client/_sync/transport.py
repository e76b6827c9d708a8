# Generated from _async by sdks/python/scripts/generate.py. Do not edit.
"""Requests: authorization, timeouts, retries and idempotency keys."""

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2

from runward_client import _requests as rules
from runward_client._requests import Method, without_none
from runward_client.errors import APIConnectionError, APITimeoutError, make_error


class Transport:
    """Sends requests below `base_url`. `http_client` is the caller's own, who closes it."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        timeout: float,
        max_retries: int,
        http_client: httpx2.Client | None,
    ) -> None:
        self.timeout = timeout
        self.max_retries = max_retries
        self._base_url = base_url
        self._headers = {"User-Agent": "runward-client-python", **headers}
        self._http = http_client or httpx2.Client()
        self._owns_client = http_client is None

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return _read_json(self.send("GET", path, query=query))

    def create(self, path: str, body: object, idempotency_key: str | None = None) -> Any:
        """POST with an idempotency key: `idempotency_key` or a new one, the same in each
        attempt."""
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return _read_json(self.send("POST", path, body=body, headers=headers))

    def post(self, path: str, body: object) -> Any:
        """POST without an idempotency key."""
        return _read_json(self.send("POST", path, body=body))

    def update(self, path: str, body: object) -> Any:
        return _read_json(self.send("PATCH", path, body=body))

    def delete(self, path: str) -> None:
        self.send("DELETE", path)

    def list(self, path: str, query: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the items of a list, page by page."""
        page = self.get(path, query)
        while True:
            for item in page["data"]:
                yield item
            if not page["has_more"]:
                return
            page = self.get(path, {**query, "after": page["last_id"]})

    def send(
        self,
        method: Method,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
        max_retries: int | None = None,
        streamed: bool = False,
    ) -> httpx2.Response:
        """Send a request until an attempt succeeds; `seconds` is the timeout of each. Return its
        response, to be closed by the caller if it is streamed. Raises APIError or
        APIConnectionError."""
        limit = self.timeout if seconds is None else seconds
        request = self._http.build_request(
            method,
            self._base_url + path,
            params=without_none(query or {}),
            json=body,
            headers={**self._headers, **(headers or {})},
            timeout=httpx2.Timeout(limit, read=rules.SILENCE_SECONDS if streamed else limit),
        )
        retries = self.max_retries if max_retries is None else max_retries
        attempt = 0
        while True:
            try:
                response = self._http.send(request, stream=streamed)
                if response.is_success:
                    return response
                if streamed:
                    response.read()
            except httpx2.TransportError as error:
                if attempt >= retries:
                    raise make_connection_error(error) from error
                delay = rules.get_backoff(attempt)
            else:
                after = rules.get_retry_delay(response.status_code, response.headers, attempt)
                if after is None or attempt >= retries:
                    raise make_error(response.status_code, response.headers, _read_body(response))
                delay = after
            time.sleep(delay)
            attempt += 1

    def close(self) -> None:
        if self._owns_client:
            self._http.close()


def make_connection_error(error: httpx2.TransportError) -> APIConnectionError:
    if isinstance(error, httpx2.TimeoutException):
        return APITimeoutError("No response within the timeout.")
    return APIConnectionError(f"The connection failed: {error}")


def _read_json(response: httpx2.Response) -> Any:
    return response.json() if response.content else None


def _read_body(response: httpx2.Response) -> object:
    try:
        return response.json()
    except ValueError:
        return None
