"""Webhook tools: what is sent and signed, and what each answer means."""

import asyncio
import ipaddress
import json
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jiter import from_json
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from runward.domain.errors import UnavailableError
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.json import clean_json, compact
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import MediaPart, TextPart
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome, Waits
from runward.egress.client import Egress
from runward.egress.responses import EgressResponse
from runward.tools.base import LEASE_LOST, Invocation
from runward.tools.signing import SignedPostClient, make_secret, signed_headers, verify
from runward.tools.webhook.headers import check_headers
from runward.tools.webhook.invoker import WebhookInvoker
from runward.tools.webhook.response import MAX_MESSAGE, read_outcome
from tests.unit.raw_server import Line, RawServer, answer, saying

CALL_ID = "call_019a00000000700080000000000000cc"


async def stored_secrets(_: ProjectId, names: Collection[str]) -> dict[str, str]:
    if "locked" in names:
        raise UnavailableError
    if "endless" in names:
        await asyncio.Event().wait()
    stored = {"token": "t0ken", "lines": "a\nb"}
    return {name: stored[name] for name in names if name in stored}


@pytest.fixture
async def webhook() -> AsyncGenerator[WebhookInvoker]:
    loopback = ipaddress.ip_network("127.0.0.0/8")
    async with aclosing(Egress(allow_private=(loopback,))) as egress:
        yield WebhookInvoker(SignedPostClient(egress), stored_secrets)


async def test_a_header_may_name_a_secret_of_the_project(webhook: WebhookInvoker) -> None:
    named = {"Authorization": {"secret": "token", "prefix": "Bearer "}, "X-Team": "a"}
    async with RawServer(saying(answer())) as server:
        await webhook.invoke(a_call(server.url, headers=named))
    headers, _ = taken_apart(server.requests[0])
    assert (headers["authorization"], headers["x-team"]) == ("Bearer t0ken", "a")


@pytest.mark.parametrize("secret", ["gone", "lines"])
async def test_a_call_whose_secret_is_gone_or_cannot_be_sent_is_not_sent(
    webhook: WebhookInvoker, secret: str
) -> None:
    async with RawServer(saying(answer())) as server:
        outcome = await webhook.invoke(a_call(server.url, headers={"X-Key": {"secret": secret}}))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.permanent) == (FailureKind.NOT_SENT, True)
    assert server.requests == []


@pytest.mark.parametrize("secret", ["locked", "endless"])
async def test_a_call_whose_secret_cannot_be_read_in_time_is_not_sent(
    webhook: WebhookInvoker, secret: str
) -> None:
    headers = {"X-Key": {"secret": secret}}
    async with RawServer(saying(answer())) as server:
        outcome = await webhook.invoke(a_call(server.url, headers=headers, seconds=0.05))
    assert outcome == Failed(
        FailureKind.NOT_SENT, "The secrets in the headers of the tool could not be read."
    )
    assert server.requests == []


async def test_a_call_of_a_run_that_another_worker_has_is_not_sent(webhook: WebhookInvoker) -> None:
    async def lost() -> bool:
        return False

    async with RawServer(saying(answer())) as server:
        assert await webhook.invoke(a_call(server.url, may_send=lost)) == LEASE_LOST
    assert server.requests == []


def a_call(url: str, **changes: Any) -> Invocation:
    tool = ToolSpec(
        name="refund",
        parameters={"type": "object"},
        url=url,
        headers=changes.pop("headers", {}),
        max_output_bytes=changes.pop("max_output_bytes", 65_536),
    )
    call = Invocation(
        project_id=ProjectId(UUID(int=1)),
        run_id=RunId(UUID("019a0000-0000-7000-8000-0000000000aa")),
        call_id=CallId("c1"),
        call_uuid=UUID("019a0000-0000-7000-8000-0000000000cc"),
        tool=tool,
        tool_version=3,
        agent="main",
        arguments={"amount": 500.5, "to": "Zoë"},
        context={"tier": "gold"},
        attempt=2,
        fence=7,
        seconds=5.0,
        callback_url="http://127.0.0.1/v1/callbacks/t",
        callback_token="t",
        secrets=(make_secret(),),
    )
    return replace(call, **changes)


