"""The parts of the Python SDK that need no service: what it retries, how it reads streams, and the
schemas that it makes of functions."""

import runpy
from itertools import pairwise
from typing import Annotated, Any, Literal, TypedDict

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward_client import APIConnectionError, APIError, ConflictError, RateLimitError, Runward
from runward_client._requests import Frame, FrameReader
from runward_client.errors import RunwardError
from runward_client.tools import ToolCall, asgi_app, tool

RUN = {"id": "run_1", "status": "completed", "from_the_future": True}
STREAM = 'retry: 1000\n\nid: 1\nevent: a\ndata: {"a":"\u2028ä"}\n\n: still here\n\ndata: {}\n\n'


class Peer:
    """Answers requests with `answers`, one after the other, and keeps the requests."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.requests: list[httpx2.Request] = []
        self._answers = list(answers)

    def client(self, **options: Any) -> Runward:
        http = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        return Runward(api_key="rw_1", base_url="http://runward", http_client=http, **options)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refusal(status: int, code: str, **headers: str) -> httpx2.Response:
    wrong = [{"path": "tools.0", "message": "must be a string"}]
    problem = {"code": code, "detail": "No.", "request_id": "req_1", "errors": wrong}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, json=problem, headers=sent)


def test_a_request_is_sent_again_with_the_same_key() -> None:
    busy = refusal(429, "too_many_requests", retry_after="0")
    in_flight = refusal(409, "idempotency_in_flight", retry_after="0")
    peer = Peer(busy, in_flight, httpx2.Response(202, json=RUN))
    run = peer.client().runs.start(model="offline:rules", input="Hello")
    assert run.data == RUN
    assert len({request.headers["idempotency-key"] for request in peer.requests}) == 1
    assert len(peer.requests) == 3


def test_a_final_error_is_not_sent_again_and_says_what_was_wrong() -> None:
    peer = Peer(refusal(409, "run_ended", x_should_retry="false", retry_after="0"))
    with pytest.raises(ConflictError, match=r"run_ended: No\. tools\.0 must be a string") as found:
        peer.client().runs.cancel("run_1")
    error = found.value
    assert (error.status, error.code, error.param) == (409, "run_ended", "tools.0")
    assert error.request_id == "req_1"


def test_retries_end() -> None:
    busy = [refusal(429, "too_many_requests", retry_after="0") for _ in range(2)]
    with pytest.raises(RateLimitError):
        Peer(*busy).client(max_retries=1).runs.retrieve("run_1")
    with pytest.raises(RateLimitError):
        Peer(refusal(429, "too_many_requests", retry_after="3600")).client().runs.retrieve("run_1")
    with pytest.raises(APIConnectionError):
        Peer(httpx2.ConnectError("refused")).client(max_retries=0).runs.retrieve("run_1")


def test_a_name_is_never_another_path() -> None:
    peer = Peer(httpx2.Response(204))
    peer.client().tools.delete("../keys/key_1")
    assert peer.requests[0].url.raw_path == b"/v1/tools/..%2Fkeys%2Fkey_1"
    for name in ("", ".", ".."):
        with pytest.raises(RunwardError, match="is not an ID"):
            peer.client().tools.delete(name)


def test_an_error_of_a_proxy_is_an_error_too() -> None:
    peer = Peer(httpx2.Response(502, text="<html>Bad gateway</html>"))
    with pytest.raises(APIError) as found:
        peer.client(max_retries=0).runs.retrieve("run_1")
    assert (found.value.status, found.value.code, found.value.problem) == (502, None, {})


def test_a_call_of_a_tool_for_trial_is_sent_once() -> None:
    peer = Peer(httpx2.ReadError("broken"))
    with pytest.raises(APIConnectionError):
        peer.client().tools.test("refund", arguments={})
    assert len(peer.requests) == 1


def test_a_stream_that_is_cut_off_goes_on_behind_the_last_event() -> None:
    frames = [
        'id: 1\ndata: {"type": "run.created"}\n\nid: 2\nda',
        'id: 2\ndata: {"type": "new"}\n\n',
    ]
    peer = Peer(*[httpx2.Response(200, text=text) for text in frames], httpx2.Response(204))
    events = list(peer.client().runs.events("run_1"))
    assert [event["type"] for event in events] == ["run.created", "new"]
    seen = [request.headers.get("last-event-id") for request in peer.requests]
    assert seen == [None, "1", "2"]


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=8))
def test_a_stream_reads_the_same_however_it_is_cut(cuts: list[int]) -> None:
    whole, reader = STREAM.encode(), FrameReader()
    at = sorted({0, *cuts, len(whole)})
    pieces = [whole[start:end] for start, end in pairwise(at)]
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    assert frames == [Frame("1", '{"a":"\u2028ä"}'), Frame(None, "{}")]


class Address(TypedDict):
    city: str


def test_the_schema_of_a_function_is_that_of_its_types() -> None:
    @tool
    def ship(
        address: Address,
        speed: Annotated[Literal["slow", "fast"], "How fast."],
        weights: list[float],
        call: ToolCall,
        note: str | None = None,
        tries: int = 2,
    ) -> None:
        """Ship an order."""

    assert ship.definition == {
        "name": "ship",
        "description": "Ship an order.",
        "parameters": {
            "type": "object",
            "properties": {
                "address": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                    "additionalProperties": False,
                },
                "speed": {"enum": ["slow", "fast"], "description": "How fast."},
                "weights": {"type": "array", "items": {"type": "number"}},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "tries": {"type": "integer", "default": 2},
            },
            "required": ["address", "speed", "weights"],
            "additionalProperties": False,
        },
    }


def test_a_type_without_a_schema_and_a_server_without_a_secret_are_refused_at_start() -> None:
    def convert(amount: complex) -> None: ...

    with pytest.raises(RunwardError, match="Pass `parameters`"):
        tool(convert)
    secrets: list[str | list[str]] = ["", "whsec_", "whsec_no base64", []]
    for secret in secrets:
        with pytest.raises(RunwardError, match="signing secret"):
            asgi_app([], secret=secret)


def test_the_generated_files_are_as_new_as_their_sources() -> None:
    generated = runpy.run_path("sdks/python/scripts/generate.py")["generate_files"]()
    assert generated
    for file, text in generated.items():
        assert file.read_text("utf-8") == text, "run `make sdks`"
