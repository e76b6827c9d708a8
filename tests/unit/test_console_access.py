"""For which requests the console's cookie counts."""

import pytest

from runward.domain.errors import ForbiddenError
from runward.domain.registry.console_access import ensure_same_origin, session_token

OWN = {"sec-fetch-site": "same-origin"}
CSRF = {"x-runward-csrf": "1"}


@pytest.mark.parametrize(
    ("cookies", "public_url", "token"),
    [
        ("runward=t", "http://127.0.0.1:8080", "t"),
        ("__Host-runward=t", "http://127.0.0.1:8080", "t"),
        ("__Host-runward=t", "https://runs.example.com", "t"),
        ("a=b; runward=plain; __Host-runward=t", "http://127.0.0.1:8080", "t"),
        ("runward=first; runward=second", "http://127.0.0.1:8080", "first"),
        ("runward=t", "https://runs.example.com", None),
        ("Runward=t; xrunward=t; runward", "http://127.0.0.1:8080", None),
        ("runward=", "http://127.0.0.1:8080", None),
        (f"runward={'t' * 129}", "http://127.0.0.1:8080", None),
        ("", "http://127.0.0.1:8080", None),
    ],
)
def test_the_token_is_read_from_the_cookie_that_may_have_it(
    cookies: str, public_url: str, token: str | None
) -> None:
    assert session_token({"cookie": cookies}, public_url) == token


def test_without_cookies_there_is_no_token() -> None:
    assert session_token({}, "http://127.0.0.1:8080") is None


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_page_itself_may_read(method: str) -> None:
    ensure_same_origin(method, OWN)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE", "OPTIONS"])
def test_the_page_itself_may_write_with_the_header_alone(method: str) -> None:
    ensure_same_origin(method, OWN | CSRF)
    for headers in (OWN, OWN | {"x-runward-csrf": ""}):
        with pytest.raises(ForbiddenError, match="X-Runward-CSRF"):
            ensure_same_origin(method, headers)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("site", ["same-site", "cross-site", "none", "", None])
def test_whatever_another_page_asks_is_refused(method: str, site: str | None) -> None:
    headers = CSRF if site is None else CSRF | {"sec-fetch-site": site}
    with pytest.raises(ForbiddenError, match="Sec-Fetch-Site"):
        ensure_same_origin(method, headers)