def taken_apart(request: bytes) -> tuple[dict[str, str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
    return {name.lower(): value for name, value in lines}, body


def an_answer(
    status: int = 200, body: bytes = b"", kind: str = "", **headers: str
) -> EgressResponse:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return EgressResponse(status, given | ({"content-type": kind} if kind else {}), body)


# What is sent.


async def test_the_body_says_everything_and_is_signed(webhook: WebhookInvoker) -> None:
    async with RawServer(saying(answer(b'"ok"'))) as server:
        call = a_call(server.url)
        assert await webhook.invoke(call) == Done("ok")
    headers, body = taken_apart(server.requests[0])
    assert Verifier(call.secrets[0]).verify(body, headers) == {
        "type": "tool_call",
        "run_id": "run_019a00000000700080000000000000aa",
        "call_id": "c1",
        "tool": "refund",
        "tool_version": 3,
        "agent": "main",
        "arguments": {"amount": 500.5, "to": "Zoë"},
        "context": {"tier": "gold"},
        "attempt": 2,
        "fence": 7,
        "deadline_ms": 5000,
        "callback": {"url": "http://127.0.0.1/v1/callbacks/t", "token": "t"},
    }
    assert headers["webhook-id"] == headers["idempotency-key"] == CALL_ID
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("runward")
    with pytest.raises(WebhookVerificationError):
        Verifier(call.secrets[0]).verify(body.replace(b"500.5", b"5.5"), headers)


async def test_every_attempt_has_the_same_id(webhook: WebhookInvoker) -> None:
    async with RawServer(saying(answer())) as server:
        for attempt in (1, 2):
            await webhook.invoke(a_call(server.url, attempt=attempt))
    ids = [taken_apart(request)[0]["webhook-id"] for request in server.requests]
    assert ids == [CALL_ID, CALL_ID]


async def test_during_a_rotation_both_secrets_verify(webhook: WebhookInvoker) -> None:
    new, old, other = make_secret(), make_secret(), make_secret()
    async with RawServer(saying(answer())) as server:
        await webhook.invoke(a_call(server.url, secrets=(new, old)))
    headers, body = taken_apart(server.requests[0])
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert verify([new], headers, body)
    assert verify([old], headers, body)
    assert verify([other, old], headers, body)
    assert not verify([other], headers, body)
    assert not verify([], headers, body)


def test_a_signature_does_not_live_for_ever() -> None:
    secret, now = make_secret(), datetime.now(UTC)
    for age, valid in ((0, True), (4, True), (6, False)):
        headers = signed_headers([secret], "call_x", now - timedelta(minutes=age), b"{}")
        assert verify([secret], headers, b"{}") is valid


def test_secrets_are_long_and_never_the_same() -> None:
    secrets = {make_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(secret.startswith("whsec_") and len(secret) == 50 for secret in secrets)


async def test_nothing_goes_out_unsigned(webhook: WebhookInvoker) -> None:
    async with RawServer(saying(answer())) as server:
        outcome = await webhook.invoke(a_call(server.url, secrets=()))
    assert outcome == Failed(
        FailureKind.NOT_SENT, "The tool has no signing secret.", permanent=True
    )
    assert server.connections == 0


async def test_the_tools_own_headers_are_sent_and_cannot_replace_ours(
    webhook: WebhookInvoker,
) -> None:
    static = {"Authorization": "Bearer x", "webhook-id": "forged", "content-type": "text/html"}
    async with RawServer(saying(answer())) as server:
        await webhook.invoke(a_call(server.url, headers=static))
    headers, _ = taken_apart(server.requests[0])
    assert headers["authorization"] == "Bearer x"
    assert headers["webhook-id"] == CALL_ID
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, "x") for name in ("Host", "content-length", "Transfer-Encoding", "Connection")],
        *[(name, "x") for name in ("Keep-Alive", "TE", "Trailer", "Upgrade", "Expect")],
        *[(name, "x") for name in ("Proxy-Authorization", "Accept-Encoding", "User-Agent")],
        *[(name, "x") for name in ("Webhook-Id", "webhook-signature", "Idempotency-Key")],
        *[(name, "x") for name in ("Content-Type", "", "a b", "a:b", "a\r\nb", "é", "a" * 129)],
        *[("X", value) for value in ("a\r\nb: c", "a\nb", "a\x00", "é", " a", "a ", "a" * 4097)],
    ],
)
def test_a_header_that_a_tool_may_not_set_is_refused(name: str, value: str) -> None:
    problems = check_headers({name: value})
    assert len(problems) == 1
    assert problems[0].path.startswith("headers.")


