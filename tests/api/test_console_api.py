"""The console's pages and its session, without a browser."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from fastapi import Request
from starlette.types import Message

from runward.console import pages, session
from runward.domain.errors import RequestTimeoutError
from runward.domain.run.decisions import STATUS_AFTER
from runward.domain.run.status import RunStatus
from tests.api.project import ALL_SCOPES, Project, call
from tests.support.models.chat_server import calls, text
from tests.support.services.client import Json

STATIC = Path(pages.__file__).parent / "static"
SESSION = "/console/session"
OWN = {"Sec-Fetch-Site": "same-origin"}
WRITE = OWN | {"X-Runward-CSRF": "1"}


@pytest.fixture
def browser(project: Project) -> Iterator[httpx2.Client]:
    """Keeps cookies, and sends what a browser sends for the console's own page."""
    url = project.running.service.url
    with httpx2.Client(base_url=url, headers=WRITE, trust_env=False, timeout=20) as client:
        yield client


def sign_in(browser: httpx2.Client, key: str) -> httpx2.Response:
    response = browser.post(SESSION, json={"key": key})
    assert response.status_code == 200, response.text
    return response


def signed_in(browser: httpx2.Client, project: Project, *scopes: str) -> Json:
    """The key that it has signed in with."""
    made = project.new_key(*scopes or ALL_SCOPES)
    sign_in(browser, made["key"])
    return made


def refused(response: httpx2.Response, status: int, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (status, code), response.text


# The pages.


def test_the_page_preloads_every_module_that_it_needs(browser: httpx2.Client) -> None:
    page = browser.get("/").text
    preloaded = re.findall(r'<link rel="modulepreload" href="console/([\w]+\.js)">', page)
    needed = {"app.js"}
    for _ in STATIC.glob("*.js"):
        for name in tuple(needed):
            needed |= set(re.findall(r'from "\./([\w]+\.js)"', (STATIC / name).read_text()))
    assert sorted(preloaded) == sorted(needed)


def test_the_page_may_run_its_own_scripts_and_nothing_else(browser: httpx2.Client) -> None:
    for path in ("/", "/console/app.js", "/console/console.css", "/console/icon.svg"):
        response = browser.get(path)
        assert response.status_code == 200
        policy = response.headers["Content-Security-Policy"]
        assert {part.strip() for part in policy.split(";")} >= {
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        }
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_a_file_is_sent_again_only_when_it_has_changed(browser: httpx2.Client) -> None:
    first = browser.get("/console/app.js")
    again = browser.get("/console/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = browser.get("/console/app.js", headers={"If-None-Match": '"of another version"'})
    assert other.content == first.content


@pytest.mark.parametrize("name", ["none.js", "..%2Fpages.py", "__init__.py", "%2e%2e"])
def test_there_is_nothing_but_the_files(browser: httpx2.Client, name: str) -> None:
    assert browser.get(f"/console/{name}").status_code == 404


def test_every_file_that_a_module_or_the_page_names_is_there(browser: httpx2.Client) -> None:
    named = re.findall(r'(?:href|src)="(console/[^"]+)"', browser.get("/").text)
    for module in STATIC.glob("*.js"):
        named += [f"console/{one}" for one in re.findall(r'from "\./([^"]+)"', module.read_text())]
    assert len(named) > 20
    for path in set(named):
        assert browser.get(f"/{path}").status_code == 200, path


def test_no_file_names_an_absolute_address_or_parses_markup() -> None:
    files = [file for file in STATIC.iterdir() if file.suffix in {".js", ".css", ".html"}]
    assert files
    for file in files:
        source = file.read_text()
        addresses = set(re.findall(r"https?://[\w.]+\b", source)) - {
            "http://www.w3.org",  # the name of SVG, never asked for
            "http://127.0.0.1",  # in a sentence
        }
        assert addresses == set(), file.name
        markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\("
        assert re.findall(markup, source) == [], file.name


def test_the_console_knows_every_status() -> None:
    shown = (STATIC / "format.js").read_text()
    assert [one for one in RunStatus if f"  {one}: [" not in shown] == []
    decided = (STATIC / "inbox.js").read_text()
    assert [one for one in STATUS_AFTER.values() if f"{one}: " not in decided] == []


# Signing in and out.


def test_a_key_is_traded_for_a_session_that_scripts_cannot_read(
    browser: httpx2.Client, project: Project
) -> None:
    made = project.new_key("runs:read", "approvals:decide")
    response = sign_in(browser, made["key"])
    cookie = response.headers["Set-Cookie"]
    assert cookie.startswith("runward=")
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert parts == {"httponly", "max-age=43200", "path=/", "samesite=strict"}
    assert made["key"] not in cookie
    shown = response.json()
    assert shown["key"] == {"id": made["id"], "name": made["name"]}
    assert shown["project"]["id"] == project.id
    assert shown["scopes"] == ["approvals:decide", "runs:read"]
    assert browser.get(SESSION).json() == shown


def test_over_https_the_cookie_is_bound_to_this_host(
    browser: httpx2.Client, project: Project
) -> None:
    key = project.new_key("runs:read")["key"]
    headers = {"Origin": "https://runs.example.com"}
    cookie = browser.post(SESSION, json={"key": key}, headers=headers).headers["Set-Cookie"]
    assert cookie.startswith("__Host-runward=")
    assert "; secure" in cookie.lower()


def test_nobody_is_signed_in_at_first(browser: httpx2.Client) -> None:
    response = browser.get(SESSION)
    assert (response.status_code, response.content) == (204, b"")
    refused(browser.get("/v1/runs"), 401, "unauthenticated")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"key": "rw_of_nobody"}', 401, "unauthenticated"),
        (b'{"key": ""}', 422, "invalid_request"),
        (b'{"key": 1}', 422, "invalid_request"),
        (b'{"key": "a", "more": 1}', 422, "invalid_request"),
        (b"{", 422, "invalid_request"),
        (b"\xff", 422, "invalid_request"),
        (b'{"key": "%s"}' % (b"a" * 5000), 413, "payload_too_large"),
    ],
)
def test_what_is_no_key_opens_no_session(
    browser: httpx2.Client, body: bytes, status: int, code: str
) -> None:
    response = browser.post(SESSION, content=body)
    refused(response, status, code)
    assert "Set-Cookie" not in response.headers


