"""What every route does with requests, good and bad. Nothing that a client sends is a 500."""

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from runward.api.http import body as reading
from tests.api.foundation import (
    BROKEN,
    MAX_BODY_BYTES,
    OPERATOR,
    READER,
    RUN,
    WRITER,
    serving,
)
from tests.support.services.client import NO_TLS

JSON = "application/json"
GOOD = b'{"model": "offline:rules", "input": "hi"}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=url, trust_env=False, verify=NO_TLS, timeout=20) as client:
        yield client


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@dataclass(frozen=True)
class Bad:
    """A request as bytes and what it must get. `path`: of the first of `errors`."""

    status: int
    code: str
    path: str | None = None
    method: str = "POST"
    target: str = "/v1/runs"
    body: bytes | None = None
    type: str | None = JSON
    key: str | None = WRITER
    headers: dict[str, str] = field(default_factory=dict[str, str])
    message: str | None = None


def run(**fields: object) -> bytes:
    return json.dumps({"model": "offline:rules", "input": "hi", **fields}).encode()


TABLE: dict[str, Bad] = {
    # Who asks.
    "no key": Bad(401, "unauthenticated", body=GOOD, key=None),
    "no key, and no JSON": Bad(401, "unauthenticated", body=b"{", key=None),
    "no key, and too much": Bad(401, "unauthenticated", body=b" " * 9000, key=None),
    "unknown key": Bad(401, "unauthenticated", body=GOOD, key="nobody"),
    "basic": Bad(401, "unauthenticated", key=None, headers={"Authorization": "Basic eDp5"}),
    "bearer of nothing": Bad(401, "unauthenticated", key=None, headers={"Authorization": "Bearer"}),
    "endless key": Bad(401, "unauthenticated", body=GOOD, key="k" * 5000),
    "key in the query": Bad(401, "unauthenticated", key=None, target=f"/v1/runs?key={WRITER}"),
    "key in a cookie": Bad(401, "unauthenticated", key=None, headers={"Cookie": f"key={WRITER}"}),
    "scope too small": Bad(403, "insufficient_scope", body=GOOD, key=READER),
    "scope too small, no JSON": Bad(403, "insufficient_scope", body=b"{", key=READER),
    "not the operator": Bad(403, "insufficient_scope", method="GET", target="/v1/projects"),
    # Where to.
    "unknown path": Bad(404, "not_found", target="/v1/nothing", body=GOOD),
    "trailing slash": Bad(404, "not_found", target="/v1/runs/", method="GET"),
    "unknown id": Bad(404, "run_not_found", method="GET", target="/v1/runs/run_" + "f" * 32),
    "no id": Bad(404, "run_not_found", method="GET", target="/v1/runs/1"),
    "upper case id": Bad(404, "run_not_found", method="GET", target="/v1/runs/run_" + "F" * 32),
    "NUL in the path": Bad(404, "not_found", method="GET", target="/v1/runs/%00"),
    "NUL in a call id": Bad(
        404, "not_found", target=f"/v1/runs/{RUN}/tool_calls/a%00b/result", body=b'{"output": 1}'
    ),
    "bad UTF-8 in the path": Bad(404, "run_not_found", method="GET", target="/v1/runs/%ff%fe"),
    "bad tool name": Bad(404, "tool_not_found", target="/v1/tools/a%20b/rotate_secret"),
    "wrong method": Bad(405, "method_not_allowed", method="PUT", body=GOOD),
    "wrong method, no key": Bad(405, "method_not_allowed", method="PATCH", key=None),
    # What is asked in the query and headers.
    "unknown query": Bad(422, "invalid_request", "query.offset", "GET", "/v1/runs?offset=3"),
    "query twice": Bad(422, "invalid_request", "query.limit", "GET", "/v1/runs?limit=1&limit=2"),
    "limit zero": Bad(422, "invalid_request", "query.limit", "GET", "/v1/runs?limit=0"),
    "limit too large": Bad(422, "invalid_request", "query.limit", "GET", "/v1/runs?limit=201"),
    "limit in words": Bad(422, "invalid_request", "query.limit", "GET", "/v1/runs?limit=ten"),
    "limit with a plus": Bad(422, "invalid_request", "query.limit", "GET", "/v1/runs?limit=%2B1"),
    "limit and a line": Bad(422, "invalid_request", "query.limit", "GET", "/v1/runs?limit=1%0a"),
    "wait and a space": Bad(
        422, "invalid_request", "query.wait", body=GOOD, target="/v1/runs?wait=+1"
    ),
    "limit of digits": Bad(
        422, "invalid_request", "query.limit", "GET", "/v1/runs?limit=" + "9" * 5000
    ),
    "order": Bad(422, "invalid_request", "query.order", "GET", "/v1/runs?order=random"),
    "after": Bad(422, "invalid_request", "query.after", "GET", "/v1/runs?after=apr_1"),
    "NUL in the query": Bad(422, "invalid_request", "query.status", "GET", "/v1/runs?status=%00"),
    "NUL in a query name": Bad(422, "invalid_request", "query.%00", "GET", "/v1/runs?%2500=1"),
    "wait too long": Bad(
        422, "invalid_request", "query.wait", body=GOOD, target="/v1/runs?wait=61"
    ),
    "wait for NaN": Bad(
        422, "invalid_request", "query.wait", body=GOOD, target="/v1/runs?wait=nan"
    ),
    "idempotency key": Bad(
        422,
        "invalid_request",
        "header.Idempotency-Key",
        body=GOOD,
        headers={"Idempotency-Key": "k" * 256},
    ),
    "last event id": Bad(
        422,
        "invalid_request",
        "header.Last-Event-ID",
        "GET",
        f"/v1/runs/{RUN}/events",
        headers={"Last-Event-ID": "latest"},
    ),
    # What kind of body.
    "form": Bad(
        415, "unsupported_media_type", body=b"a=b", type="application/x-www-form-urlencoded"
    ),
    "no type": Bad(415, "unsupported_media_type", body=GOOD, type=None),
    "text": Bad(415, "unsupported_media_type", body=GOOD, type="text/plain"),
    "not quite JSON": Bad(415, "unsupported_media_type", body=GOOD, type="application/jsonl"),
    "other charset": Bad(
        415, "unsupported_media_type", body=GOOD, type="application/json; charset=utf-16"
    ),
    "compressed": Bad(
        415, "unsupported_media_type", body=GOOD, headers={"Content-Encoding": "gzip"}
    ),
    "too large": Bad(413, "payload_too_large", body=b" " * (MAX_BODY_BYTES + 1)),
    "no body": Bad(422, "invalid_request", "", body=b"", message="is required"),
    # Is it JSON.
    "white space": Bad(400, "invalid_json", body=b"  \n"),
    "cut off": Bad(400, "invalid_json", body=b'{"model": "off'),
    "two values": Bad(400, "invalid_json", body=b"{} {}"),
    "trailing comma": Bad(400, "invalid_json", body=b'{"input": "hi",}'),
    "single quotes": Bad(400, "invalid_json", body=b"{'input': 'hi'}"),
    "comment": Bad(400, "invalid_json", body=b'{"input": /* hi */ "hi"}'),
    "byte order mark": Bad(400, "invalid_json", body=b"\xef\xbb\xbf" + GOOD),
    "UTF-16": Bad(400, "invalid_json", body=GOOD.decode().encode("utf-16")),
    "Latin-1": Bad(400, "invalid_json", body=b'{"input": "caf\xe9"}'),
    "overlong UTF-8": Bad(400, "invalid_json", body=b'{"input": "\xc0\x80"}'),
    "surrogate as UTF-8": Bad(400, "invalid_json", body=b'{"input": "\xed\xa0\x80"}'),
    "lone surrogate": Bad(400, "invalid_json", body=rb'{"input": "\ud800"}'),
    "reversed surrogates": Bad(400, "invalid_json", body=rb'{"input": "\ude00\ud83d"}'),
    "raw NUL": Bad(400, "invalid_json", body=b'{"input": "a\x00b"}'),
    "raw newline": Bad(400, "invalid_json", body=b'{"input": "a\nb"}'),
    "NaN": Bad(400, "invalid_json", body=b'{"input": NaN}'),
    "Infinity": Bad(400, "invalid_json", body=b'{"input": -Infinity}'),
    "duplicate key": Bad(400, "invalid_json", body=b'{"input": "a", "input": "b"}'),
    "duplicate key, escaped": Bad(400, "invalid_json", body=rb'{"input": "a", "\u0069nput": "b"}'),
    "duplicate key, inside": Bad(400, "invalid_json", body=b'{"context": {"a": 1, "a": 2}}'),
    "endless number": Bad(
        400, "invalid_json", body=b'{"context": {"a": 1%s}}' % (b"0" * 4000 + b".")
    ),
    # Is it JSON that can be kept.
    "NUL": Bad(422, "invalid_request", "input", body=rb'{"model": "a:b", "input": "a\u0000"}'),
    "NUL in a key": Bad(
        422, "invalid_request", "context", body=rb'{"context": {"a\u0000": 1}, "input": ""}'
    ),
    "infinite number": Bad(
        422, "invalid_request", "context.a", body=b'{"context": {"a": 1e999}, "input": ""}'
    ),
    "huge integer": Bad(
        422, "invalid_request", "context.a", body=b'{"context": {"a": 1%s}}' % (b"0" * 400)
    ),
    "too deep": Bad(
        422, "invalid_request", body=b'{"context": %s1%s}' % (b'{"a":' * 64, b"}" * 64)
    ),
    "far too deep": Bad(422, "invalid_request", "", body=b"[" * 2000 + b"]" * 2000),
    # Is it what the route takes.
    "null": Bad(422, "invalid_request", "", body=b"null", message="must be an object"),
    "array": Bad(422, "invalid_request", "", body=b"[]", message="must be an object"),
    "text body": Bad(422, "invalid_request", "", body=b'"hi"', message="must be an object"),
    "number body": Bad(422, "invalid_request", "", body=b"7", message="must be an object"),
    "unknown field": Bad(
        422, "invalid_request", "colour", body=run(colour=1), message="unknown field"
    ),
    "unknown field, inside": Bad(
        422, "invalid_request", "limits.max_turn", body=run(limits={"max_turn": 3})
    ),
    "missing field": Bad(422, "invalid_request", "input", body=b'{"model": "a:b"}'),
    "missing field, inside": Bad(
        422,
        "invalid_request",
        "input.0.content.0.text",
        body=run(input=[{"role": "user", "content": [{"type": "text"}]}]),
        message="is required",
    ),
    "wrong type": Bad(422, "invalid_request", "instructions", body=run(instructions=7)),
    "number as text": Bad(422, "invalid_request", "output_retries", body=run(output_retries="1")),
    "truth as number": Bad(
        422, "invalid_request", "parallel_tool_calls", body=run(parallel_tool_calls=1)
    ),
    "number as truth": Bad(422, "invalid_request", "output_retries", body=run(output_retries=True)),
    "not one of": Bad(422, "invalid_request", "tool_choice", body=run(tool_choice="maybe")),
    "bad name": Bad(422, "invalid_request", "tools.1", body=run(tools=["a", "b c"])),
    "bad name, named": Bad(
        422, "invalid_request", "tool_choice.name", body=run(tool_choice={"name": "ü"})
    ),
    "too many agents": Bad(422, "invalid_request", "agents", body=run(agents=["t"] * 33)),
    "too many turns": Bad(
        422, "invalid_request", "limits.max_turns", body=run(limits={"max_turns": 51})
    ),
    "too much metadata": Bad(
        422, "invalid_request", "metadata", body=run(metadata={str(n): n for n in range(65)})
    ),
    "no messages": Bad(422, "invalid_request", "input", body=run(input=[])),
    "unknown role": Bad(
        422, "invalid_request", "input.0.role", body=run(input=[{"role": "robot", "content": ""}])
    ),
    "unknown part": Bad(
        422,
        "invalid_request",
        "input.0.content.0.type",
        body=run(input=[{"role": "user", "content": [{"type": "video"}]}]),
        message="must be one of 'text', 'input_text', 'image', 'file', 'image_url', 'input_image', "
        "'input_file'",
    ),
    "image without source": Bad(
        422,
        "invalid_request",
        "input.0.content.0",
        body=run(input=[{"role": "user", "content": [{"type": "image"}]}]),
        message="must have either url or data",
    ),
    "agent and model": Bad(422, "invalid_request", "", body=run(agent="a")),
    "neither agent nor model": Bad(422, "invalid_request", "", body=b'{"input": "hi"}'),
    "body where none is taken": Bad(
        422, "invalid_request", "a", target="/v1/tools/t/rotate_secret", body=b'{"a": 1}'
    ),
    "body of a GET": Bad(422, "invalid_request", "a", "GET", f"/v1/runs/{RUN}", body=b'{"a": 1}'),
    "bad body where none is taken": Bad(
        400, "invalid_json", target="/v1/tools/t/rotate_secret", body=b"{a}"
    ),
    "output and error": Bad(
        422,
        "invalid_request",
        "",
        target=f"/v1/runs/{RUN}/tool_calls/c/result",
        body=b'{"output": 1, "error": "x"}',
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_malformed_request_is_refused_as_a_problem(http: httpx2.Client, name: str) -> None:
    bad = TABLE[name]
    headers = dict(bad.headers)
    if bad.key is not None:
        headers |= bearer(bad.key)
    if bad.body is not None and bad.type is not None:
        headers["Content-Type"] = bad.type
    response = http.request(bad.method, bad.target, content=bad.body, headers=headers)
    problem = assert_problem(response, bad.status, bad.code)
    if bad.path is not None:
        assert problem["errors"][0]["path"] == bad.path
    if bad.message is not None:
        assert problem["errors"][0]["message"] == bad.message


def assert_problem(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response.json().get("code")) == (status, code), response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    wanted = {"type", "title", "status", "detail", "code", "request_id", "errors"}
    assert wanted <= problem.keys()
    assert problem["type"] == f"urn:runward:problem:{code}"
    assert problem["request_id"] == response.headers["X-Request-Id"]
    assert problem["status"] == status
    if status in {409, 422}:
        assert response.headers["x-should-retry"] == "false"
    if status == 401:
        assert response.headers["WWW-Authenticate"].startswith("Bearer ")
    assert "pydantic" not in response.text
    return problem


def test_a_good_request_reaches_its_handler(http: httpx2.Client) -> None:
    headers = bearer(WRITER) | {"Idempotency-Key": "k-1", "Prefer": "respond-async, wait=7"}
    response = http.post("/v1/runs", json=json.loads(run(tools=["a"])), headers=headers)
    assert response.status_code == 202
    assert response.headers["Location"] == f"/v1/runs/{RUN}"
    key = "key_" + "0" * 31 + "9"
    assert response.json() == {"input": "hi", "tools": ["a"], "key": "k-1", "wait": 7.0, "by": key}


@pytest.mark.parametrize(
    "content_type",
    ["application/json;charset=UTF-8", 'Application/JSON; charset="utf-8"', "application/x.y+json"],
)
def test_json_may_be_called_by_its_other_names(http: httpx2.Client, content_type: str) -> None:
    headers = bearer(WRITER) | {"Content-Type": content_type}
    assert http.post("/v1/runs", content=GOOD, headers=headers).status_code == 202


def test_a_chunked_body_has_the_same_limit(http: httpx2.Client) -> None:
    def chunks(count: int) -> Iterator[bytes]:
        yield GOOD
        for _ in range(count):
            yield b" " * 1024

    headers = bearer(WRITER) | {"Content-Type": JSON}
    assert http.post("/v1/runs", content=chunks(2), headers=headers).status_code == 202
    response = http.post("/v1/runs", content=chunks(5), headers=headers)
    assert_problem(response, 413, "payload_too_large")


def test_a_body_of_exactly_the_limit_is_taken(http: httpx2.Client) -> None:
    whole = GOOD + b" " * (MAX_BODY_BYTES - len(GOOD))
    headers = bearer(WRITER) | {"Content-Type": JSON}
    assert http.post("/v1/runs", content=whole, headers=headers).status_code == 202


def test_sixty_four_levels_are_taken(http: httpx2.Client) -> None:
    body = b'{"model": "a:b", "input": "", "context": %s{}%s}' % (b'{"a":' * 62, b"}" * 62)
    headers = bearer(WRITER) | {"Content-Type": JSON}
    assert http.post("/v1/runs", content=body, headers=headers).status_code == 202


def test_a_body_may_be_left_out_where_it_is_optional(http: httpx2.Client) -> None:
    target = f"/v1/runs/{RUN}/cancel"
    assert http.post(target, headers=bearer(WRITER)).json() == {"mode": "immediate"}
    for body, mode in [
        ({}, "immediate"),
        ({"mode": "after_turn"}, "after_turn"),
        (None, "immediate"),
    ]:
        content = json.dumps(body).encode()
        headers = bearer(WRITER) | {"Content-Type": JSON}
        assert http.post(target, content=content, headers=headers).json() == {"mode": mode}
    response = http.post(target, json={"mode": "later"}, headers=bearer(WRITER))
    assert assert_problem(response, 422, "invalid_request")["errors"] == [
        {"path": "mode", "message": "must be 'immediate' or 'after_turn'"}
    ]


def test_an_empty_object_is_no_body(http: httpx2.Client) -> None:
    response = http.post("/v1/tools/t/rotate_secret", json={}, headers=bearer(READER))
    assert response.json() == {"name": "t"}


def test_a_call_id_may_contain_a_slash_and_null_is_an_output(http: httpx2.Client) -> None:
    target = f"/v1/runs/{RUN}/tool_calls/a%2Fb%20c/result"
    response = http.post(target, json={"output": None}, headers=bearer(WRITER))
    assert response.json() == {"call_id": "a/b c", "output": None, "error": None}


def test_an_error_names_no_value(http: httpx2.Client) -> None:
    secret = "whsec_do_not_show_me"
    bodies: list[object] = [
        {"input": [secret], "model": 7},
        {"tools": [secret + " "], "tool_choice": secret, "limits": secret},
        {"input": [{"role": secret, "content": [{"type": secret}]}], "metadata": secret},
        secret,
        [secret],
    ]
    for body in bodies:
        response = http.post("/v1/runs", json=body, headers=bearer(WRITER))
        assert response.status_code == 422
        assert secret not in response.text


def test_many_wrong_values_are_cut_off(http: httpx2.Client) -> None:
    body = run(**{f"field_{n}": n for n in range(50)})
    response = http.post("/v1/runs", content=body, headers=bearer(WRITER) | {"Content-Type": JSON})
    errors = response.json()["errors"]
    assert len(errors) == 21
    assert errors[-1] == {"path": "", "message": "30 more problems are not listed"}


def test_a_path_in_an_error_is_cut_off(http: httpx2.Client) -> None:
    response = http.post("/v1/runs", json={"k" * 3000: 1}, headers=bearer(WRITER))
    assert all(len(error["path"]) <= 201 for error in response.json()["errors"])


def test_either_scope_opens_a_get(http: httpx2.Client) -> None:
    for key in (READER, WRITER):
        assert http.get("/v1/runs", headers=bearer(key)).status_code == 200
    response = http.get("/v1/runs", headers={b"Authorization": f"Bearer {OPERATOR}".encode()})
    problem = assert_problem(response, 403, "insufficient_scope")
    assert "runs:read or runs:write" in problem["detail"]
    assert 'scope="runs:read runs:write"' in response.headers["WWW-Authenticate"]


def test_a_key_outside_ascii_works(http: httpx2.Client) -> None:
    headers = {b"Authorization": f"bearer   {OPERATOR}".encode()}
    assert http.get("/v1/projects", headers=headers).status_code == 200


def test_two_authorization_headers_are_refused(http: httpx2.Client) -> None:
    headers = [("Authorization", f"Bearer {READER}"), ("Authorization", f"Bearer {WRITER}")]
    assert_problem(http.get("/v1/runs", headers=headers), 401, "unauthenticated")


def test_a_list_says_whether_there_is_more(http: httpx2.Client) -> None:
    response = http.get("/v1/runs?limit=2&status=x", headers=bearer(READER))
    assert response.json() == {
        "object": "list",
        "data": ["X-0", "X-1"],
        "first_id": "X-0",
        "last_id": "X-1",
        "has_more": True,
    }


@pytest.mark.parametrize("given", ["abc-1.2:3_X", "a" * 128])
def test_a_sane_request_id_is_echoed(http: httpx2.Client, given: str) -> None:
    for target in ("/v1/runs", "/nowhere"):
        response = http.get(target, headers=bearer(READER) | {"X-Request-Id": given})
        assert response.headers["X-Request-Id"] == given


@pytest.mark.parametrize("given", ["a b", "a" * 129, "<script>", "", "ä"])
def test_any_other_request_id_is_replaced(http: httpx2.Client, given: str) -> None:
    headers = {b"X-Request-Id": given.encode()}
    response = http.get("/nowhere", headers=headers)
    assert re.fullmatch("req_[0-9a-f]{32}", response.headers["X-Request-Id"])
    assert response.headers.get_list("X-Request-Id") == [response.json()["request_id"]]


def test_a_fault_shows_its_request_id_alone(
    http: httpx2.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    response = http.get("/v1/fail/bug")
    problem = assert_problem(response, 500, "internal_error")
    assert "hunter2" not in response.text
    logged = capsys.readouterr().out
    assert problem["request_id"] in logged
    assert "hunter2" in logged


def test_a_fault_of_a_statement_is_a_fault(http: httpx2.Client) -> None:
    response = http.get("/v1/fail/data")
    assert_problem(response, 500, "internal_error")
    assert "SELECT" not in response.text


@pytest.mark.parametrize(
    ("how", "cause"),
    [("refused", "ConnectionRefusedError"), ("shutdown", "57P01"), ("group", "ExceptionGroup")],
)
def test_a_database_that_is_away_is_a_503(
    http: httpx2.Client, how: str, cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    response = http.get(f"/v1/fail/{how}")
    problem = assert_problem(response, 503, "unavailable")
    assert response.headers["Retry-After"] == "2"
    [line] = [one for one in capsys.readouterr().out.splitlines() if "request.unavailable" in one]
    assert problem["request_id"] in line
    assert cause in line
    assert "SELECT" not in line


def test_a_secret_that_cannot_be_decrypted_is_a_503(
    http: httpx2.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = assert_problem(http.get("/v1/fail/secret"), 503, "unavailable")
    assert "encrypted with a different RUNWARD_SECRET_KEY" in str(problem["detail"])
    [line] = [one for one in capsys.readouterr().out.splitlines() if "request.unavailable" in one]
    assert problem["request_id"] in line
    assert "tools.secret of 'pay'" in line


def test_a_database_that_is_away_while_keys_are_checked_is_a_503(http: httpx2.Client) -> None:
    assert_problem(http.get("/v1/runs", headers=bearer(BROKEN)), 503, "unavailable")


def test_a_limit_says_when_to_come_back(http: httpx2.Client) -> None:
    response = http.get("/v1/fail/limit")
    assert_problem(response, 429, "too_many_requests")
    assert response.headers["Retry-After"] == "8"


def test_a_conflict_names_the_winner_and_forbids_retries(http: httpx2.Client) -> None:
    response = http.get("/v1/fail/decided")
    problem = assert_problem(response, 409, "approval_already_decided")
    assert problem["approval"] == {"status": "rejected"}


def test_a_conflict_that_passes_may_be_retried(http: httpx2.Client) -> None:
    response = http.get("/v1/fail/in-flight")
    assert response.status_code == 409
    assert "x-should-retry" not in response.headers
    assert response.headers["Retry-After"] == "2"


def test_what_comes_late_is_gone(http: httpx2.Client) -> None:
    assert_problem(http.get("/v1/fail/late"), 410, "late_callback")


@pytest.mark.parametrize(
    ("how", "event"),
    [("refused", "request.cut"), ("shutdown", "request.cut"), ("bug", "request.failed")],
)
def test_an_answer_that_breaks_off_is_cut_and_logged_once(
    http: httpx2.Client,
    how: str,
    event: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        http.get(f"/v1/fail-late/{how}", headers={"X-Request-ID": f"late-{how}"})
    [line] = [one for one in capsys.readouterr().out.splitlines() if event in one]
    assert f"late-{how}" in line
    assert caplog.records == []  # the server would print a stack, with the statement in it


def test_wrong_methods_are_told_the_right_ones(http: httpx2.Client) -> None:
    response = http.put(f"/v1/runs/{RUN}", headers=bearer(WRITER))
    assert_problem(response, 405, "method_not_allowed")
    assert response.headers["Allow"] == "DELETE, GET, HEAD, OPTIONS"
    assert http.head(f"/v1/runs/{RUN}/cancel").headers["Allow"] == "OPTIONS, POST"


def test_options_names_the_methods(http: httpx2.Client) -> None:
    response = http.options("/v1/runs")
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["Allow"] == "GET, HEAD, OPTIONS, POST"
    assert "Access-Control-Allow-Origin" not in response.headers
    assert http.options("/v1/nothing").status_code == 404


def test_head_is_get_without_its_body(http: httpx2.Client) -> None:
    for target in (f"/v1/runs/{RUN}", "/v1/runs/1", "/nowhere"):
        head = http.head(target, headers=bearer(READER))
        get = http.get(target, headers=bearer(READER))
        assert (head.status_code, head.content) == (get.status_code, b"")
        for name in ("Content-Type", "Content-Length"):
            assert head.headers[name] == get.headers[name]


def test_head_of_a_stream_ends(http: httpx2.Client) -> None:
    response = http.head(f"/v1/runs/{RUN}/events", headers=bearer(READER))
    assert (response.status_code, response.content) == (200, b"")


def test_a_reconnecting_stream_goes_on_where_it_was(http: httpx2.Client) -> None:
    headers = bearer(READER) | {"Last-Event-ID": "41"}
    with http.stream("GET", f"/v1/runs/{RUN}/events?after=3", headers=headers) as response:
        assert next(response.iter_lines()) == "id: 42"


def test_answers_are_not_kept_by_others(http: httpx2.Client) -> None:
    for target in ("/v1/runs", "/nowhere"):
        response = http.get(target, headers=bearer(READER))
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_client_that_hangs_up_in_its_body_disturbs_nobody(http: httpx2.Client, url: str) -> None:
    address = urlsplit(url)
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {WRITER}\r\n"
        "Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    )
    with socket.create_connection((str(address.hostname), address.port or 0)) as connection:
        connection.sendall(head.encode())
    assert http.get("/v1/runs", headers=bearer(READER)).status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ_SECONDS", 0.05)
    address = urlsplit(url)
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {WRITER}\r\n"
        "Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    )
    with socket.create_connection((str(address.hostname), address.port or 0), 10) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 408 ")
    assert "application/problem+json" in answer


def test_the_docs_page_executes_and_fetches_nothing(http: httpx2.Client) -> None:
    response = http.get("/docs")
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
    assert "<script" not in response.text
    assert "http://" not in response.text and "https://" not in response.text
    assert "/v1/runs/{run_id}/cancel" in response.text


def test_openapi_names_every_operation_and_its_problems(http: httpx2.Client) -> None:
    document = http.get("/openapi.json").json()
    start = document["paths"]["/v1/runs"]["post"]
    assert start["operationId"] == "start_run"
    assert start["security"] == [{"bearer": []}]
    assert start["x-required-scopes"] == ["runs:write"]
    assert start["description"] == "Requires the scope `runs:write`."
    wanted = {"202", "400", "401", "403", "408", "409", "413", "415", "422", "429"}
    assert start["responses"].keys() == wanted | {"500", "503"}
    assert start["responses"]["422"] == {"$ref": "#/components/responses/UnprocessableEntity"}
    listed = document["paths"]["/v1/runs"]["get"]["responses"]["200"]["content"][JSON]["schema"]
    assert listed == {"$ref": "#/components/schemas/strList"}
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_mistakes_beyond_number_are_not_described_one_by_one(http: httpx2.Client) -> None:
    body = b'{"model":"offline:rules","input":[' + b"1," * 2000 + b"1]}"
    headers = {**bearer(WRITER), "Content-Type": JSON}
    response = http.post("/v1/runs", content=body, headers=headers)
    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["path"] == ""
    assert "values or fields are invalid" in error["message"]