def test_headers_are_refused_when_they_repeat_or_are_too_long_together() -> None:
    assert check_headers({"X-A": "1", "x-a": "2"})[0].path == "headers.x-a"
    assert check_headers({f"x{i}": "a" * 4000 for i in range(5)})[0].path == "headers"
    assert check_headers({"Authorization": "Bearer abc", "X-Team": "a\tb", "Cookie": "a=b"}) == []


# What comes back.


@pytest.mark.parametrize(
    ("body", "kind", "output"),
    [
        (b'{"k":1,"t":true}', "application/json", {"k": 1, "t": True}),
        (b"3", "application/json; charset=utf-8", 3),
        (b"false", "application/json", False),
        (b"null", "application/json", None),
        (b'""', "application/json", ""),
        (b'\xef\xbb\xbf{"bom":1}', "application/json", {"bom": 1}),
        (b'{"a":1}', "application/problem+json", {"a": 1}),
        (b'{"a":1}', "", {"a": 1}),
        (b"plain words", "", "plain words"),
        (b'{"a":1}', "text/plain", '{"a":1}'),
        ("Zoë".encode(), "text/plain", "Zoë"),
        ("Zoë".encode("latin-1"), "text/plain; charset=ISO-8859-1", "Zoë"),
        ("Zoë".encode("latin-1"), "text/plain; charset=latin1", "Zoë"),
        ("Zoë".encode("latin-1"), "text/plain; charset=L1", "Zoë"),
        ("Zoë €".encode("cp1252"), 'text/plain; charset="windows-1252"', "Zoë €"),
        ("Zoë".encode("utf-16-le"), "text/plain; charset=UTF-16LE", "Zoë"),
        ("Zoë".encode(), "text/plain; charset=rot13", "Zoë"),
        ("Zoë".encode(), "text/plain; charset=unheard-of", "Zoë"),
        (b"<p>hi</p>", "text/html", "<p>hi</p>"),
        (b"a: 1", "application/yaml", "a: 1"),
        (b"", "application/json", None),
        (b" \n", "text/plain", None),
        (b'{"content": "just a key"}', "application/json", {"content": "just a key"}),
        (b'{"content": []}', "application/json", {"content": []}),
        (
            b'{"content": [{"type": "video"}]}',
            "application/json",
            {"content": [{"type": "video"}]},
        ),
        (b'{"is_error": false, "a": 1}', "application/json", {"is_error": False, "a": 1}),
    ],
)
def test_any_json_or_text_is_a_result(body: bytes, kind: str, output: Any) -> None:
    assert read_outcome(an_answer(200, body, kind)) == Done(output)


def test_an_answer_without_a_body_is_null() -> None:
    assert read_outcome(an_answer(204)) == Done(None)
    assert read_outcome(an_answer(201)) == Done(None)


def test_a_content_array_is_text_with_images_and_files() -> None:
    body = {
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "text", "text": "two"},
            {"type": "file", "url": "https://example.com/a.pdf", "filename": "a.pdf"},
        ],
        "metadata": {"took_ms": 5},
    }
    assert read_outcome(an_answer(200, json.dumps(body).encode(), "application/json")) == Done(
        "one\ntwo",
        (
            TextPart("one"),
            MediaPart("image", data="aGk=", media_type="image/png"),
            TextPart("two"),
            MediaPart("file", url="https://example.com/a.pdf", filename="a.pdf"),
        ),
        {"took_ms": 5},
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"is_error": True, "message": "no such order"}, "no such order"),
        ({"is_error": True, "error": "no such order"}, "no such order"),
        ({"is_error": True, "error": {"message": "no", "code": 4}}, "no"),
        ({"is_error": True, "output": {"left": 2}}, '{"left":2}'),
        ({"is_error": True, "content": [{"type": "text", "text": "no"}]}, "no"),
        ({"is_error": True, "message": "x" * 5000}, "x" * MAX_MESSAGE + "…"),
        ({"is_error": True}, None),
    ],
)
def test_a_declared_error_is_an_error_with_its_message(body: Any, message: str | None) -> None:
    outcome = read_outcome(an_answer(200, json.dumps(body).encode(), "application/json"))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.message, outcome.status) == (FailureKind.ERROR, message, 200)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"half": ', "application/json"),
        (b"not json", "application/json"),
        (b"\xff\xfe\xfd", "application/json"),
        (b"\xff\xfe\xfd", "text/plain"),
        (b"\x89PNG\r\n\x1a\n\xff", "image/png"),
        (b"[" * 100_000, "application/json"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "application/json"),
    ],
)
def test_a_success_that_cannot_be_read_is_an_invalid_response(body: bytes, kind: str) -> None:
    outcome = read_outcome(an_answer(200, body, kind))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.message) == (FailureKind.INVALID_RESPONSE, None)