async def test_a_key_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "READ_SECONDS", 0.05)
    pieces = iter([{"type": "http.request", "body": b'{"key', "more_body": True}])

    async def receive() -> Message:
        for piece in pieces:
            return piece
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(10):
        with pytest.raises(RequestTimeoutError):
            await session.read_key(Request({"type": "http", "headers": []}, receive))


def test_another_page_cannot_sign_anybody_in_or_out(
    browser: httpx2.Client, project: Project
) -> None:
    made = signed_in(browser, project)
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        response = browser.post(SESSION, json={"key": made["key"]}, headers=headers)
        refused(response, 403, "forbidden")
        refused(browser.delete(SESSION, headers=headers), 403, "forbidden")
    response = browser.post(SESSION, json={"key": made["key"]}, headers={"X-Runward-CSRF": ""})
    refused(response, 403, "forbidden")
    assert browser.get(SESSION).status_code == 200


def test_after_signing_out_the_cookie_is_worth_nothing(
    browser: httpx2.Client, project: Project
) -> None:
    signed_in(browser, project)
    assert browser.get("/v1/runs").status_code == 200
    kept = {"Cookie": f"runward={browser.cookies['runward']}"}
    assert browser.delete(SESSION).status_code == 204
    assert not browser.cookies
    refused(browser.get("/v1/runs", headers=kept), 401, "unauthenticated")
    assert browser.get(SESSION, headers=kept).status_code == 204
    assert browser.delete(SESSION, headers=kept).status_code == 204


def test_a_revoked_key_ends_its_sessions(browser: httpx2.Client, project: Project) -> None:
    admin = project.key("admin")
    made = signed_in(browser, project, "runs:read")
    admin.call("DELETE", f"/v1/keys/{made['id']}")
    # Not looked at under /v1 before, so that nothing is remembered.
    refused(browser.get("/v1/runs"), 401, "unauthenticated")
    assert browser.get(SESSION).status_code == 204


# What a session may do.


def test_a_session_may_what_its_key_may(browser: httpx2.Client, project: Project) -> None:
    signed_in(browser, project, "runs:read")
    assert browser.get("/v1/runs").status_code == 200
    run = {"model": "offline:rules", "input": "hello"}
    refused(browser.post("/v1/runs", json=run), 403, "insufficient_scope")


def test_a_session_sees_its_own_project_alone(
    browser: httpx2.Client, project: Project, other: Project
) -> None:
    run = other.client.start_run(model="offline:rules", input="hello")
    signed_in(browser, project)
    refused(browser.get(f"/v1/runs/{run['id']}"), 404, "run_not_found")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_the_api_takes_the_cookie_from_the_console_s_page_alone(
    browser: httpx2.Client, project: Project, site: str
) -> None:
    signed_in(browser, project)
    refused(browser.get("/v1/runs", headers={"Sec-Fetch-Site": site}), 403, "forbidden")
    run = {"model": "offline:rules", "input": "hello"}
    response = browser.post("/v1/runs", json=run, headers={"Sec-Fetch-Site": site})
    refused(response, 403, "forbidden")


def test_a_write_needs_its_header(browser: httpx2.Client, project: Project) -> None:
    signed_in(browser, project)
    run = {"model": "offline:rules", "input": "hello"}
    refused(browser.post("/v1/runs", json=run, headers={"X-Runward-CSRF": ""}), 403, "forbidden")
    assert project.client.call("GET", "/v1/runs")["data"] == []


def test_a_key_in_the_header_goes_before_the_cookie(
    browser: httpx2.Client, project: Project
) -> None:
    signed_in(browser, project)
    response = browser.get("/v1/runs", headers={"Authorization": "Bearer rw_of_nobody"})
    refused(response, 401, "unauthenticated")


def test_the_mcp_endpoint_takes_no_cookie(browser: httpx2.Client, project: Project) -> None:
    signed_in(browser, project)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert browser.post("/mcp", json=body).status_code == 401


def test_a_decision_in_the_console_is_the_key_s(browser: httpx2.Client, project: Project) -> None:
    project.tool("pay", approval="always")
    run = project.run(calls(call(1, "pay")), text("Done."), tools=["pay"], input="go")
    made = signed_in(browser, project, "runs:read", "approvals:decide")
    [approval] = browser.get("/v1/approvals", params={"status": "pending"}).json()["data"]
    decision = {"decision": "reject", "message": "No.", "digest": approval["digest"]}
    response = browser.post(f"/v1/approvals/{approval['id']}/decision", json=decision)
    assert response.json()["decided_by"] == made["id"]
    assert project.end(run)["output"] == "Done."