@pytest.mark.parametrize(
    ("body", "output"),
    [
        (b'{"a": NaN, "b": [Infinity, -Infinity, 1e999]}', {"a": None, "b": [None, None, None]}),
        (b'{"a": "\\ud800", "b\\u0000": "\\u0000"}', {"a": "\ufffd", "b\ufffd": "\ufffd"}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"1" + b"0" * 400, None),
    ],
)
def test_json_that_cannot_be_stored_is_mended_and_flagged(body: bytes, output: Any) -> None:
    assert read_outcome(an_answer(200, body, "application/json")) == Done(
        output, metadata={"sanitised": True}
    )


def test_text_that_cannot_be_stored_is_mended_and_flagged() -> None:
    assert read_outcome(an_answer(200, b"a\x00b", "text/plain")) == Done(
        "a\ufffdb", metadata={"sanitised": True}
    )


def test_202_means_later_whatever_it_says() -> None:
    assert read_outcome(an_answer(202, b"{broken", "application/json")) == Waits()


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504])
def test_a_status_that_passes_is_unavailable(status: int) -> None:
    outcome = read_outcome(an_answer(status))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.status, outcome.permanent) == (
        FailureKind.UNAVAILABLE,
        status,
        False,
    )


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500, 501, 505, 599])
def test_any_other_bad_status_is_an_error(status: int) -> None:
    outcome = read_outcome(an_answer(status))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.status) == (FailureKind.ERROR, status)


def test_a_redirect_is_an_error_that_names_the_place_without_its_query() -> None:
    outcome = read_outcome(an_answer(302, location="https://example.com/login?token=s3cret"))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.permanent) == (FailureKind.ERROR, True)
    assert "https://example.com/login. Runward does not follow redirects" in outcome.detail
    assert "s3cret" not in outcome.detail


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"no such order\n", "text/plain", "no such order"),
        (b'{"message": "no such order"}', "application/json", "no such order"),
        (b'{"error": "no such order"}', "application/json", "no such order"),
        (b'{"error": {"message": "no such order"}}', "application/json", "no such order"),
        (b'{"title": "T", "detail": "no such order"}', "application/problem+json", "no such order"),
        (b'{"detail": [{"msg": "bad"}]}', "application/json", '[{"msg":"bad"}]'),
        (b'"no such order"', "application/json", "no such order"),
        (b'{"message": "m"}', "", "m"),
        (b"<html>Internal Server Error</html>", "text/html", None),
        (b"oops", "", None),
        (b'{"trace": "db password"}', "application/json", None),
        (b"{half", "application/json", None),
        (b"\x89PNG", "image/png", None),
        (b"", "application/json", None),
        (b"x" * 5000, "text/plain", "x" * MAX_MESSAGE + "…"),
    ],
)
def test_only_what_a_tool_says_on_purpose_reaches_the_model(
    body: bytes, kind: str, message: str | None
) -> None:
    outcome = read_outcome(an_answer(500, body, kind))
    assert isinstance(outcome, Failed)
    assert outcome.message == message
    assert "db password" not in outcome.detail


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "99999999999"}, 86_400.0),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "soon"}, None),
        ({}, None),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        (
            {
                "retry_after": "Wed, 21 Oct 2026 07:28:00 GMT",
                "date": "Wed, 21 Oct 2026 07:27:30 GMT",
            },
            30.0,
        ),
    ],
)
def test_retry_after_is_read_as_seconds(headers: dict[str, str], seconds: float | None) -> None:
    outcome = read_outcome(
        EgressResponse(503, {k.replace("_", "-"): v for k, v in headers.items()}, b"")
    )
    assert isinstance(outcome, Failed)
    assert outcome.retry_after == seconds


@given(
    st.integers(200, 599),
    st.binary(max_size=200) | st.text().map(str.encode),
    st.sampled_from(["", "application/json", "text/plain", "image/png", "text/x; charset=utf-16"]),
)
def test_no_answer_breaks_anything(status: int, body: bytes, kind: str) -> None:
    outcome = read_outcome(an_answer(status, body, kind))
    if isinstance(outcome, Done):
        compact(outcome.output)
        assert clean_json(outcome.output) == (outcome.output, False)
    elif isinstance(outcome, Failed):
        outcome.detail.encode()
        (outcome.message or "").encode()


# The network in between.


async def over(webhook: WebhookInvoker, raw: bytes, **changes: Any) -> Outcome:
    async with RawServer(saying(raw)) as server:
        return await webhook.invoke(a_call(server.url, **changes))


async def test_an_answer_cut_short_leaves_the_outcome_unknown(webhook: WebhookInvoker) -> None:
    outcome = await over(webhook, b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.permanent) == (FailureKind.UNKNOWN, False)


async def test_a_tool_that_cannot_be_reached_was_surely_not_called(webhook: WebhookInvoker) -> None:
    async with RawServer(saying(answer())) as server:
        url = server.url
    outcome = await webhook.invoke(a_call(url))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.permanent) == (FailureKind.NOT_SENT, False)


async def test_an_address_that_may_not_be_reached_is_permanent(webhook: WebhookInvoker) -> None:
    outcome = await webhook.invoke(a_call("http://169.254.169.254/latest/meta-data"))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.permanent) == (FailureKind.NOT_SENT, True)


async def test_a_silent_tool_times_out_and_says_that_it_was_sent(webhook: WebhookInvoker) -> None:
    async def silent(line: Line) -> None:
        await line.request()
        await line.closed()

    async with RawServer(silent) as server:
        outcome = await webhook.invoke(a_call(server.url, seconds=0.5))
    assert isinstance(outcome, Failed)
    assert outcome.reason is FailureKind.TIMEOUT
    assert "after the request was sent" in outcome.detail


async def test_a_result_over_the_limit_is_an_invalid_response(webhook: WebhookInvoker) -> None:
    huge = b'"' + b"x" * 1_100_000 + b'"'
    outcome = await over(webhook, answer(huge))
    assert isinstance(outcome, Failed)
    assert outcome.reason is FailureKind.INVALID_RESPONSE
    assert isinstance(await over(webhook, answer(huge), max_output_bytes=2_000_000), Done)


async def test_a_compressed_result_that_cannot_be_read_is_an_invalid_response(
    webhook: WebhookInvoker,
) -> None:
    outcome = await over(webhook, answer(b"...", "200 OK", "Content-Encoding: br"))
    assert isinstance(outcome, Failed)
    assert outcome.reason is FailureKind.INVALID_RESPONSE


# Cancelling.


async def test_a_cancelled_call_is_told_to_the_tool_under_an_id_of_its_own(
    webhook: WebhookInvoker,
) -> None:
    async with RawServer(saying(answer())) as server:
        call = a_call(server.url)
        assert await webhook.notify_cancelled(call, "run_cancelled")
    headers, body = taken_apart(server.requests[0])
    notice = Verifier(call.secrets[0]).verify(body, headers)
    assert headers["webhook-id"] == f"{CALL_ID}_cancelled"
    assert notice == {
        "type": "tool_call.cancelled",
        "run_id": "run_019a00000000700080000000000000aa",
        "call_id": "c1",
        "tool": "refund",
        "tool_version": 3,
        "agent": "main",
        "attempt": 2,
        "fence": 7,
        "reason": "run_cancelled",
    }


async def test_a_notice_that_nobody_takes_is_no_error(webhook: WebhookInvoker) -> None:
    async with RawServer(saying(answer(b"", "500 No"))) as server:
        assert not await webhook.notify_cancelled(a_call(server.url), "run_cancelled")
    assert not await webhook.notify_cancelled(a_call(server.url), "run_cancelled")


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of three tries."""
    tries: list[float] = []
    for _ in range(3):
        began = time.process_time()
        work()
        tries.append(time.process_time() - began)
    return min(tries)


def test_a_large_answer_of_many_values_is_read_about_as_fast_as_it_is_parsed() -> None:
    """It takes about 4 times as long."""
    body = b"[" + b",".join([b"{}"] * 100_000) + b"]"
    response = EgressResponse(200, {"content-type": "application/json"}, body)
    assert isinstance(read_outcome(response), Done)
    assert cpu_seconds(lambda: read_outcome(response)) < 8 * cpu_seconds(lambda: from_json(body))
